"""Runs in which the image changes: beside each worker one of the new release begins, with other messages, and a little
later the old one goes for good; as the operator does it, an application after the other.

Does not: draw jobs, or give the new release another meaning: its messages are only said to be others.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from flamestream.model.ids import WorkerId
from flamestream.simulation.cluster import Cluster, MakeWorker
from flamestream.simulation.faults import FaultPlan
from flamestream.simulation.outside.outside import Outside
from flamestream.simulation.settings import MS, Plan
from flamestream.simulation.worker_node import WorkerNode
from flamestream.simulation.world import EPOCH_START, World

_NEW = 1_000
"""The place of who comes beside the worker at a place, less that."""
_LONGEST = 60 * MS


def rolling(rng: Random, plan: Plan, faults: FaultPlan) -> tuple[Plan, FaultPlan]:
    """Each worker is replaced before all is healed, alone or with others of its application."""
    moments = [rng.randrange(EPOCH_START, plan.heal_at) for _ in range(rng.choice([1, 2, 4]))]
    return replace(
        plan, rolls=tuple(rng.choice(moments) for _ in range(plan.workers + plan.standbys)), stop_at=None
    ), faults


class RollingCluster(Cluster):
    """A cluster whose workers get the new image."""

    def __init__(self, world: World, plan: Plan, outside: Outside, make_worker: MakeWorker) -> None:
        super().__init__(world, plan, outside, self._of_a_release)
        self._of_none = make_worker
        self._gone: set[int] = set()

    def start(self) -> None:
        """As ever; and what is to come."""
        super().start()
        for place, moment in enumerate(self._plan.rolls):
            self.world.after(moment - self.world.now, self._roll, place)

    def _of_a_release(self, me: WorkerId, version: int, ended: Callable[[WorkerNode], None]) -> WorkerNode:
        node = self._of_none(me, version, ended)
        node.vocabulary = "new" if self._places[me] >= _NEW else "old"
        return node

    def _start_worker(self, place: int) -> None:
        if place not in self._gone:
            super()._start_worker(place)

    def _roll(self, place: int) -> None:
        self._start_worker(_NEW + place)
        self.world.after(self.world.between(1, _LONGEST), self._retire, place)

    def _retire(self, place: int) -> None:
        self._gone.add(place)
        self.world.trace.cover("worker.retired")
        node = self.workers.get(place)
        if node is not None and node.alive:
            node.crash()
