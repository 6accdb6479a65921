"""Jobs for the simulator that are stopped and started again with other sources, drained or not: some have come,
some have gone, and some are back.

All versions do the same with what they read, so one graph with all sources says what must come out. A start that
is refused is tried again as it was before.

Does not: change code while a job runs (jobs/ticks.py), or know what must come out (oracle.py).
"""

from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from flamestream.core.coordinator import coordination as c
from flamestream.core.protocol.settings import FrontSettings
from flamestream.model.graph import Graph
from flamestream.model.ids import SourceName
from flamestream.model.time import FrontId
from flamestream.simulation.cluster import Cluster
from flamestream.simulation.coordinator_node import CoordinatorNode
from flamestream.simulation.faults import Fault, FaultPlan
from flamestream.simulation.graphs import SimJob, key_of, string_record
from flamestream.simulation.jobs.ticks import folded
from flamestream.simulation.settings import MS, Adjust, Plan, drawn_site
from flamestream.simulation.world import EPOCH_START

SOURCES: Final = 4
FAULTS: Final = (
    Fault.WORKER_CRASH, Fault.WORKER_PAUSE, Fault.LINK_BREAK, Fault.STORE_FULL, Fault.STORE_SLOW, Fault.JOURNAL_FULL,
)  # fmt: skip
"""Those that leave nobody who acts for an older version: a launcher ends what it has started."""
PATIENCE: Final = 600 * MS
"""Virtual time in which a stop becomes a start, if it does."""
REFUSED: Final = ("the graph has no source", "all of its input has ended")
"""The words of a start that may not be: something is left of a source that goes, or one comes too late."""


def changing_job(rng: Random) -> SimJob:
    """A fold over sources of which each version has some. `graph` has all."""
    seed = rng.getrandbits(32)
    graph = _graph([*map(_name, range(SOURCES))])
    return SimJob(graph, None, string_record(rng), SOURCES, versions=partial(_version, seed))


def restarting(*, most: int = 4) -> Adjust:
    """Runs that are stopped and started again with other sources up to `most` times."""

    def adjust(rng: Random, drawn: Plan, faults: FaultPlan) -> tuple[Plan, FaultPlan]:
        faults.moments = [each for each in faults.moments if each.fault in FAULTS]
        faults.rates = {fault: rate for fault, rate in faults.rates.items() if fault in FAULTS}
        sites, fronts = [], []
        for number in range(SOURCES):
            front = FrontId(number)
            site = drawn_site(
                rng, drawn.job, front, rng.randint(2, 12), drawn.heal_at, timed=rng.random() < 0.4
            )
            sites.append(site)
            its = front, SourceName(_name(number)), site.timed, site.run_length, site.replayable
            fronts.append(FrontSettings(*its, step=site.step))
        moments = (rng.randint(EPOCH_START + MS, drawn.heal_at) for _ in range(rng.randint(1, most)))
        plan = replace(
            drawn, sites=sites, worker=replace(drawn.worker, fronts=tuple(fronts)), stop_at=None, edited=False,
            restarts=tuple(sorted(moments)), began_with=SOURCES,
        )  # fmt: skip
        return replace(plan, coordinator=replace(plan.coordinator_of(0), code_changed=True)), faults

    return adjust


class RestartedCluster(Cluster):
    """A cluster whose job is stopped, and started again with its next version."""

    inherits = False
    _tried = 0
    _stopping = False

    def start(self) -> None:
        """Everything begins about now."""
        super().start()
        for moment in self._plan.restarts:
            self.world.after(moment - self.world.now, self._request)

    def _look_at_the_record(self) -> None:
        """Whoever starts the job says which version it is."""

    @property
    def is_upgrading(self) -> bool:
        """Whether it is still to be started with other sources."""
        early = self.world.now < self._plan.restarts[-1] + PATIENCE
        return early or self._stopping or self._running() != self._sources_of(self._version)

    def _request(self) -> None:
        self._stopping = self.newest is not None
        super()._request()

    def _ask(self, node: CoordinatorNode) -> None:
        """Nobody asks a job that runs for other code."""

    def _finished(self, node: CoordinatorNode, finish: c.Finish) -> None:
        self._stopping = False
        record, here = self._outside.records.record, node.settings.code == self._settings.code
        if finish.outcome in ("stopped", "drained") and here:
            self.world.trace.cover(f"sources.changed when {finish.outcome}")
            # A version that never came to an attempt has no numbers, and the next might be given them.
            self._tried += record is not None and record.code == self._settings.code
            self._go_on(self._tried)
        elif finish.outcome == "failed" and record is not None and _is_refused(finish.message):
            self.world.trace.cover("sources.refused")
            ran = self._running()
            self._go_on(
                next(number for number in range(self._tried, -1, -1) if self._sources_of(number) == ran)
            )
        else:
            super()._finished(node, finish)

    def _running(self) -> set[str]:
        """The sources of the last attempt that ran."""
        record = self._outside.records.record
        fronts = record.fronts if record is not None else ()
        return {front.name for front in fronts if front.begins is not None and not front.away}

    def _sources_of(self, version: int) -> set[str]:
        return {vertex.name for vertex in self._plan.job.of_version(version).graph.sources}

    def _go_on(self, version: int) -> None:
        self._version = self._wanted = version
        self._settings = replace(self._settings_of(version), code_changed=True)
        self._versions = dict.fromkeys(range(self._plan.workers + self._plan.standbys), version)
        for worker in self.workers.values():
            if worker.alive:
                worker.crash()


def _is_refused(message: str) -> bool:
    return any(reason in message for reason in REFUSED)


def _name(number: int) -> str:
    return f"s{number}"


def _version(seed: int, version: int) -> Graph:
    """Some of the sources: each version has one at least, and of those that are new the first."""
    begun = 1 + Random(seed).randint(1, 2)
    had = set(range(begun))
    for number in range(1, version + 1):
        drawn = Random(seed + number)
        has = {each for each in had if drawn.random() < 0.6} or {drawn.choice(sorted(had))}
        if begun < SOURCES and drawn.random() < 0.6:
            has.add(begun)
            begun += 1
        had |= has
        now = has
    names = sorted(now if version else had)
    return _graph([_name(each) for each in names])


def _graph(sources: list[str]) -> Graph:
    graph = Graph("changing")
    first, *others = [graph.source(name) for name in sources]
    stream = first.merge(*others) if others else first
    folded(stream, "fold", "f").sink("out", key=key_of)
    return graph
