"""A cluster of core Workers in one process: immediate ports, a scripted coordinator, and a schedule drawn
from a seed.

Everything that could happen next (a frame of a link, an answer of the outside, a word of the coordinator, new
records) waits in a queue of its own; `run` takes from them at random until nothing is left, so every link is
in order and nothing else is. Answers to actions of the kinds in `held` wait until they are taken out of it.
What outlives a worker (journals, sinks, segments, sources) outlives it here.

Far smaller than the simulator: no faults of its own, no virtual time; a test says what happens.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from random import Random
from typing import Any

from flamestream.core.coordinator.epochs import PendingEpoch, next_index
from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.core.protocol import actions as act
from flamestream.core.protocol import events as ev
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.chain import Row
from flamestream.core.protocol.inventory import inventory_of, misfit
from flamestream.core.protocol.settings import FrontSettings, WorkerSettings
from flamestream.core.protocol.snapshot import FrontPosition, SegmentRef, SnapshotIndex
from flamestream.core.worker.worker import Worker
from flamestream.model.graph import Graph
from flamestream.model.ids import (
    Attempt,
    Epoch,
    Fence,
    LayoutVersion,
    Offset,
    SinkName,
    SourceName,
    WorkerId,
)  # fmt: skip
from flamestream.model.layout import Assignment, Layout
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.time import END, START, FrontId, Instant, Time, Timestamp
from support.core.coordinating import settings as coordinator_settings
from support.core.core_outcome import Sink, Source
from support.core.core_outside import Outside, P

DEAD = SinkName("dead")
MOST_STEPS = 200_000


class CoreCluster(Outside):
    """Workers, what is outside of them, and their coordinator's voice."""

    def __init__(
        self, graph: Graph, workers: int = 2, seed: int = 0, *, timed: Iterable[int] = (),
        run_length: int = 1, replayable: bool = True, slots: int = 16, parts: Parts = REFERENCE,
        **changes: Any,
    ) -> None:  # fmt: skip
        self.rng = Random(seed)
        self.graph, self.parts = graph.validated(), parts
        names = [vertex.name for vertex in graph.sources]
        fronts = (
            FrontSettings(FrontId(i), SourceName(name), i in set(timed), run_length, replayable)
            for i, name in enumerate(names)
        )
        self.settings = WorkerSettings(
            "job", slots, tuple(fronts), **{"heartbeat": 1 << 50, "probe": 1 << 50, **changes}
        )
        self.sources = {front.front: Source() for front in self.settings.fronts}
        self.journals: dict[FrontId, list[ev.Entry]] = {front.front: [] for front in self.settings.fronts}
        sinks = [SinkName(vertex.name) for vertex in graph.sinks]
        self.sinks = {
            name: Sink()
            for name in (sinks if self.settings.dead_letter is None else [*sinks, self.settings.dead_letter])
        }
        self.segments: dict[str, Sequence[Row]] = {}
        self.index: SnapshotIndex | None = None
        self.reached: list[FrontPosition] = []
        """What the coordinator has heard of how far fronts have come."""
        self.epoch = Epoch(0)
        self.now = Timestamp(1_000)
        self.workers: dict[WorkerId, Worker] = {}
        self.fence = Fence(Attempt(0), LayoutVersion(0))
        self.told: list[tuple[WorkerId, msg.ToCoordinator]] = []
        """What workers told the coordinator, all attempts."""
        self.done: list[tuple[WorkerId, act.Action]] = []
        """All actions, in order."""
        self.held: set[type] = set()
        self.silent: set[WorkerId] = set()
        """Workers that the coordinator's words do not reach for now."""
        self.spoil: Callable[[msg.Frame], list[msg.Frame]] = lambda frame: [frame]
        self._waiting: list[tuple[WorkerId, act.Action]] = []
        self._answers: dict[WorkerId, deque[ev.Event]] = {}
        self._words: dict[WorkerId, deque[ev.Event]] = {}
        self._links: dict[tuple[WorkerId, WorkerId], deque[msg.Frame]] = {}
        self._slow: set[tuple[WorkerId, WorkerId]] = set()
        """Links that wait until nothing else is to be done: what crosses them comes late."""
        self._born = 0
        for _ in range(workers):
            self.add()

    # --- workers and attempts -------------------------------------------------------------------------------

    def add(self) -> WorkerId:
        """A fresh worker, with no part in the layout yet."""
        name = WorkerId(f"w{self._born}")
        self._born += 1
        self.workers[name] = Worker(name, self.graph, self.settings, self.parts)
        self._answers[name], self._words[name] = deque(), deque()
        return name

    def crash(self, *names: WorkerId) -> None:
        """They are gone, with everything on its way to them."""
        for name in names:
            del self.workers[name], self._answers[name], self._words[name]
        self._links = {way: frames for way, frames in self._links.items() if set(way) <= set(self.workers)}
        self._waiting = [(name, action) for name, action in self._waiting if name in self.workers]

    def change(self, graph: Graph, drop: Collection[str] = ()) -> "CoreCluster":
        """Start the job anew with another graph of the same sources, if that can go on from its snapshot."""
        assert self.index is not None, "nothing is committed"
        workers, dead = len(self.workers), self.settings.dead_letter
        self.crash(*self.workers)
        self.graph = graph.validated()
        reason = misfit(self.index, graph.identity, inventory_of(graph, dead), drop)
        assert not reason, reason
        for vertex in graph.sinks:
            self.sinks.setdefault(SinkName(vertex.name), Sink())
        for _ in range(workers):
            self.add()
        return self.recover()

    def lay_out(self) -> Layout:
        """Slots and fronts in turn; drawn, so that recoveries move them."""
        names = self.rng.sample(list(self.workers), len(self.workers))
        owners = tuple(names[slot % len(names)] for slot in range(self.settings.slots))
        fronts = tuple(names[front % len(names)] for front in range(len(self.settings.fronts)))
        return Layout(LayoutVersion(self.fence.layout + 1), owners, fronts, names[-1])

    def recover(self) -> "CoreCluster":
        """A new attempt of all workers, up to Replay."""
        self.begin()
        self.seal()
        self.replay()
        return self

    def begin(self) -> None:
        """Up to Opened of all."""
        self.layout = self.lay_out()
        self.fence = Fence(Attempt(self.fence.attempt + 1), self.layout.version)
        cut, epoch = (START, Epoch(0)) if self.index is None else (self.index.cut, self.index.epoch)
        addresses = {name: str(name) for name in self.workers}
        self.say(
            msg.Recover(
                Assignment(self.fence, self.layout), addresses, "key", cut, epoch, self.index, self.reached
            )
        )
        self.run()

    def seal(self) -> None:
        """Up to Sealed of all."""
        assert len(self.heard(msg.Opened)) == len(self.layout.workers)
        cut = START if self.index is None else self.index.cut
        ends = (output.t_last for opened in self.heard(msg.Opened) for output in opened.outputs)
        released = {time for end in ends if end and (time := time_of_meta(Meta(end))) >= cut}
        self.say(msg.Seal(self.fence, sorted(released)))
        self.run()

    def replay(self) -> None:
        """Let go."""
        assert len(self.heard(msg.Sealed)) == len(self.layout.workers)
        cut = START if self.index is None else self.index.cut
        released = [time_of_meta(Meta(opened.t_last)) for opened in self.heard(msg.Opened)]
        self.say(
            msg.Replay(self.fence, max([cut, *released, *(sealed.last for sealed in self.heard(msg.Sealed))]))
        )

    # --- the coordinator ------------------------------------------------------------------------------------

    def say(self, message: msg.ToWorker) -> None:
        """To all workers, each hears it in its own time."""
        for words in self._words.values():
            words.append(ev.FromCoordinator(message))

    def heard(self, kind: type) -> list[Any]:
        """What workers of the current attempt said of this kind."""
        return [
            message
            for _, message in self.told
            if type(message) is kind and getattr(message, "fence", None) == self.fence
        ]

    def announce(self, compact: Sequence[SegmentRef] = ()) -> Epoch:
        """The next epoch."""
        self.epoch = Epoch(self.epoch + 1)
        self.say(msg.Announce(self.fence, self.epoch, list(compact)))
        return self.epoch

    def accepted(self) -> dict[WorkerId, msg.Accepted]:
        """Who has accepted the newest epoch."""
        answers = ((name, message) for name, message in self.told if isinstance(message, msg.Accepted))
        return {
            name: message
            for name, message in answers
            if (message.fence, message.epoch) == (self.fence, self.epoch)
        }

    def commit(self, say: bool = True) -> bool:
        """Commit the newest epoch if all have accepted it."""
        pending = PendingEpoch(self.epoch, self.fence, self.layout.workers, Instant(self.now))
        pending.cut = next(
            (taken.time for taken in self.heard(msg.CutTaken) if taken.epoch == self.epoch), None
        )
        pending.accepted = self.accepted()
        if not pending.complete():
            return False
        told = coordinator_settings(
            slots=self.settings.slots, graph=self.graph.identity,
            inventory=inventory_of(self.graph, self.settings.dead_letter),
        )  # fmt: skip
        self.index = next_index(self.index, pending, told)
        if say:
            self.say(msg.Committed(self.fence, self.epoch, self.index.cut))
        return True

    def save(self) -> None:
        """An epoch, from its announcement to all that follows from its commit."""
        self.announce()
        self.run()
        assert self.commit()
        self.run()

    def abort(self) -> None:
        self.say(msg.Abort(self.fence, self.epoch))

    # --- sources --------------------------------------------------------------------------------------------

    def feed(self, front: int, *records: Any) -> None:
        """New records of a front."""
        self.sources[FrontId(front)].records.extend(records)

    def end(self) -> None:
        """All sources are bounded, and at their end."""
        for source in self.sources.values():
            source.ended = True

    # --- the schedule ---------------------------------------------------------------------------------------

    def run(self, steps: int = MOST_STEPS) -> int:
        """Take what waits, in an order that the seed draws, until nothing is left (or so many steps are
        done)."""
        for step in range(steps):
            ready = self._ready()
            if not ready:
                return step
            self.rng.choice(ready)()
        assert steps < MOST_STEPS, "the cluster never comes to rest"
        return steps

    def step(self, name: WorkerId, *events: ev.Event) -> list[act.Action]:
        """One pass of one worker."""
        self.now = Timestamp(self.now + self.rng.randrange(1, 4))
        actions = self.workers[name].step(self.now, Instant(self.now), events)
        for action in actions:
            self.done.append((name, action))
            self._carry_out(name, action)
        return actions

    def _ready(self) -> list[Callable[[], object]]:
        ready: list[Callable[[], object]] = [
            partial(self._pass, n, self._answers[n]) for n in self.workers if self._answers[n]
        ]
        ready += [
            partial(self._pass, n, self._words[n])
            for n in self.workers
            if self._words[n] and n not in self.silent
        ]
        if self.rng.random() < 0.05:
            self._slow = {way for way in self._links if self.rng.random() < 0.4}
        ways = [way for way, frames in self._links.items() if frames]
        ready += [partial(self._frame, w) for w in ways if w not in self._slow]
        ready += [partial(self._records, f) for f, source in self.sources.items() if self._has_news(source)]
        first: dict[tuple[object, ...], int] = {}
        for index, (name, action) in enumerate(self._waiting):
            if type(action) not in self.held:
                first.setdefault(
                    (name, type(action), getattr(action, "front", None), getattr(action, "sink", None)), index
                )
        ready += [lambda i=i: self._release(i) for i in first.values()]  # type: ignore[misc]
        return ready or [partial(self._frame, w) for w in ways]

    def _pass(self, name: WorkerId, queue: deque[ev.Event]) -> None:
        count = self.rng.randint(1, len(queue))
        self.step(name, *(queue.popleft() for _ in range(count)))

    def _frame(self, way: tuple[WorkerId, WorkerId]) -> None:
        sender, receiver = way
        frames = self._links[way]
        events = [ev.FromPeer(sender, frames.popleft()) for _ in range(self.rng.randint(1, len(frames)))]
        self.step(receiver, *events)

    def _has_news(self, source: Source) -> bool:
        if source.follower not in self.workers:
            return False
        more = source.next < len(source.records)
        return (more and source.grant > 0) or (source.ended and not more and not source.told_end)

    def _records(self, front: FrontId) -> None:
        source = self.sources[front]
        assert source.follower is not None
        if source.next == len(source.records):
            source.told_end = True
            self.step(source.follower, ev.SourceEnded(source.fence, front))
            return
        count = self.rng.randint(1, min(source.grant, len(source.records) - source.next, 3))
        first, source.next = source.next, source.next + count
        source.grant -= count
        records = source.records[first : first + count]
        self.step(
            source.follower, ev.RecordsArrived(source.fence, front, P, Offset(first), records, 10 * count)
        )

    def _release(self, index: int) -> None:
        name, action = self._waiting.pop(index)
        self._answer(name, action)

    # --- what came of it ------------------------------------------------------------------------------------

    def failures(self) -> list[msg.Failed]:
        """What workers of the current attempt gave up for."""
        return self.heard(msg.Failed)

    @property
    def minimal(self) -> Time:
        """Of the acker's worker, as it told last."""
        return self.workers[self.layout.acker].cuts.minimal

    @property
    def complete(self) -> bool:
        return self.minimal == END


__all__ = ["DEAD", "CoreCluster", "P"]
