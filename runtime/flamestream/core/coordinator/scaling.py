"""Scaling: how many workers a job wants, by how busy those are that it has.

Between 60 and 80 percent of their time workers should be busy: below, some are for nothing; above, a burst
has to wait. More are wanted soon, fewer only after a while of little to do, and never while a source waits.

>>> scaling = Scaling(least=1, most=8, wanted=1, pace=Pace(up_us=10, down_us=60))
>>> scaling.take(us=10, busy=[0.95], held=0.0); scaling.wanted
2
>>> for _ in range(9): scaling.take(us=10, busy=[0.3, 0.1], held=0.0)
>>> scaling.wanted
1

More are waited for like a lost worker's successor: once they are there and warm they are given slots
(healing.py). Fewer: some hand all their slots over, which moves them (moving.py); they are standbys then, and
told to stop where nobody else would stop them.

Keeps: never fewer than `least` nor more than `most`; between more and fewer the work has changed by a tenth at
least, so a load that stays the same moves nothing to and fro; who has slots is told to stop by nobody. Does
not: start anybody (the launcher and the operator do), or read a clock: time is what the reports cover.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final

from flamestream.core.coordinator.balance import WorkerLoad, loads_of, without
from flamestream.core.coordinator.context import Context
from flamestream.core.coordinator.coordination import Pace
from flamestream.core.protocol.messages import Busy, Stop
from flamestream.model.ids import WorkerId
from flamestream.model.layout import Layout

HIGH: Final = 0.8
"""Busier than this in the mean, and more workers are wanted."""
AIM: Final = 0.75
"""As busy as this they should be then."""
LOW: Final = 0.68
"""Fewer are wanted if they would not be busier than this. So much below AIM that the work has to change
between one change and the opposite one."""
HELD: Final = 0.05
"""The share of time in which a source may wait for credit, and fewer workers are still enough."""


class Scaling:
    """The number of workers that is wanted, between `least` and `most`; `wanted` at first."""

    def __init__(self, least: int, most: int, wanted: int, pace: Pace) -> None:
        self.least, self.most, self._pace = least, most, pace
        self.wanted = min(max(wanted, least), most)
        self._rounds: deque[tuple[int, float, float]] = deque()
        """(microseconds, workers' worth of work, share of time in which a source waited) of each round in
        which as many workers as now took part, the oldest first."""

    def restart(self) -> None:
        """Others take part, or the same ones begin anew: what was measured says nothing of now."""
        self._rounds.clear()

    def take(self, us: int, busy: Sequence[float], held: float) -> None:
        """A round of `us` microseconds is over: which share of it each worker was busy, and a source waited.
        Nothing is decided while fewer take part than are wanted, or more."""
        if us <= 0 or len(busy) != self.wanted:
            return
        self._rounds.append((us, sum(busy), held))
        while self._covered(list(self._rounds)[1:]) >= max(self._pace.up_us, self._pace.down_us):
            self._rounds.popleft()
        if not self._more(len(busy)):
            self._fewer(len(busy))

    def _more(self, workers: int) -> bool:
        recent = self._last(self._pace.up_us)
        # (!) the least of them: a burst, or a recovery that catches up, is over soon
        if not recent or min(work for _, work, _ in recent) <= HIGH * workers:
            return False
        work = max(work for _, work, _ in recent)
        # those that can do no more want some more each time: what waits outside is not seen
        return self._want(max(workers + 1, ceil(work / AIM)))

    def _fewer(self, workers: int) -> bool:
        recent = self._last(self._pace.down_us)
        if not recent or max(held for _, _, held in recent) > HELD:
            return False
        # (!) the most of them: who goes in a trough is missed behind it
        work = max(work for _, work, _ in recent)
        return self._want(min(workers, max(1, ceil(work / LOW))))

    def _want(self, workers: int) -> bool:
        """Whether that is another number than now."""
        wanted = min(max(workers, self.least), self.most)
        if wanted == self.wanted:
            return False
        self.wanted = wanted
        self.restart()
        return True

    def _last(self, us: int) -> list[tuple[int, float, float]]:
        """The newest rounds that cover `us`; none: not so much is covered yet."""
        found: list[tuple[int, float, float]] = []
        for each in reversed(self._rounds):
            found.append(each)
            if self._covered(found) >= us:
                return found
        return []

    @staticmethod
    def _covered(rounds: Iterable[tuple[int, float, float]]) -> int:
        return sum(us for us, _, _ in rounds)


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
