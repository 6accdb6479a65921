"""Scaling: how many workers a job wants, by how busy those are that it has.

As many as would be busy for three quarters of their time: with fewer a burst has to wait, and more are for
nothing. What there is to do is the mean of ten seconds. More are wanted when it is above what keeps them busy
for 85% of their time; fewer once it has been little enough for half a minute, and never while a source waits.

>>> scaling = Scaling(least=1, most=8, wanted=1, pace=Pace(up_us=10, down_us=60))
>>> scaling.take(us=10, busy=[0.95], held=0.0); scaling.wanted
2
>>> for _ in range(9): scaling.take(us=10, busy=[0.3, 0.1], held=0.0)
>>> scaling.wanted
1

More are waited for like a lost worker's successor: once they are there and warm they are given slots
(healing.py). Fewer: some hand all their slots over, which moves them (moving.py); they are standbys then, and
told to stop where nobody else would stop them.

Keeps: never fewer than `least` nor more than `most`; between fewer and more the work has grown by an eighth at
least, so a load that stays the same moves nothing to and fro; who has slots is told to stop by nobody. Does
not: start anybody (the launcher and the operator do), or read a clock: time is what the reports cover. Source:
the form is that of Kubernetes' HorizontalPodAutoscaler: a target, a tolerance, and a window for fewer.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from flamestream.core.coordinator.balance import WorkerLoad, loads_of, without
from flamestream.core.coordinator.context import Context
from flamestream.core.coordinator.coordination import Pace, Settings
from flamestream.core.protocol.messages import Busy, Stop
from flamestream.model.ids import WorkerId
from flamestream.model.layout import Layout

TARGET: Final = 0.75
"""Not more workers are wanted than are busy for this share of their time, nor as few as are busy for more."""
HIGH: Final = 0.85
"""But those that there are may be so busy: so far above the target that what has gone is missed only when there
is more to do than before."""
HELD: Final = 0.05
"""The share of time in which a source may wait for credit, and fewer workers are still enough."""


@dataclass(slots=True)
class _Round:
    """Reports of all workers of the same stretch of time."""

    us: int
    work: float
    """In workers' full time."""
    held: float
    """The share of it in which a source waited."""
    mean: float = 0.0
    """The mean work of the rounds up to this one, as far back as is looked for more."""


class Scaling:
    """The number of workers that is wanted, between `least` and `most`; `wanted` at first."""

    def __init__(self, least: int, most: int, wanted: int, pace: Pace) -> None:
        self.least, self.most, self._pace = least, most, pace
        self.wanted = min(max(wanted, least), most)
        self._rounds: deque[_Round] = deque()
        """Those in which as many workers as now took part, the oldest first."""

    def restart(self) -> None:
        """Others take part, or the same ones begin anew: what was measured says nothing of now."""
        self._rounds.clear()

    def take(self, us: int, busy: Sequence[float], held: float) -> None:
        """A round of `us` microseconds is over: which share of it each worker was busy, and a source waited.
        Nothing is decided while fewer take part than are wanted, or more."""
        if us <= 0 or len(busy) != self.wanted:
            return
        now = _Round(us, sum(busy), held)
        self._rounds.append(now)
        recent, whole = self._last(self._pace.up_us)
        # (!) the mean: single rounds differ by more than lies between fewer and more
        now.mean = sum(each.us * each.work for each in recent) / _covered(recent)
        if whole and now.mean > HIGH * len(busy):
            # those that can do no more want some more each time: what waits outside is not seen
            self._want(max(len(busy) + 1, ceil(now.mean / TARGET)))
        else:
            self._fewer(len(busy))

    def _fewer(self, workers: int) -> None:
        rounds, whole = self._last(max(self._pace.up_us, self._pace.down_us))
        if not whole:
            return
        if max(each.held for each in rounds) <= HELD:
            # (!) the most of them, and of what comes now: who goes in a trough is missed behind it
            work = max(rounds[0].work, *(each.mean for each in rounds))
            self._want(min(workers, max(1, ceil(work / TARGET))))
        while len(self._rounds) > len(rounds):
            self._rounds.popleft()

    def _want(self, workers: int) -> None:
        wanted = min(max(workers, self.least), self.most)
        if wanted != self.wanted:
            self.wanted = wanted
            self.restart()

    def _last(self, us: int) -> tuple[list[_Round], bool]:
        """The newest rounds, no more than cover `us`, and whether they do."""
        found: list[_Round] = []
        for each in reversed(self._rounds):
            found.append(each)
            if _covered(found) >= us:
                return found, True
        return found, False


def _covered(rounds: Sequence[_Round]) -> int:
    return sum(each.us for each in rounds)


def wanted_by(settings: Settings, now: int) -> int:
    """How many workers are wanted where these settings begin to count, and `now` were until then: as many, as far as
    they may be, where their number follows the load."""
    bounds = _bounds(settings)
    return settings.workers if bounds is None else min(max(now, bounds[0]), bounds[1])


def _bounds(settings: Settings) -> tuple[int, int] | None:
    """The least and the most; None: the number is fixed."""
    # an attempt without epochs begins empty: no number of workers is worth that
    if settings.most_workers is None or not settings.durable:
        return None
    return settings.least_workers, min(settings.most_workers, settings.slots)


class Autoscaler:
    """The reports of the workers of one layout, and what follows for their number."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scaling: Scaling | None = None
        self._settings: Settings | None = None
        """Those that the number is bounded by."""
        self.restart()

    def restart(self) -> None:
        """Another attempt runs, maybe of other code: what was measured is of another layout."""
        context = self._context
        if self._settings is not context.settings:
            self._settings = settings = context.settings
            context.wanted = wanted_by(settings, context.wanted)
            bounds = _bounds(settings)
            self._scaling = None if bounds is None else Scaling(*bounds, context.wanted, settings.pace)
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
