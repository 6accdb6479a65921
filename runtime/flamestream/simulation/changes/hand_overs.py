"""Jobs for the simulator that another job goes on with: a cluster ends where a next one begins, with other code.

Both share what is outside (sources, sinks, journals, store), and the job record that the first one leaves. What
the first one has started may live on for a while.

Does not: draw the jobs (jobs/ticks.py), or know what must come out (oracle.py).
"""

from dataclasses import replace
from random import Random

from flamestream.core.coordinator import coordination as c
from flamestream.core.protocol.job_record import is_taken_over
from flamestream.simulation.cluster import Cluster
from flamestream.simulation.coordinator_node import CoordinatorNode
from flamestream.simulation.faults import FaultPlan
from flamestream.simulation.jobs.ticks import ticking
from flamestream.simulation.settings import MS, Adjust, Plan, code_of, version_of


def handing_over(direct: Adjust | None = None) -> Adjust:
    """Runs that are handed over up to twice, directed further by `direct`."""

    def adjust(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
        plan, faults = ticking(direct, most=2)(rng, drawn, chosen)
        return replace(plan, hands_over=True, stop_at=None, edited=False), faults

    return adjust


class HandedOverCluster(Cluster):
    """A cluster whose job hands over to the next version, which somebody else starts."""

    inherits = False

    def _upgrade(self, version: int) -> None:
        """Somebody wants the next job to go on."""
        if self.outcome is None:
            self._wanted = version

    def _ask(self, node: CoordinatorNode) -> None:
        """Whoever is in charge is asked, until it is made."""
        if node.asked < self._wanted and version_of(node.settings.code) < self._wanted:
            node.asked = self._wanted
            node.post(c.HandOverRequested(f"v{self._wanted}"))

    def _may_run(self, version: int) -> bool:
        """Whether it is the code of the job that goes on now."""
        return code_of(version) == self._settings.code

    def _finished(self, node: CoordinatorNode, finish: c.Finish) -> None:
        record = self._outside.records.record
        if finish.outcome != "handed over":
            super()._finished(node, finish)
        elif record is not None and is_taken_over(record):
            self.world.trace.cover("job.handed over")
            # By name: somebody may have wanted a later one meanwhile.
            self._take_over(int(record.outcome.rpartition("v")[2]))

    def _take_over(self, version: int) -> None:
        for node in self.coordinators:  # who has started them ends them
            node.crash()
        self._settings = replace(self._settings_of(version), code_changed=True, takes_over_as=f"v{version}")
        for place in range(self._plan.workers + self._plan.standbys):
            self._versions[version * 100 + place] = version
            self.world.after(self.world.between(1, 20 * MS), self._start_worker, version * 100 + place)
