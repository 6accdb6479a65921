"""Batch worker: a job whose results leave by the batch, as its coordinator knows it: one worker that has all
slots and all fronts.

An epoch is a batch. The outside computes and delivers it as one piece of work (spark/batches), from the
committed snapshot up to a cut of its own choice; what it says then is this worker's acceptance. So start,
takeover, drain, savepoints and ends are the coordinator's, as of every job.

    Recover -> open every sink        Announce -> compute and deliver -> CutTaken, Accepted
    Seal, Replay -> running           Committed -> the next batch begins there

Keeps: a batch begins at the committed cut; one that is through and whose epoch is aborted answers the next
one; nothing is computed behind a drain. Does not: compute, deliver, or say what there is to be read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

import msgspec

from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.actions import Exit, ToldCoordinator
from flamestream.core.protocol.events import FromCoordinator
from flamestream.core.protocol.inventory import next_inventory, other_order
from flamestream.core.protocol.snapshot import (
    FrontPosition,
    Inventory,
    SegmentRef,
    SlotOutput,
    SnapshotIndex,
)
from flamestream.model.ids import NO_FENCE, Epoch, Fence
from flamestream.model.time import END, START, Time, Timestamp

NOTHING: Final = SnapshotIndex(
    job="", graph="", python="", slots=0, epoch=Epoch(0), fence=NO_FENCE, cut=START, segments=(), fronts=(),
    outputs=(),
)  # fmt: skip
"""Where a job begins that has committed nothing."""


def behind(index: SnapshotIndex, batch: "BatchDone", epoch: Epoch, ours: Inventory | None) -> SnapshotIndex:
    """The index when `batch` is committed as `epoch`, as far as the next batch needs it. `ours`: the inventory of
    the graph that runs."""
    kept = [segment for segment in index.segments if segment.name not in batch.replaced]
    return msgspec.structs.replace(
        index, epoch=epoch, cut=batch.cut, segments=(*kept, *batch.segments),
        fronts=tuple(batch.fronts) or index.fronts, inventory=next_inventory(index, ours),
    )  # fmt: skip


# --- events: what the outside says; beside these, what the coordinator says ---------------------------------


@dataclass(frozen=True, slots=True)
class SinksOpen:
    """Every slot of every sink is open under `fence`."""

    fence: Fence
    t_last: bytes
    outputs: list[SlotOutput]


@dataclass(frozen=True, slots=True)
class InputAhead:
    """There is input up to `cut`; up to the committed one: nothing; END: there is and will be no more."""

    fence: Fence
    cut: Time


@dataclass(frozen=True, slots=True)
class BatchDone:
    """A batch is with its consumers, and its states are in the store."""

    fence: Fence
    cut: Time
    segments: list[SegmentRef]
    replaced: list[str]
    fronts: list[FrontPosition]
    outputs: list[SlotOutput]
    delivered: int = 0


@dataclass(frozen=True, slots=True)
class OutsideFailed:
    """The outside has failed at what it was asked; `category` is of `model.errors`."""

    fence: Fence
    category: str
    message: str


@dataclass(frozen=True, slots=True)
class Beat:
    """It is time for a report. `memory`: bytes of the process."""

    now: Timestamp
    memory: int = 0


Event = FromCoordinator | SinksOpen | InputAhead | BatchDone | OutsideFailed | Beat


# --- actions: what the outside must do, one at a time -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenSinks:
    """Give up what an older fence is at, and open all sinks under this one. Answer: SinksOpen."""

    fence: Fence
    index: SnapshotIndex
    """The committed one, or NOTHING."""


@dataclass(frozen=True, slots=True)
class LookAhead:
    """Look for input behind the committed cut. Answer: InputAhead."""

    fence: Fence
    committed: Time


@dataclass(frozen=True, slots=True)
class ComputeBatch:
    """Compute and deliver what there is behind `committed`. Answer: BatchDone."""

    fence: Fence
    epoch: Epoch
    committed: SnapshotIndex


Action = ToldCoordinator | Exit | OpenSinks | LookAhead | ComputeBatch


class BatchWorker:
    """Every event but a Beat is of the current fence, or changes nothing."""

    def __init__(self, hello: msg.Hello) -> None:
        """`hello`: what is always true of it."""
        self.fence: Fence = NO_FENCE
        self._hello = hello
        self._actions: list[Action] = []
        self._delivered = self._bundles = self._reported = 0
        """Results that consumers have acknowledged, bundles (one a slot and batch), and results that were
        reported."""
        self._memory = 0
        self._begin(None)

    def hello(self) -> msg.Hello:
        """The first message on a connection."""
        ready = self._running and not self._failure and not self._drained
        return msgspec.structs.replace(self._hello, fence=self.fence, ready=ready)

    def step(self, events: Sequence[Event]) -> list[Action]:
        """Take what happened; what must be done, in order."""
        for event in events:
            match event:
                case FromCoordinator(message):
                    self._hear(message)
                case Beat(now, memory):
                    self._report(now, memory)
                case _ if event.fence == self.fence:
                    self._hear_outside(event)
        self._go_on()
        taken, self._actions = self._actions, []
        return taken

    def _begin(self, index: SnapshotIndex | None) -> None:
        self._committed = index or NOTHING
        self._ahead = self._committed.cut
        self._running = self._busy = self._drained = False
        self._announced: Epoch | None = None
        self._batch: BatchDone | None = None
        """The batch behind the committed cut, once it is through."""
        self._accepted: Epoch | None = None
        """The epoch that it was told as last."""
        self._failure = ""

    # --- what is heard --------------------------------------------------------------------------------------

    def _hear(self, message: msg.ToWorker) -> None:
        match message:
            case msg.Recover():
                self.fence = message.assignment.fence
                self._begin(message.index)
                self._busy = True
                if other := other_order(self._hello.inventory, message.sources):
                    self._tell(msg.Failed(self.fence, "user", other))
                else:
                    self._actions.append(OpenSinks(self.fence, self._committed))
            case msg.Stop(reason):
                self._actions.append(Exit("", reason))
            case msg.Warm():
                pass  # a batch reads what it needs of a snapshot where its tasks run
            case _ if message.fence == self.fence:
                self._hear_attempt(message)

    def _hear_attempt(
        self, message: msg.Seal | msg.Replay | msg.Announce | msg.Committed | msg.Abort | msg.Drain
    ) -> None:
        match message:
            case msg.Seal():
                self._tell(msg.Sealed(self.fence, self._committed.cut))
            case msg.Replay():
                self._running = True
            case msg.Announce():
                self._announced = message.epoch
            case msg.Committed():
                if self._batch is not None and message.epoch == self._accepted:
                    self._committed = behind(
                        self._committed, self._batch, message.epoch, self._hello.inventory
                    )
                    self._batch, self._accepted = None, None
            case msg.Abort():
                if self._announced == message.epoch:
                    self._announced = None
            case msg.Drain():
                self._drained = True
            case _:
                assert_never(message)

    def _hear_outside(self, event: SinksOpen | InputAhead | BatchDone | OutsideFailed) -> None:
        self._busy = False
        match event:
            case SinksOpen():
                self._tell(msg.Opened(self.fence, event.t_last, event.outputs))
            case InputAhead():
                self._ahead = event.cut
            case BatchDone():
                self._batch = event
                self._delivered += event.delivered
                self._bundles += len(event.outputs)
            case OutsideFailed():
                self._failure = event.message
                self._tell(msg.Failed(self.fence, event.category, event.message))
            case _:
                assert_never(event)

    # --- what follows ---------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Do for the announced epoch what can be done now."""
        if self._announced is None or not self._running:
            return
        if self._failure:
            self._tell(msg.Refused(self.fence, self._announced, self._failure))
            self._announced = None
        elif self._batch is not None:
            self._accept(self._batch)
        elif not self._busy and (self._drained or self._ahead <= self._committed.cut):
            self._batch = BatchDone(self.fence, self._committed.cut, [], [], [], [])
            self._accept(self._batch)
        elif not self._busy:
            self._busy = True
            self._actions.append(ComputeBatch(self.fence, self._announced, self._committed))

    def _accept(self, batch: BatchDone) -> None:
        assert self._announced is not None, "an epoch that nobody has announced"
        epoch, self._accepted, self._announced = self._announced, self._announced, None
        self._tell(msg.CutTaken(self.fence, epoch, batch.cut))
        if batch.cut == END:  # before the last acceptance (!): behind it the job may have ended
            self._tell_progress(batch.fronts or self._committed.fronts)
        self._tell(
            msg.Accepted(
                self.fence, epoch, batch.cut, batch.segments, batch.replaced, batch.fronts, batch.outputs
            )
        )  # fmt: skip

    def _report(self, now: Timestamp, memory: int) -> None:
        """Say where it stands, and look for more where nothing is being done."""
        self._memory = memory
        if not self._running:
            return
        committed = self._committed.cut
        self._tell_progress(self._committed.fronts, [(now, now)] if self._delivered > self._reported else [])
        self._reported = self._delivered
        idle = not (self._busy or self._drained or self._failure)
        if idle and self._batch is None and self._ahead <= committed != END:
            self._busy = True
            self._actions.append(LookAhead(self.fence, committed))

    def _tell_progress(
        self, fronts: Iterable[FrontPosition], given: Sequence[tuple[Timestamp, Timestamp]] = ()
    ) -> None:
        """Say where it stands with all records below `fronts`."""
        committed = self._committed.cut
        minimal = committed if self._drained else max(self._ahead, committed)
        self._tell(
            msg.Progress(
                self.fence, minimal, committed, END, sum(front.records for front in fronts), self._delivered,
                ended=minimal == END, memory=self._memory, drained=self._drained, bundles=self._bundles,
                given=[*given],
            )
        )  # fmt: skip

    def _tell(self, message: msg.ToCoordinator) -> None:
        self._actions.append(ToldCoordinator(message))
