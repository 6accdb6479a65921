"""Moving: slots of a running job get other owners, as a recovery that no failure has caused.

    a worker is too full for long (balance.py), or fewer are wanted (scaling.py)
      -> those who get slots read their state (Warm)
      -> between two epochs: an attempt of the next layout

The stream goes on meanwhile. Who gets a slot has its state at hand then, so it waits for no more than a
takeover by a standby does.

Keeps: the owners that were chosen are those of the next layout, or nothing moves; a worker is told to forget
what it has read in vain. Does not: choose them, or recover (healing.py).
"""

from collections.abc import Iterable

from flamestream.core.coordinator.balance import Balance, HotSlot, fullness
from flamestream.core.coordinator.context import Context
from flamestream.core.coordinator.healing import MOVED, Healing
from flamestream.core.coordinator.scaling import Autoscaler
from flamestream.core.protocol.messages import Busy, Warm
from flamestream.model.ids import Slot, WorkerId
from flamestream.model.time import Instant


class Moving:
    """The next owners of slots, if some are to move."""

    def __init__(self, context: Context, healing: Healing) -> None:
        self._context, self._healing = context, healing
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

    def restart(self) -> None:
        """Another attempt runs, or its workers were adopted: what was measured and chosen is of another
        layout."""
        self.balance.restart()
        self._autoscaler.restart()
        self._drop()
        self._forgotten.clear()

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
        settings = self._context.settings
        if not self._context.running or (settings.balance_us is None and settings.most_workers is None):
            return
        if not self._owners:
            self._choose()
        if self._owners:
            self._tell()
            self._move_when_ready()
        self._let_go()
        self._autoscaler.dismiss()

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
            segments = [part for part in committed.index.segments if not set(slots).isdisjoint(part.slots)]
            self._context.instructions.tell([worker], Warm(segments, slots))

    def _move_when_ready(self) -> None:
        context = self._context
        ready = self._are_warm(self._gained().values()) or context.time.due_in(
            self._since, context.settings.warm_us
        )
        if ready and self._healing.may_move():
            members = sorted(set(self._owners))
            self._healing.recover(members, self._cause, context.time.now, MOVED, self._owners)

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
                self._context.instructions.tell([worker], Warm([]))

    def _drop(self) -> None:
        self._owners, self._cause, self._told = (), "", ""


def _told(hot: HotSlot) -> str:
    of_key = f", most of it for the key {hot.key}" if hot.key else ""
    return (
        f"slot {hot.slot} alone has {hot.times:.1f} times as much to do as a worker has on average{of_key}: no "
        f"layout makes all workers as busy. Make what is done for it cheaper, or its key finer"
    )
