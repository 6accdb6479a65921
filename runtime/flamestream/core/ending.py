"""Endings that take a while: a drain, and a failure that gets a last epoch.

A drain is over when every worker has stopped reading (two reports since it was told, without a new item between them), nothing is in
flight, and all output is acknowledged. It need not be exact: what is missed is replayed by the next start.

Keeps: an ending ends, by its deadline at the latest. Does not: announce epochs or stop workers (coordinator.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from flamestream.core.messages import Progress
from flamestream.model.ids import Epoch, WorkerId
from flamestream.model.time import END, Timestamp


@dataclass(slots=True)
class Drain:
    """`flamestream run` was asked to stop at an epoch."""

    deadline: Timestamp
    told: bool = False
    _items: dict[WorkerId, tuple[int, bool]] = field(default_factory=dict)
    """Items read, and whether the report before had as many."""

    def tell(self) -> None:
        """All workers are told (again, after a recovery)."""
        self.told = True
        self._items.clear()

    def hear(self, worker: WorkerId, progress: Progress) -> None:
        """A report of a worker that was told."""
        before = self._items.get(worker)
        self._items[worker] = (progress.items_in, before is not None and before[0] == progress.items_in)

    def quiet(self, workers: Iterable[WorkerId], acker: Progress | None) -> bool:
        """Whether what had entered has gone through."""
        stopped = self.told and all(self._items.get(worker, (0, False))[1] for worker in workers)
        return stopped and acker is not None and acker.oldest == END and acker.settled >= acker.minimal


@dataclass(frozen=True, slots=True)
class Failure:
    """The job cannot go on, but what is below the error can be saved first."""

    category: str
    message: str
    deadline: Timestamp
    announced: Epoch
    """The newest number when it failed: a later epoch is the last one."""
