"""A batch worker, the real coordinator, and between them links that break: a schedule drawn from a seed.

The outside is a list: each run that there is adds its number to a sum, which is delivered. A batch ends where
the schedule says, not where the one before it did; one whose worker dies has delivered a part.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from flamestream.core.coordinator.coordination import FromWorker, Requested
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.actions import Exit, ToldCoordinator
from flamestream.core.protocol.events import FromCoordinator
from flamestream.core.protocol.snapshot import FrontPosition, SegmentRef, SlotOutput
from flamestream.core.worker.batch_worker import (
    BatchDone,
    BatchWorker,
    Beat,
    ComputeBatch,
    InputAhead,
    LookAhead,
    OpenSinks,
    SinksOpen,
)
from flamestream.model.ids import NO_FENCE, Fence, SequenceNumber, SinkName, Slot, WorkerId
from flamestream.model.meta import LEAST, meta_of
from flamestream.model.time import END, START, FrontId, Time, Timestamp
from support.core.coordinating import MS, Bench, successor

MOST_STEPS = 3_000
STEP = 1 << 12
PATIENCE = 1_000
"""Failures in a row: a schedule may have many."""


class Consumer:
    """What has been delivered, of one slot."""

    def __init__(self) -> None:
        self.had: list[tuple[int, int]] = []
        """(time of the run, sum)."""
        self.fence: Fence = NO_FENCE

    def give(self, time: int, value: int) -> None:
        """Once: what it had is compared."""
        if self.had and time <= self.had[-1][0]:
            assert (time, value) in self.had, f"{value} at {time} was delivered as another value"
        else:
            self.had.append((time, value))

    @property
    def output(self) -> SlotOutput:
        last = meta_of(Time(self.had[-1][0]), 0) if self.had else LEAST
        return SlotOutput(SinkName("out"), Slot(0), SequenceNumber(len(self.had)), bytes(last))


class BatchBench:
    """`run` to the job's end; then `consumer.had` is what there is."""

    def __init__(
        self, seed: int, kind: type[BatchWorker] = BatchWorker, *, runs: int = 12, faults: bool = True
    ) -> None:
        self.rng, self._kind, self._faults = Random(seed), kind, faults
        self.times = [(number + 1) * STEP for number in range(runs)]
        self.consumer = Consumer()
        self.states: dict[str, int] = {}
        self.bench = Bench(workers=1, slots=1, interval_us=300 * MS, failures=PATIENCE).say()
        self._lives = 0
        self._begin()

    def run(self) -> str:
        """The outcome."""
        for step in range(MOST_STEPS):
            if self.bench.finish is not None and self.bench.finish.outcome != "fenced":
                return self.bench.finish.outcome
            fault = self._faults and step < MOST_STEPS // 3 and self.rng.random() < 0.06
            self.rng.choice(self._all_faults() if fault else self._all_steps())()
        raise AssertionError(f"it does not end: {self.bench.status}")

    def drain(self) -> None:
        """Ask for it."""
        self.bench.say(Requested("drain"))

    # --- what may happen ------------------------------------------------------------------------------------

    def _all_steps(self) -> Sequence[Any]:
        return (self._hear, self._hear, self._work, self._work, self._beat, self._pass)

    def _all_faults(self) -> Sequence[Any]:
        return (self._crash, self._break_link, self._other_coordinator)

    def _pass(self) -> None:
        self.bench.sleep(self.rng.choice((20, 100, 300)) * MS)

    def _beat(self) -> None:
        self._step(Beat(Timestamp(self.bench.outside.now)))

    def _hear(self) -> None:
        """The worker hears the next of what it was told."""
        told = self.bench.told
        if self._heard < len(told):
            to, message = told[self._heard]
            self._heard += 1
            if to == self._name:
                self._step(FromCoordinator(message))

    def _work(self) -> None:
        """The outside does what was asked first."""
        if self._asked:
            self._step(self._done(self._asked.pop(0), whole=True))

    def _crash(self) -> None:
        if self._asked and self.rng.random() < 0.7:
            self._done(self._asked.pop(0), whole=False)
        self.bench.lose(self._name)
        self._begin()

    def _break_link(self) -> None:
        """What is under way is lost, both ways."""
        self.bench.lose(self._name)
        self._connect()

    def _other_coordinator(self) -> None:
        self.bench = successor(self.bench, f"n{self.rng.random()}", failures=PATIENCE)
        self._connect()

    # --- the worker and its outside -------------------------------------------------------------------------

    def _begin(self) -> None:
        """A new life."""
        self._lives += 1
        self._name = WorkerId(f"b{self._lives}")
        self._worker = self._kind(msg.Hello(self._name, "b:1", NO_FENCE, False, "3.11", "g"))
        self._asked: list[Any] = []
        self._connect()

    def _connect(self) -> None:
        self._heard = len(self.bench.told)
        hello = self._worker.hello()
        self.bench.connect(self._name, ready=hello.fence if hello.ready else None)

    def _step(self, event: Any) -> None:
        for action in self._worker.step([event]):
            match action:
                case ToldCoordinator(message):
                    self.bench.say(FromWorker(self._name, message))
                case Exit():
                    pass
                case _:
                    self._asked.append(action)

    def _done(self, asked: OpenSinks | LookAhead | ComputeBatch, *, whole: bool) -> Any:
        match asked:
            case OpenSinks(fence, _):
                assert fence >= self.consumer.fence
                self.consumer.fence = fence
                return SinksOpen(fence, self.consumer.output.t_last, [self.consumer.output])
            case LookAhead(fence, committed):
                left = [time for time in self.times if time >= committed]
                return InputAhead(fence, Time(left[0] + 1) if len(left) > 1 else END)
            case ComputeBatch():
                return self._computed(asked, whole)

    def _computed(self, asked: ComputeBatch, whole: bool) -> BatchDone:
        base = asked.committed
        left = [time for time in self.times if time >= base.cut]
        batch = left[: self.rng.randint(1, 4)]
        (name,) = [ref.name for ref in base.segments] or [""]
        value = self.states[name] if name else 0
        for time in batch if whole else batch[: self.rng.randint(0, len(batch))]:
            value += time // STEP
            if asked.fence >= self.consumer.fence:
                self.consumer.give(time, value)
        cut = Time(batch[-1] + 1) if len(batch) < len(left) else END
        fresh = f"s{len(self.states)}"
        self.states[fresh] = value
        position = FrontPosition(FrontId(0), Time(batch[-1]) if batch else START, {}, records=len(self.times))
        return BatchDone(
            asked.fence, cut, [SegmentRef(fresh, 1, "", 1, (Slot(0),))], [name] if name else [],
            [position], [self.consumer.output] if batch else [], len(batch),
        )  # fmt: skip
