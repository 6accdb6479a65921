"""Epochs: announce, gather what the workers accept, write the index, commit by one write of the job
record.

One epoch is pending at a time, and goes through four stages:

    announcing  the number is being written into the record: whoever comes later uses a greater one
    gathering   all workers were told; the acker's worker says where it cut (decision 003), each accepts when
                its part is durable and every sink has acknowledged all output below the cut
    writing     the index, under a name that nobody else can use
    committing  the record names the index: this write, and nothing else, is the commit

Until `committing` an epoch can be aborted; from then on only the record says what became of it.

Keeps: the committed epoch and the cut never go back; nothing is committed that a worker has not accepted;
objects are removed by name, after the commit that made them superfluous (invariant 5). A number is used once.
Does not: say when (coordinator.py does, by calling `announce`); decide who takes part (the layout).
"""

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final, Protocol

import msgspec

from flamestream.core.coordinator.compaction import to_compact
from flamestream.core.coordinator.context import Context
from flamestream.core.coordinator.coordination import (
    DeleteObjects,
    IndexFailed,
    IndexWritten,
    Settings,
    WriteIndex,
)
from flamestream.core.protocol.inventory import known_fronts, next_inventory
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.messages import Abort, Accepted, Announce, Committed, CutTaken
from flamestream.core.protocol.snapshot import CodeSpan, SegmentRef, SnapshotIndex
from flamestream.model.backoff import Backoff
from flamestream.model.errors import Bug
from flamestream.model.ids import Epoch, Fence, WorkerId
from flamestream.model.time import START, Instant, Time

AGAIN_US = Backoff(100_000, 5_000_000)
MOST_REFUSALS: Final = 3
"""After so many in a row nothing waits for an epoch. A single one says little: a cut has overtaken the word on the
epoch before."""


class Stage(enum.Enum):
    """The stage that a pending epoch has come to."""

    ANNOUNCING = enum.auto()
    GATHERING = enum.auto()
    WRITING = enum.auto()
    COMMITTING = enum.auto()


class Turn(Protocol):
    """A successor from an epoch's cut on: other code (upgrade.py), another job, or the same with slots moved."""

    @property
    def pauses(self) -> bool:
        """Whether nothing enters until the epoch is decided; else minimal time is held at its cut."""
        ...

    def turned(self, record: JobRecord) -> JobRecord:
        """The record that commits the epoch, made the next attempt's."""
        ...

    def refuses(self, index: SnapshotIndex, record: JobRecord) -> str:
        """The reason why it cannot go on from an epoch with this index; "" if it can."""
        ...

    def fitted(self, index: SnapshotIndex) -> SnapshotIndex:
        """The index, without what is let go."""
        ...

    def made(self) -> None:
        """It is in the record."""
        ...


class PendingEpoch:
    """An epoch on its way: its cut, and who has accepted it."""

    def __init__(
        self, number: Epoch, fence: Fence, workers: Iterable[WorkerId], since: Instant,
        turn: Turn | None = None,
    ) -> None:  # fmt: skip
        self.number, self.fence, self.workers, self.since = number, fence, tuple(workers), since
        self.turn = turn
        """The successor from its cut on; None: this attempt goes on."""
        self.stage = Stage.ANNOUNCING
        self.cut: Time | None = None
        self.accepted: dict[WorkerId, Accepted] = {}
        self.name = ""
        """Name of its index."""
        self.index: SnapshotIndex | None = None

    def complete(self) -> bool:
        """Whether every worker has accepted it at the cut."""
        return self.cut is not None and self._all_accepted() and self._same_cut()

    def _all_accepted(self) -> bool:
        return all(worker in self.accepted for worker in self.workers)

    def _same_cut(self) -> bool:
        for worker, accepted in self.accepted.items():
            if accepted.cut != self.cut:
                raise Bug(
                    f"{worker} accepted epoch {self.number} at cut {accepted.cut}, "
                    f"but the acker cut it at {self.cut}"
                )
        return True


def next_index(
    previous: SnapshotIndex | None, epoch: PendingEpoch, settings: Settings, sources: Sequence[str] = ()
) -> SnapshotIndex:
    """The previous snapshot with what the workers have added and replaced; of fronts and outputs the newest
    counts. `sources`: whose each front is; none: they go by the graph's order."""
    assert epoch.cut is not None, "an index of an epoch that is not cut"
    answers = [epoch.accepted[worker] for worker in sorted(epoch.accepted)]
    # merged: their rows are in `segments` of the same answers
    replaced = {name for answer in answers for name in answer.replaced}
    old = [segment for segment in (previous.segments if previous else ()) if segment.name not in replaced]
    fronts = {position.front: position for position in (previous.fronts if previous else ())}
    fronts.update((position.front, position) for answer in answers for position in answer.fronts)
    outputs = {(output.sink, output.slot): output for output in (previous.outputs if previous else ())}
    outputs.update(((output.sink, output.slot), output) for answer in answers for output in answer.outputs)
    return SnapshotIndex(
        job=settings.job, graph=settings.graph, python=settings.python, slots=settings.slots,
        epoch=epoch.number, fence=epoch.fence, cut=epoch.cut,
        segments=(*old, *(segment for answer in answers for segment in answer.segments)),
        fronts=tuple(fronts[front] for front in sorted(fronts)),
        outputs=tuple(outputs[key] for key in sorted(outputs)),
        held=tuple(segment for answer in answers for segment in answer.held),
        requests=tuple(segment for answer in answers for segment in answer.requests),
        code=spans_of(previous, settings.code),
        inventory=next_inventory(previous, settings.inventory, sources),
    )  # fmt: skip


def spans_of(previous: SnapshotIndex | None, code: str) -> tuple[CodeSpan, ...]:
    """The applications that made what, when the one with digest `code` has gone on from the snapshot
    before."""
    spans = previous.code if previous else ()
    if not code or (spans and spans[-1].digest == code):
        return spans
    return (*spans, CodeSpan(previous.cut if previous else START, code))


def superseded(previous: SnapshotIndex | None, name: str, new: SnapshotIndex) -> list[str]:
    """Objects that the previous index (and only it) needed, and itself."""
    if previous is None:
        return []
    kept = {segment.name for segment in new.segments}
    return [
        *(segment.name for segment in previous.segments if segment.name not in kept),
        # with its consumers by now, or the new epoch would not have been accepted (held_outputs.py)
        *(segment.name for segment in (*previous.held, *previous.requests)),
        name,
    ]


class Epochs:
    """The pending epoch, if any. The coordinator tells it what it hears; it says Announce, Committed and
    Abort to the workers."""

    pending_type: ClassVar[type[PendingEpoch]] = PendingEpoch

    def __init__(self, context: Context) -> None:
        self.pending: PendingEpoch | None = None
        self.since = Instant(0)
        """The moment at which the last epoch was announced, or the stream began to run."""
        self.problem = ""
        self._closing: Epoch | None = None
        """The epoch that was committed when a turn was first wanted, or its last try began: a later one leaves
        little to save."""
        self._refusals = 0
        """Epochs in a row that could not be saved."""
        self._context, self._instructions, self._deadlines, self._keeper, self._committed = (
            context, context.instructions, context.time, context.keeper, context.committed,
        )  # fmt: skip
        self._nonce = context.nonce

    @property
    def _settings(self) -> Settings:
        return self._context.settings

    @property
    def is_committing(self) -> bool:
        """Whether only the record can say what becomes of the pending epoch."""
        return self.pending is not None and self.pending.stage is Stage.COMMITTING

    def consider(self, *, urgent: bool, turn: Turn | None = None) -> bool:
        """Announce the next epoch if it is time and something has happened since the last; whether it was.
        `urgent` waits for neither. `turn`: other code goes on from its cut."""
        interval = self._settings.interval_us
        if (
            interval is None
            or self.pending
            or not self._keeper.idle
            # the next index is made from the last one
            or not self._committed.known(self._context.record)
        ):
            return False
        moved = self._context.minimal > self._context.record.cut
        # refusals slow down an urgent one too: a store that is away is not asked all the time
        if not (moved or urgent) or not self._deadlines.due_in(
            self.since, max(AGAIN_US.after(self._refusals), 0 if urgent else interval)
        ):
            return False
        self._announce(turn)
        return True

    @property
    def saves(self) -> bool:
        """Whether there are epochs, and they come to their commits."""
        return self._settings.interval_us is not None and self._refusals < MOST_REFUSALS

    def turn(self, turn: Turn) -> bool:
        """Take a step towards an epoch that `turn` goes on from; whether that was announced now. An ordinary
        one comes first, so that little is left to save."""
        record = self._context.record
        if self._closing is None:
            self._closing = record.committed
        if record.committed == self._closing and self._context.minimal > record.cut:
            self.consider(urgent=True)
        elif self.consider(urgent=True, turn=turn):
            # (!) If it comes to nothing an ordinary one is next: the stream must not wait for a turn.
            self._closing = record.committed
            return True
        return False

    def turn_later(self) -> None:
        """A turn is not wanted now: the next one begins with an ordinary epoch."""
        self._closing = None

    def is_turning(self, turn: Turn) -> bool:
        """Whether the pending epoch is one that `turn` goes on from."""
        return self.pending is not None and self.pending.turn is turn

    def _announce(self, turn: Turn | None) -> None:
        """Begin an epoch: its number goes into the record before anybody hears of it (!), so none is used
        twice."""
        record = self._context.record
        number = self._next_epoch_number(record)
        self.since = self._deadlines.now
        self.pending = self.pending_type(number, record.fence, record.layout.workers, self.since, turn)
        self._keeper.write(
            msgspec.structs.replace(record, announced=number, writer=self._nonce),
            self._on_stage(self._announced),
        )

    def cut_taken(self, worker: WorkerId, message: CutTaken) -> None:
        """The acker's worker has cut."""
        epoch = self._gathering(message.epoch)
        record = self._context.record
        if epoch and worker == record.layout.acker:
            if message.time < record.cut:
                raise Bug(
                    f"epoch {epoch.number} was cut at {message.time}, below the committed cut {record.cut}"
                )
            epoch.cut = message.time
            # acceptances have links of their own, and may all have come before
            self._write_if_complete(epoch)

    def accepted(self, worker: WorkerId, message: Accepted) -> None:
        """A worker's part is durable and its output acknowledged."""
        if epoch := self._gathering(message.epoch):
            epoch.accepted[worker] = message
            self._write_if_complete(epoch)

    def refused(self, worker: WorkerId, number: Epoch, reason: str) -> None:
        """A worker cannot accept the epoch `number`."""
        if self._gathering(number):
            self._not_saved(f"{worker}: {reason}")

    def index_written(self, event: IndexWritten) -> None:
        """The index is durable: commit."""
        epoch = self.pending
        if epoch and epoch.stage is Stage.WRITING and epoch.name == event.name and epoch.cut is not None:
            # the record is being read because somebody else may have written it: do not commit into that
            if not self._keeper.idle:
                self.abort("the job record is in doubt")
                return
            epoch.stage = Stage.COMMITTING  # from here on only the record says what became of it (!)
            assert epoch.index is not None, "a commit without an index"
            before, number, name = self._context.record, epoch.number, epoch.name
            record = msgspec.structs.replace(
                before,
                committed=number,
                cut=epoch.cut,
                index=name,
                index_hash=event.hash,
                writer=self._nonce,
                # From the first index on that has names they count.
                fronts=before.fronts or known_fronts(epoch.index),
            )
            # (!) Epoch, cut, attempt and layout in one write: no attempt of other code begins elsewhere.
            turned = record if epoch.turn is None else epoch.turn.turned(record)
            self._keeper.write(turned, self._on_stage(self._commit))

    def index_failed(self, event: IndexFailed) -> None:
        """The store is away: this epoch is given up, the stream goes on."""
        if self.pending and self.pending.stage is Stage.WRITING and self.pending.name == event.name:
            self._not_saved(event.message)

    def abort(self, reason: str) -> None:
        """Give the pending epoch up, if there is one. Not while its commit is under way: then the record
        decides."""
        if (epoch := self.pending) is None:
            return
        # Nobody comes here then: whoever begins a recovery waits until the keeper is idle.
        assert epoch.stage is not Stage.COMMITTING, (
            f"epoch {epoch.number} aborted while it is being committed"
        )
        self.pending = None
        self.problem = f"epoch {epoch.number} aborted: {reason}"
        self._instructions.tell(epoch.workers, Abort(epoch.fence, epoch.number))

    def interrupted(self, reason: str) -> None:
        """A worker may have missed what was said: begin anew. Whoever has accepted is not needed any more."""
        if self.pending and self.pending.stage is Stage.GATHERING:
            self.abort(reason)

    def go_on(self) -> None:
        """Abort an epoch that takes too long."""
        epoch = self.pending
        if (
            epoch
            and epoch.stage is not Stage.COMMITTING
            and self._deadlines.due_in(epoch.since, self._settings.epoch_timeout_us)
        ):
            missing = [worker for worker in epoch.workers if worker not in epoch.accepted]
            waiting_for = f"not accepted by {', '.join(missing)}" if missing else "the index is not written"
            self._not_saved(f"{waiting_for} within {self._settings.epoch_timeout_us / 1e6:g} s")

    # --- inside ---

    def _not_saved(self, reason: str) -> None:
        self._refusals += 1
        self.abort(reason)

    def _on_stage(self, then: Callable[[PendingEpoch], None]) -> Callable[[], None]:
        """Call `then` with this epoch, if it is still pending when the write has taken effect."""
        epoch = self.pending

        def written() -> None:
            # it may have been aborted while the write was under way
            if epoch is not None and epoch is self.pending:
                then(epoch)

        return written

    def _announced(self, epoch: PendingEpoch) -> None:
        epoch.stage = Stage.GATHERING
        compact: dict[WorkerId, list[SegmentRef]] = {}
        if self._committed.index:
            compact = to_compact(self._committed.index.segments, epoch.workers, epoch.number)
        pause = epoch.turn is not None and epoch.turn.pauses
        hold = epoch.turn is not None and not pause
        for worker in epoch.workers:
            its = compact.get(worker, [])
            self._instructions.tell([worker], Announce(epoch.fence, epoch.number, its, hold, pause))

    def _write_if_complete(self, epoch: PendingEpoch) -> None:
        if epoch.complete():
            index = next_index(self._committed.index, epoch, self._settings, self._context.record.sources)
            if epoch.turn is not None and (reason := epoch.turn.refuses(index, self._context.record)):
                self.abort(reason)
                return
            epoch.stage = Stage.WRITING
            epoch.index = index if epoch.turn is None else epoch.turn.fitted(index)
            # nobody else can mean this object (!)
            epoch.name = f"indexes/{epoch.number:012d}-{epoch.fence.attempt}-{self._nonce}"
            self._instructions.add(WriteIndex(epoch.name, epoch.index))

    def _commit(self, epoch: PendingEpoch) -> None:
        """The record names the index, so the epoch is committed: tell everybody, and only then let objects
        go (!)."""
        assert epoch.index is not None, "a commit without an index"
        previous, previous_name = self._committed.index, self._committed.name
        self.pending, self.problem, self._refusals = None, "", 0
        if epoch.turn is not None:
            epoch.turn.made()
        self._committed.learn(epoch.name, epoch.index)
        if epoch.turn is None:
            self._instructions.tell(epoch.workers, Committed(epoch.fence, epoch.number, epoch.index.cut))
            self._context.warm()
        if names := superseded(previous, previous_name, epoch.index):
            self._instructions.add(DeleteObjects(names))

    def _next_epoch_number(self, record: JobRecord) -> Epoch:
        return Epoch(record.announced + 1)

    def _gathering(self, number: Epoch) -> PendingEpoch | None:
        epoch = self.pending
        return epoch if epoch and epoch.stage is Stage.GATHERING and epoch.number == number else None
