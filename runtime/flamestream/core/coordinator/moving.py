"""Moving: slots of a running job get other owners, as a recovery that no failure has caused.

    a worker has come while too few take part, one is too full for long (balance.py), or fewer are wanted
    (scaling.py)
      -> those who get slots read their state (Warm)
      -> an epoch, so that what is left to save is small
      -> an epoch in which nothing enters: its commit is the attempt of the next layout, by one write

The stream goes on until the last step. Who gets a slot has its state at hand then, and nothing has to be
replayed: all that had entered is through. Where nothing can be saved the attempt begins without an epoch.

Keeps: the owners that were chosen are those of the next layout, or nothing moves; a worker is told to forget
what it has read in vain. Does not: choose them, or recover (healing.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flamestream.core.coordinator.balance import Balance, HotSlot, fullness
from flamestream.core.coordinator.context import Context
from flamestream.core.coordinator.epochs import Epochs
from flamestream.core.coordinator.healing import JOINED, MOVED, Healing
from flamestream.core.coordinator.scaling import Autoscaler
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.messages import Busy, Warm
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.model.ids import Slot, WorkerId
from flamestream.model.time import Instant


@dataclass(frozen=True, slots=True)
class Move:
    """An attempt that no failure asks for."""

    kind: str
    cause: str
    chosen: Sequence[WorkerId]
    owners: Sequence[WorkerId] = ()
    """Whose each slot is; none: as they are dealt out among the chosen."""


class Moving:
    """The next owners of slots, if some are to move."""

    pauses = True  # what enters meanwhile would have to be computed twice

    def __init__(self, context: Context, epochs: Epochs, healing: Healing) -> None:
        self._context, self._epochs, self._healing = context, epochs, healing
        settings = context.settings
        # an attempt without epochs begins empty: nothing is worth that
        self.balance = Balance(settings.balance_us if settings.durable else None)
        self._autoscaler = Autoscaler(context)
        self._owners: tuple[WorkerId, ...] = ()
        """Those of the next layout; none: nothing is to move."""
        self._cause, self._since = "", Instant(0)
        self._told = ""
        """The index whose segments they were told to have at hand."""
        self._forgotten: set[WorkerId] = set()
        self._move: Move | None = None
        """The one that the pending epoch goes on to, or the last one did."""
        self._paused = Instant(0)
        """When that epoch was announced."""

    def restart(self) -> None:
        """Another attempt runs, or its workers were adopted: what was measured and chosen is of another
        layout."""
        self.balance.restart()
        self._autoscaler.restart()
        self._drop()
        self._forgotten.clear()
        self._epochs.turn_later()

    def hear(self, worker: WorkerId, report: Busy) -> None:
        """Take a report of a worker of the layout, under its fence."""
        layout = self._context.record.layout
        self.balance.hear(worker, report, layout)
        self._autoscaler.hear(worker, report, layout)

    @property
    def problems(self) -> list[str]:
        """Troubles that no layout can help."""
        return [_told(hot) for hot in self.balance.hot]

    def go_on(self) -> None:
        """Take the next step: the stream runs, with nothing wrong."""
        if self._turning():
            return
        settings = self._context.settings
        if settings.rebalance and len(self._context.workers) < self._healing.places:
            self._join()
        if settings.balance_us is None and settings.most_workers is None:
            return
        if not self._owners:
            self._choose()
        if self._owners:
            self._tell()
            self._move_when_ready()
        self._let_go()
        self._autoscaler.dismiss()

    # --- of its epoch (epochs.Turn) -------------------------------------------------------------------------

    def turned(self, record: JobRecord) -> JobRecord:
        """The record that commits the epoch, made the next attempt's."""
        move = self._chosen
        return self._healing.next_record(record, move.chosen, self._context.settings, move.owners)

    def refuses(self, index: SnapshotIndex, record: JobRecord) -> str:
        """Nothing: the same code goes on."""
        return ""

    def fitted(self, index: SnapshotIndex) -> SnapshotIndex:
        """The index, with all that it has."""
        return index

    def made(self) -> None:
        """It is in the record."""
        self._healing.turned(self._chosen.cause, self._paused, self._chosen.kind)

    # --- inside ---------------------------------------------------------------------------------------------

    @property
    def _chosen(self) -> Move:
        assert self._move is not None, "an epoch that nothing goes on from"
        return self._move

    def _turning(self) -> bool:
        """Whether the epoch is under way; who is to get slots is still there, or it is given up."""
        if not self._epochs.is_turning(self):
            return False
        if self._context.members.lost(self._chosen.chosen):
            self._epochs.interrupted("a worker that was to get slots is lost")
        return True

    def _begin(self, move: Move) -> None:
        """Take a step towards it, unless another recovery was a moment ago."""
        context = self._context
        if self._epochs.pending or not context.keeper.idle:
            return
        if not context.time.due_in(self._healing.ended_at, context.settings.rebalance_pause_us):
            return
        if not self._epochs.saves:
            self._healing.recover(move.chosen, move.cause, context.time.now, move.kind, move.owners)
        elif self._epochs.turn(self):
            self._move, self._paused = move, context.time.now

    def _join(self) -> None:
        """Give slots to a worker that came while too few took part."""
        chosen = self._healing.successors(waited=True)
        # Of another release fewer may be there than take part: then nobody has come.
        if len(chosen) > len(self._context.workers) and self._somebody_is_warm(chosen):
            self._begin(Move(JOINED, "a worker has joined", chosen))

    def _somebody_is_warm(self, chosen: Sequence[WorkerId]) -> bool:
        """Whether one that comes would not have to read the state first, or has had its time for that."""
        context = self._context
        spares = [context.members[worker] for worker in chosen if worker not in context.workers]
        if not context.committed.size or any(spare.warm for spare in spares):
            return bool(spares)
        return any(context.time.due_in(spare.since, context.settings.warm_us) for spare in spares)

    def _choose(self) -> None:
        layout = self._context.record.layout
        if (owners := self._autoscaler.shrunk(layout)) is not None:
            leave = ", ".join(sorted({*layout.workers} - {*owners}))
            self._owners, self._cause = owners, f"fewer workers are enough: {leave} hands over"
        elif (owners := self.balance.target(layout)) is not None:
            loads = self.balance.loads(layout)
            now, then = fullness(layout.owners, loads), fullness(owners, loads)
            self._owners = owners
            self._cause = (
                f"{len(self._gained())} slots move: the busiest worker had {now:.2f} times the mean to do, "
                f"and has {then:.2f} then"
            )
        self._since = self._context.time.now

    def _gained(self) -> dict[Slot, WorkerId]:
        """The slots that move, with who gets them."""
        before = self._context.record.layout.owners
        pairs = enumerate(zip(before, self._owners, strict=True))
        return {Slot(slot): new for slot, (old, new) in pairs if new != old}

    def _tell(self) -> None:
        """Tell those who get slots what is committed of them; anew with each commit."""
        committed = self._context.committed
        if committed.index is None or committed.name == self._told:
            return
        self._told = committed.name
        gained = self._gained()
        for worker in sorted(set(gained.values())):
            slots = [slot for slot, owner in gained.items() if owner == worker]
            told = Warm(self._context.record.fence, committed.index.of_states, slots)
            self._context.instructions.tell([worker], told)

    def _move_when_ready(self) -> None:
        context = self._context
        ready = self._are_warm(self._gained().values()) or context.time.due_in(
            self._since, context.settings.warm_us
        )
        if ready:
            self._begin(Move(MOVED, self._cause, sorted(set(self._owners)), self._owners))

    def _are_warm(self, workers: Iterable[WorkerId]) -> bool:
        """Whether they have the state of their slots at hand, or there is none."""
        reports = self._context.members.progress(workers)
        return not self._context.committed.size or all(report and report.warm for report in reports)

    def _let_go(self) -> None:
        """Who has a snapshot at hand that nobody will ask it for forgets it."""
        wanted = set(self._gained().values()) if self._owners else set()
        for worker in self._context.workers:
            (report,) = self._context.members.progress([worker])
            if report and report.warm and worker not in wanted | self._forgotten:
                self._forgotten.add(worker)
                self._context.instructions.tell([worker], Warm(self._context.record.fence))

    def _drop(self) -> None:
        self._owners, self._cause, self._told = (), "", ""


def _told(hot: HotSlot) -> str:
    of_key = f", most of it for the key {hot.key}" if hot.key else ""
    return (
        f"slot {hot.slot} alone has {hot.times:.1f} times as much to do as a worker has on average{of_key}: no "
        f"layout makes all workers as busy. Make what is done for it cheaper, or its key finer"
    )
