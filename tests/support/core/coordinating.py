"""A coordinator on a bench: a job record, a store and scripted workers around the real machine, in virtual
time.

`say` gives it events and answers its requests to record and store until it asks for nothing more; what it
told the workers is in `told`. Requests of the kinds in `held` stay unanswered, so that a test can answer them
itself, or never.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from flamestream.core.coordinator.coordination import (
    Action,
    DeleteObjects,
    Event,
    Finish,
    FromWorker,
    IndexBroken,
    IndexLoaded,
    IndexWritten,
    ReadIndex,
    ReadRecord,
    RecordConflict,
    RecordRead,
    RecordWritten,
    Report,
    Settings,
    Status,
    Tell,
    WakeAt,
    Woken,
    WorkerConnected,
    WorkerDisconnected,
    WriteIndex,
    WriteRecord,
)
from flamestream.core.coordinator.coordinator import Coordinator
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import FrontPosition, SegmentRef, SlotOutput, SnapshotIndex
from flamestream.model.ids import NO_FENCE, Epoch, Fence, WorkerId
from flamestream.model.time import END, START, Instant, Time

MS = 1_000
SECOND = 1_000_000


def settings(**changes: Any) -> Settings:
    """Two workers, four slots, one front."""
    return Settings(**{**BASE, **changes})


BASE: dict[str, Any] = {
    "job": "j",
    "graph": "g",
    "python": "3.11",
    "workers": 2,
    "fronts": 1,
    "slots": 4,
    "interval_us": SECOND,
}


class Outside:
    """What outlives a coordinator: record, objects, time."""

    def __init__(self) -> None:
        self.now = Instant(1_000 * SECOND)
        self.record: JobRecord | None = None
        self.version: int | None = None
        self.objects: dict[str, SnapshotIndex] = {}
        self.deleted: list[str] = []

    def hash(self, name: str) -> str:
        return hashlib.sha256(msgspec.msgpack.encode(self.objects[name])).hexdigest()

    def write(self, record: JobRecord, version: int | None) -> bool:
        """Compare-and-set."""
        if version != self.version:
            return False
        self.record, self.version = record, (self.version or 0) + 1
        return True


class Bench:
    """One coordinator's life."""

    def __init__(
        self,
        outside: Outside | None = None,
        nonce: str = "n1",
        kind: type[Coordinator] = Coordinator,
        **changes: Any,
    ) -> None:
        self.outside = outside or Outside()
        self.settings = settings(**changes)
        self.coordinator = kind(self.settings, "secret", nonce)
        self.held: set[type] = set()
        self.pending: list[Action] = []
        """Requests held back."""
        self.told: list[tuple[WorkerId, Any]] = []
        self.actions: list[Action] = []
        self.finish: Finish | None = None
        self.status = Status(phase="starting")
        self.alarm: Instant | None = None

    # --- time and events ---

    def say(self, *events: Event, after_us: int = 0) -> "Bench":
        """`after_us` later, these events in one step; then answer what is asked for."""
        self.outside.now = Instant(self.outside.now + after_us)
        queue = self._step(events or (Woken(),))
        while queue:
            queue = [*queue[1:], *self._step([queue[0]])]
        return self

    def release(self, action: Action) -> "Bench":
        """Do what was held back, and say its answer."""
        answer = self.carry_out(action, force=True)
        assert answer is not None
        return self.say(answer)

    @property
    def end(self) -> Finish:
        """How it ended."""
        assert self.finish is not None, "it goes on"
        return self.finish

    def sleep(self, us: int) -> "Bench":
        """Let time pass, waking the coordinator when it asked for it and at the end."""
        until = self.outside.now + us
        for _ in range(10_000):
            if self.alarm is None or self.alarm > until:
                break
            self.say(after_us=max(0, self.alarm - self.outside.now))
        else:
            raise AssertionError("it asks to be woken without end")
        return self.say(after_us=max(0, until - self.outside.now))

    def _step(self, events: Iterable[Event]) -> list[Event]:
        if self.alarm is not None and self.outside.now >= self.alarm:
            self.alarm = None
        actions = self.coordinator.step(self.outside.now, list(events))
        self.actions += actions
        return [answer for action in actions if (answer := self.carry_out(action)) is not None]

    def carry_out(self, action: Action, *, force: bool = False) -> Event | None:
        """Do it; its answer."""
        if type(action) in self.held and not force:
            self.pending.append(action)
            return None
        match action:
            case ReadRecord():
                return RecordRead(self.outside.record, self.outside.version)
            case WriteRecord(record, version):
                written = self.outside.write(record, version)
                return RecordWritten(self.outside.version or 0) if written else RecordConflict()
            case WriteIndex(name, index):
                assert name not in self.outside.objects, f"{name} is written twice"
                self.outside.objects[name] = index
                return IndexWritten(name, self.outside.hash(name))
            case ReadIndex(name, hash_):
                if name not in self.outside.objects or self.outside.hash(name) != hash_:
                    return IndexBroken(name, "corrupt", "damaged or missing")
                return IndexLoaded(name, self.outside.objects[name])
            case _:
                self._note(action)
        return None

    def _note(self, action: Action) -> None:
        """Actions without an answer."""
        match action:
            case DeleteObjects(names):
                self.outside.deleted += names
            case Tell(worker, message):
                self.told.append((worker, message))
            case Finish():
                self.finish = action
            case Report(status):
                self.status = status
            case WakeAt(time):
                self.alarm = time

    # --- what the workers say ---

    @property
    def record(self) -> JobRecord:
        assert self.outside.record is not None
        return self.outside.record

    @property
    def fence(self) -> Fence:
        return self.record.fence

    @property
    def workers(self) -> tuple[WorkerId, ...]:
        return self.record.layout.workers

    def hello(
        self,
        worker: str,
        fence: Fence = NO_FENCE,
        *,
        ready: bool = False,
        graph: str = "g",
        python: str = "3.11",
        code: str = "",
        vocabulary: str = "",
    ) -> WorkerConnected:
        name = WorkerId(worker)
        hello = msg.Hello(
            name, f"{worker}:1", fence, ready, python, graph, code, vocabulary=vocabulary
        )  # fmt: skip
        return WorkerConnected(hello)

    def connect(self, *workers: str, ready: Fence | None = None, vocabulary: str = "") -> "Bench":
        for worker in workers:
            self.say(self.hello(worker, ready or NO_FENCE, ready=ready is not None, vocabulary=vocabulary))
        return self

    def lose(self, *workers: str, after_us: int = 0) -> "Bench":
        return self.say(*(WorkerDisconnected(WorkerId(worker)) for worker in workers), after_us=after_us)

    def hear(self, worker: str, message: Any, after_us: int = 0) -> "Bench":
        return self.say(FromWorker(WorkerId(worker), message), after_us=after_us)

    def opened(
        self,
        worker: str,
        t_last: bytes = b"",
        outputs: Iterable[SlotOutput] = (),
        fence: Fence | None = None,
    ) -> "Bench":
        return self.hear(worker, msg.Opened(fence or self.fence, t_last, list(outputs)))

    def sealed(self, worker: str, last: Time = START, fence: Fence | None = None) -> "Bench":
        return self.hear(worker, msg.Sealed(fence or self.fence, last))

    def recover(self, outputs: Iterable[SlotOutput] = ()) -> "Bench":
        """Every worker of the layout goes through the recovery."""
        outputs = list(outputs)
        for worker in self.workers:
            self.opened(worker, outputs=outputs)
        for worker in self.workers:
            self.sealed(worker)
        return self

    def progress(
        self, worker: str, minimal: int = 0, *, settled: int | None = None, oldest: Time = END,
        ended: bool = False, problem: str = "", items_in: int = 0, warm: bool = False, drained: bool = False,
        reached: Iterable[FrontPosition] = (), after_us: int = 0, errors: int = 0, replay_us: int = 0,
    ) -> "Bench":  # fmt: skip
        time, done = Time(minimal), Time(minimal if settled is None else settled)
        report = msg.Progress(
            self.fence,
            time,
            done,
            oldest,
            items_in,
            0,
            problem,
            ended,
            warm=warm,
            drained=drained,
            reached=list(reached),
            errors=errors,
            replay_us=replay_us,
        )
        return self.hear(worker, report, after_us)

    def beat(self, minimal: int = 0, **changes: Any) -> "Bench":
        """Every worker reports."""
        for worker in self.workers:
            self.progress(worker, minimal, **changes)
        return self

    def run_for(self, us: int, minimal: int = 0, **changes: Any) -> "Bench":
        """Time passes with heartbeats."""
        for _ in range(us // (100 * MS)):
            self.sleep(100 * MS)
            self.beat(minimal, **changes)
        return self

    def accept(
        self, worker: str, cut: int, *, epoch: int | None = None, segments: Iterable[SegmentRef] = (),
        replaced: Iterable[str] = (), fronts: Iterable[FrontPosition] = (),
        outputs: Iterable[SlotOutput] = (),
    ) -> "Bench":  # fmt: skip
        number = Epoch(self.record.announced if epoch is None else epoch)
        answer = msg.Accepted(
            self.fence, number, Time(cut), list(segments), list(replaced), list(fronts), list(outputs)
        )
        return self.hear(worker, answer)

    def cut(self, time: int, epoch: int | None = None) -> "Bench":
        number = Epoch(self.record.announced if epoch is None else epoch)
        return self.hear(self.record.layout.acker, msg.CutTaken(self.fence, number, Time(time)))

    def epoch(self, cut: int, **parts: Any) -> "Bench":
        """One epoch from its announcement to its commit; `parts` are the first worker's."""
        self.run_for(self.settings.interval_us or 0, cut)
        assert self.last(msg.Announce) is not None, "no epoch was announced"
        self.cut(cut)
        for place, worker in enumerate(self.workers):
            self.accept(worker, cut, **(parts if place == 0 else {}))
        return self

    def saved(self, cut: int) -> "Bench":
        """The epoch that was announced is committed at `cut`."""
        self.cut(cut)
        for worker in tuple(self.workers):
            self.accept(worker, cut)
        return self

    # --- what they were told ---

    def last(self, kind: type, worker: str | None = None) -> Any:
        """The newest message of this kind; None if there was none."""
        found = [message for to, message in self.told if isinstance(message, kind) and worker in (None, to)]
        return found[-1] if found else None

    def count(self, kind: type) -> int:
        """How many of this kind were told since the last `clear`."""
        return sum(isinstance(message, kind) for _, message in self.told)

    def clear(self) -> "Bench":
        self.told.clear()
        self.actions.clear()
        return self


def running(*workers: str, **changes: Any) -> Bench:
    """A job that has started and runs, with `workers`."""
    names = workers or ("a", "b")
    bench = Bench(**{"workers": len(names), **changes}).say()
    return bench.connect(*names).recover().clear()


def successor(bench: Bench, nonce: str = "n2", **changes: Any) -> Bench:
    """A new coordinator with the record and store as they stand."""
    own = {name: getattr(bench.settings, name) for name in BASE}
    return Bench(bench.outside, nonce, **{**own, **changes}).say()
