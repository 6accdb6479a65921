"""Schedule: one way in which a job may come to run a graph on given records: its guarantee, its workers, and
a seed for all else.

The seed draws how each source's records lie in partitions, when each can be read, delays, epochs, and where
asked for the faults: killed workers and coordinators, cut links, full stores. Nothing is lost for good, so a
job under any of them has to give the reference's results.

Does not: find the records (graph_check.py), or judge (simulation/invariants.py).
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from flamestream.core.protocol.inventory import inventory_of
from flamestream.core.protocol.settings import FrontSettings
from flamestream.model.calls.productions import with_productions
from flamestream.model.duration import Micros
from flamestream.model.graph import Graph
from flamestream.model.ids import Partition, SinkName, SourceName
from flamestream.model.time import ROOM, FrontId, Timestamp
from flamestream.model.vertex import Vertex
from flamestream.simulation.faults import Fault, FaultPlan
from flamestream.simulation.graphs import SimJob
from flamestream.simulation.outside.producers import SimRecord, SourceSite
from flamestream.simulation.settings import (
    MS,
    STRONG,
    Plan,
    fronts_of_calls,
    promising,
    scheduled,
    sites_of_calls,
)
from flamestream.simulation.simulator import simulate
from flamestream.simulation.world import EPOCH_START

IDLE: Final = Micros(20 * MS)
"""Microseconds of virtual time after which a source with `idle` is idle: runs take a third of a second of it,
whatever a graph says."""
LOSSES: Final = frozenset(
    {Fault.JOURNAL_DAMAGE, Fault.STORE_DAMAGE, Fault.CONSUMER_LOSS, Fault.FUNCTION_CHANGE}
)
"""Faults that a job may end of."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a job runs."""

    guarantee: str
    workers: int
    faults: bool
    seed: int

    def __str__(self) -> str:
        what = "faults" if self.faults else "no faults"
        return (
            f"{self.guarantee}, {self.workers} worker{'s' if self.workers > 1 else ''}, {what}, "
            f"schedule {self.seed}"
        )

    def run(self, graph: Graph, records: Mapping[str, Sequence[Any]]) -> None:
        """Run the graph in the simulator on each source's records. Raises SimulationFailure if it does not
        give the reference's results."""

        def directed(rng: Random, plan: Plan, faults: FaultPlan) -> tuple[Plan, FaultPlan]:
            sites = [
                _site(
                    rng, FrontId(front), source, records[source.name], plan.heal_at, ROOM if runs.calls else 1
                )
                for front, source in enumerate(graph.sources)
            ]
            calls = fronts_of_calls(job, len(sites))
            fronts = (
                tuple(
                    FrontSettings(
                        site.front,
                        SourceName(source.name),
                        site.timed,
                        site.run_length,
                        site.replayable,
                        step=site.step,
                    )
                    for site, source in zip(sites, graph.sources, strict=True)
                )
                + calls
            )
            sites += sites_of_calls(calls)
            self._limit(faults)
            # Slices as users have them: with the simulator's own, which are for graphs of a few keys, no epoch
            # of several windows, each of 64 shards, was ever done. Edited settings would bring those back.
            worker = replace(
                plan.worker, fronts=fronts, slice_size=128, slice_bytes=64 << 10, upload_bytes=16 << 20
            )
            coordinator = replace(
                plan.coordinator,
                fronts=len(fronts),
                workers=self.workers,
                inventory=inventory_of(plan.job.graph, plan.job.dead_letter, fronts),
            )
            plan = replace(
                plan, sites=sites, workers=self.workers, worker=worker, coordinator=coordinator, edited=False
            )
            return plan if self.faults else replace(plan, stop_at=None), faults

        runs = _soon_idle(with_productions(graph) if self.guarantee == STRONG else graph)
        job = SimJob(runs, _free_name(graph), lambda rng, number: None, len(graph.sources))
        simulate(self.seed, job=job, adjust=promising(self.guarantee, directed))

    def _limit(self, faults: FaultPlan) -> None:
        if self.faults:
            faults.moments[:] = [moment for moment in faults.moments if moment.fault not in LOSSES]
        else:
            faults.heal()


def _site(
    rng: Random, front: FrontId, source: Vertex, payloads: Sequence[Any], heal_at: int, step: int
) -> SourceSite:
    """The outside of a source, whose partitions share its records: each has them in their order. A clock has
    one partition."""
    clock = source.timing is not None and source.timing.every is not None
    by_arrival = source.timing is not None and source.timing.by_arrival
    # What a clock has said is in a journal, which a timed source has not.
    timed = rng.random() < 0.3 and not (clock or by_arrival)
    names = (
        [Partition("")]
        if timed or clock
        else [Partition(f"p{number}") for number in range(rng.choice([1, 1, 2, 3]))]
    )
    parts: dict[Partition, list[SimRecord]] = {name: [] for name in names}
    for payload in payloads:
        parts[rng.choice(names)].append(SimRecord(payload, 0, Timestamp(0)))
    span = rng.randint(1, heal_at - EPOCH_START)
    parts = {name: scheduled(rng, part, span) for name, part in parts.items()}
    # One without a journal has its records nowhere else: it can always be read again.
    replayable, run_length = timed or rng.random() < 0.7, rng.randint(1, 4) if timed else 1
    return SourceSite(front, timed, replayable, parts, run_length, step)


def _soon_idle(graph: Graph) -> Graph:
    """The graph with another `idle`: when a source is idle is a matter of the clock, so any moment is as
    right as another."""
    soon = copy(graph)
    soon.vertices = [
        replace(each, timing=replace(each.timing, idle=IDLE))
        if each.timing is not None and each.timing.idle
        else each
        for each in graph.vertices
    ]
    return soon


def _free_name(graph: Graph) -> SinkName:
    """A sink for error items that is none of the graph's."""
    return SinkName("-".join(["errors", *(sink.name for sink in graph.sinks)]))
