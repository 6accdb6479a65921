"""Autoscaler: has as many workers take part as the job wants.

More are waited for like a lost worker's successor: once they are there and warm they are given slots
(healing.py). Fewer: some hand all their slots over, which moves them (moving.py); they are standbys then, and
told to stop where nobody else would stop them.

Keeps: who has slots is told to stop by nobody. Does not: decide how many (scaling.py), or start anybody.
"""

from collections.abc import Sequence

from flamestream.core.coordinator.balance import WorkerLoad, loads_of, without
from flamestream.core.coordinator.context import Context
from flamestream.core.coordinator.scaling import Scaling
from flamestream.core.protocol.messages import Busy, Stop
from flamestream.model.ids import WorkerId
from flamestream.model.layout import Layout


class Autoscaler:
    """The reports of the workers of one layout, and what follows for their number."""

    def __init__(self, context: Context) -> None:
        self._context = context
        settings = context.settings
        self._scaling: Scaling | None = None
        # an attempt without epochs begins empty: no number of workers is worth that
        if settings.most_workers is not None and settings.durable:
            most = min(settings.most_workers, settings.slots)
            self._scaling = Scaling(settings.least_workers, most, settings.workers, settings.pace)
            context.wanted = self._scaling.wanted
        self.restart()

    def restart(self) -> None:
        """Another attempt runs: what was measured is of another layout."""
        self._round: dict[WorkerId, WorkerLoad] = {}
        """The reports since a number was last decided on."""
        self._newer: dict[WorkerId, WorkerLoad] = {}
        self._older: dict[WorkerId, WorkerLoad] = {}
        """The reports of the last few minutes: by that slots are given away."""
        self._dismissed: set[WorkerId] = set()
        if self._scaling is not None:
            self._scaling.restart()

    def hear(self, worker: WorkerId, report: Busy, layout: Layout) -> None:
        """Take the report of a worker of `layout`."""
        if self._scaling is None:
            return
        self._round.setdefault(worker, WorkerLoad()).add(report)
        self._newer.setdefault(worker, WorkerLoad()).add(report)
        if self._newer[worker].us > self._context.settings.pace.down_us:
            self._older, self._newer = self._newer, {}
        if len(self._round) == len(layout.workers):
            told, self._round = self._round, {}
            us = min(each.us for each in told.values())
            held = max(each.held_us / max(1, each.us) for each in told.values())
            self._scaling.take(us, [each.share for each in told.values()], held)
            self._context.wanted = self._scaling.wanted

    def shrunk(self, layout: Layout) -> tuple[WorkerId, ...] | None:
        """The owners that the slots should get if more take part than are wanted; None: they do not."""
        settings, wanted = self._context.settings, self._context.wanted
        if self._scaling is None or settings.standbys is None or len(layout.workers) <= wanted:
            return None
        loads = loads_of({**self._newer, **self._older}, layout)
        of_workers = loads.of_workers(layout.owners)
        # those leave that have least to hand over
        stay = sorted(layout.workers, key=lambda worker: (-of_workers[worker], worker))[:wanted]
        return without(layout.owners, stay, loads)

    def dismiss(self) -> None:
        """Tell workers to stop that have no slots and will get none."""
        context, standbys = self._context, self._context.settings.standbys
        if self._scaling is None or standbys is None or len(context.workers) != context.wanted:
            return
        for worker in self._surplus(context.members.spares(context.workers), standbys):
            self._dismissed.add(worker)
            context.instructions.tell([worker], Stop("fewer workers are enough"))

    def _surplus(self, spares: Sequence[WorkerId], standbys: int) -> list[WorkerId]:
        # Those that were told count as gone: a standby that is to stay must not take their place.
        left = [worker for worker in spares if worker not in self._dismissed]
        return left[standbys:]
