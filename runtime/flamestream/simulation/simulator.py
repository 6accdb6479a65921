"""The simulator: a whole job, with real cores and a false world, on one thread in virtual time from one seed.

    safety phase      records arrive, faults strike, every invariant is watched
    liveness phase    everything is healed; the job has to complete within LIVENESS_LIMIT of virtual time
                      (invariant 9)

`simulate(seed)` either returns what it saw or raises SimulationFailure with the command that shows it again.

Does not: search (swarm.py), or simulate the shells: TCP, ZooKeeper, S3 and Spark have integration tests of
their own.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from random import Random

from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.core.protocol import actions as a
from flamestream.core.protocol.events import Entry, Event, FromPeer, RunRead
from flamestream.core.worker.front import JournalledFront
from flamestream.model.calls.productions import productions_of
from flamestream.model.event_time import ENDED
from flamestream.model.ids import NO_FENCE, Fence, SinkName, SourceName, WorkerId
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.payloads.codec import encode_many
from flamestream.model.time import START, FrontId, Time
from flamestream.simulation.changes.hand_overs import HandedOverCluster
from flamestream.simulation.changes.releases import RollingCluster
from flamestream.simulation.changes.restarts import RestartedCluster
from flamestream.simulation.clients import Clients, Told
from flamestream.simulation.cluster import Cluster
from flamestream.simulation.drift import DriftWatch
from flamestream.simulation.faults import Fault, drawn_faults
from flamestream.simulation.graphs import SimJob
from flamestream.simulation.guarantees import OF_GUARANTEE
from flamestream.simulation.invariants import Invariants, told_by
from flamestream.simulation.oracle import Oracle
from flamestream.simulation.outside.consumers import ConsumerSite, Forgetful
from flamestream.simulation.outside.journals import Journals, name_of_journal
from flamestream.simulation.outside.network import Network
from flamestream.simulation.outside.outside import Outside
from flamestream.simulation.outside.records import Records
from flamestream.simulation.outside.services import Service
from flamestream.simulation.outside.stores import Store
from flamestream.simulation.process import Charge
from flamestream.simulation.settings import (
    LIVENESS_LIMIT,
    MS,
    Adjust,
    Plan,
    drawn_plan,
    edited_worker,
    version_of,
)
from flamestream.simulation.trace import Trace
from flamestream.simulation.worker_node import WorkerNode
from flamestream.simulation.world import EPOCH_START, SimulationFailure, World

Variant = Callable[[], AbstractContextManager[None]]
"""Breaks something while it is entered: what the broken variants in tests/sim are."""
MAX_STEPS = 400_000
_END = encode_many([ENDED])
DAMAGE_LIMIT = 3_000 * MS
"""Virtual time after healing: a job that has not ended by then may be stopped by a damaged object."""
__all__ = ["Charge", "Result", "SimulationFailure", "Timing", "Variant", "simulate"]


@dataclass(frozen=True, slots=True)
class Result:
    """The observations of a run without failure."""

    seed: int
    outcome: str
    events: int
    milliseconds: float
    """Milliseconds of virtual time."""
    delivered: int
    faults: Sequence[str]
    """Enabled ones."""
    trace_hash: str
    coverage: Counter[str]
    lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Timing:
    """A model of latency: the cost of passes, and who looks at when results and answers come."""

    charge: Charge
    taken: Callable[[int, SinkName, a.Bundle], None] = lambda now, sink, bundle: None
    """Is shown each bundle that a consumer takes, with the microseconds of virtual time."""
    told: Callable[[int, Told], None] = lambda now, told: None
    """Is shown each query that is answered, with the same."""


def simulate(
    seed: int, *, broken: Variant | None = None, trace: bool = False,
    show: Callable[[str], None] | None = None, adjust: Adjust | None = None, job: SimJob | None = None,
    parts: Parts = REFERENCE, timing: Timing | None = None,
) -> Result:  # fmt: skip
    """Simulate one run. `trace` keeps (and `show` prints) a line an event; `adjust` and `job` direct it;
    workers are made of `parts`.

    With a `timing`, passes of workers take virtual time, and latency can be measured in it."""
    with broken() if broken is not None else nullcontext():
        return _Run(seed, Trace(trace, show), adjust, job, parts, timing).run()


class _Run:
    """Everything of one run, wired together."""

    def __init__(
        self, seed: int, trace: Trace, adjust: Adjust | None, job: SimJob | None,
        parts: Parts, timing: Timing | None,
    ) -> None:  # fmt: skip
        self._parts, self._timing = parts, timing
        rng = Random(seed)
        plan = drawn_plan(rng, job)
        # behind the plan, also where nobody uses it: one order of draws
        faults = drawn_faults(rng, trace, EPOCH_START, plan.heal_at)
        if adjust is not None:
            plan, faults = adjust(rng, plan, faults)
        self.plan, self.enabled = plan, faults.enabled
        self.world = World(seed, rng, trace, faults, plan.guarantee, plan.job.kind)
        self.outside = _outside(self.world, plan)
        sources = {front.front: str(front.source) for front in plan.worker.fronts}
        oracle = Oracle(
            self.world, plan.job.graph, plan.sites, sources, plan.worker.slots, plan.worker.dead_letter,
            newest=plan.job.graph if plan.restarts else plan.job.of_version(len(plan.upgrades)).graph,
        )  # fmt: skip
        oracle.all_begin = not plan.restarts
        self.oracle = oracle
        kind = OF_GUARANTEE.get(plan.guarantee, Invariants)
        self.invariants = kind(self.world, oracle, self.outside.store)
        if plan.upgrades:
            self.invariants.graph_of = lambda code: plan.job.of_version(version_of(code)).graph
        if plan.job.drift is not None:
            self.invariants.drift = DriftWatch(self.world, plan.job.drift)
        self.clients = Clients(self.world, plan, oracle, self._living, self._query_answered)
        self._wire()
        self.cluster = _cluster_of(plan)(self.world, plan, self.outside, self._make_worker)

    def run(self) -> Result:
        """Until the job ends."""
        world, cluster, plan = self.world, self.cluster, self.plan
        cluster.start()
        for moment in list(world.faults.moments):
            world.after(max(1, moment.at - world.now), cluster.strike, moment)
        world.after(plan.heal_at - world.now, cluster.heal)
        world.after(5 * MS, self._watch)
        if plan.asks_every:
            self.clients.start()
        steps = 0
        while cluster.outcome is None:
            world.step()
            steps += 1
            if world.now > plan.heal_at + LIVENESS_LIMIT or steps > MAX_STEPS:
                raise world.fail("9 liveness", self._where())
            if world.now > plan.heal_at + DAMAGE_LIMIT and self._stopped_by_damage():
                return self._result("stopped by damage")
        self._judge()
        self.clients.judge()
        return self._result(cluster.outcome.outcome)

    def _result(self, outcome: str) -> Result:
        world, trace = self.world, self.world.trace
        return Result(
            world.seed, outcome, trace.events, world.now / 1000, self.invariants.delivered, self.enabled,
            trace.digest, trace.coverage, trace.lines,
        )  # fmt: skip

    def _living(self) -> list[WorkerNode]:
        return [node for node in self.cluster.workers.values() if node.alive]

    def _watch(self) -> None:
        self.cluster.watch()
        self.invariants.look_into([node.core for node in self._living()])
        # What is through is claimed below, by nobody: not while other code may go on from less.
        settled = self.cluster.calm and not self.cluster.is_upgrading
        if settled and any(site.open for site in self.plan.sites):
            self._close_sources()
        self.world.after(5 * MS, self._watch)

    def _close_sources(self) -> None:
        """Once all else is through: sources that stay open must not hold anything back, so nothing is told to
        them before (invariant 9)."""
        if self.invariants.all_through():
            self.world.trace.cover("source.open until all was through")
            for site in self.plan.sites:
                site.open = False

    def _stopped_by_damage(self) -> bool:
        """An object is damaged for good, so epochs fail and a finite job cannot take its last one: right, if
        it says which object."""
        newest, damaged = self.cluster.newest, self.outside.store.damaged
        problems = (
            " ".join(newest.status.problems) if newest is not None and newest.status is not None else ""
        )
        if not any(name in problems for name in damaged):
            return False
        self.world.trace.cover("job.stopped by damage")
        return True

    def _where(self) -> str:
        newest = self.cluster.newest
        status = None if newest is None else newest.status
        missing = self.oracle.missing_input()
        return (
            f"no end in sight: {status}; input that has not entered: {missing}; delivered "
            f"{self.invariants.delivered}"
        )

    def _judge(self) -> None:
        """The end is the right one."""
        finish, world = self.cluster.outcome, self.world
        assert finish is not None
        world.trace.note(world.now, "end", finish.outcome, finish)
        if finish.outcome == "completed":
            self.invariants.finished()
            return
        detail = f"the job ends: {finish.outcome} {finish.category}: {finish.message}"
        if finish.category == "user" and "raised" in finish.message:
            self.invariants.failed_on_an_error(detail, all_below=not self.enabled)
            world.trace.cover("job.failed on a user error")
        elif finish.category == "user" and world.trace.coverage[f"fault.{Fault.FUNCTION_CHANGE.name}"]:
            named = "are not deterministic" in finish.message or "two results for one input" in finish.message
            world.require(named, "2 prefix", detail)
            world.trace.cover("job.failed on a function that is not deterministic")
        elif finish.category == "corrupt":
            loss = self._named_loss(finish.message)
            world.require(bool(loss), "4 snapshot", detail)
            world.trace.cover(f"job.ended on {loss}")
        else:
            raise world.fail("9 liveness", detail)

    def _named_loss(self, message: str) -> str:
        """Which of the things that are really lost the message names; "" for none."""
        journals, outside = self.outside.journals.logs, self.outside
        if any(name in message for name in outside.store.damaged):
            return "a damaged object"
        if any(
            f"{name_of_journal(front)} is damaged" in message and log.damaged
            for front, log in journals.items()
        ):
            return "a damaged journal"
        if any(
            f"sink {sink!r} has lost data: slot {slot} " in message for sink, slot in self.invariants.lost
        ):
            return "lost output"
        return ""

    def _wire(self) -> None:
        """Show the invariants what happens outside."""
        outside, invariants = self.outside, self.invariants
        outside.journals.durable = invariants.entry_durable
        outside.records.written = invariants.record_written
        outside.store.deleting = invariants.deleting
        outside.service.asked = invariants.asked
        for site in outside.consumers.values():
            site.taken = self._bundle_taken
            site.lost = invariants.bundles_lost
            site.opened = invariants.opened

    def _bundle_taken(self, sink: SinkName, fence: Fence, bundle: a.Bundle) -> None:
        self.invariants.bundle_taken(sink, fence, bundle)
        self.clients.saw(time_of_meta(Meta(bundle.t_last)))
        if self._timing is not None:
            self._timing.taken(self.world.now, sink, bundle)

    def _query_answered(self, told: Told) -> None:
        if self._timing is not None:
            self._timing.told(self.world.now, told)

    def _make_worker(self, me: WorkerId, version: int, ended: Callable[[WorkerNode], None]) -> WorkerNode:
        plan = self.plan.worker_of(version)
        if plan.edited:
            plan = replace(plan, worker=edited_worker(self.world.rng, plan.worker))
        node = _WatchedWorker(self.world, me, plan, self.outside, ended, self._parts, self.invariants)
        if plan.entrance_us:
            node.measure(plan.entrance_us)
        node.charge = None if self._timing is None else self._timing.charge
        node.answered = self.clients.take
        return node


class _WatchedWorker(WorkerNode):
    """A worker node that shows the invariants what it does."""

    def __init__(
        self, world: World, me: WorkerId, plan: Plan, outside: Outside, ended: Callable[[WorkerNode], None],
        parts: Parts, invariants: Invariants,
    ) -> None:  # fmt: skip
        self._invariants = invariants
        self._journals, self._skips = plan.worker.durable and not plan.worker.skips, plan.worker.skips
        self._entered: tuple[Fence, dict[FrontId, Time]] = NO_FENCE, {}
        self._asks = frozenset() if self._journals else frozenset(plan.job.graph.calls)
        self._answers: dict[Time, bytes] = {}
        """Those that have entered since the last pass, by their runs, where no journal has them."""
        super().__init__(world, me, plan.job.graph, plan.worker, outside, ended, parts)
        self._enters, self.core._enter = self.core._enter, self._enter  # type: ignore[method-assign]

    def _enter(self, source: SourceName, entry: Entry, payloads: Sequence[object]) -> int:
        if entry.moves and source in self._asks:
            self._answers[entry.time] = encode_many(payloads)
        return self._enters(source, entry, payloads)

    def _unjournalled(self) -> Iterator[tuple[FrontId, Entry]]:
        """Runs that have entered since this was asked last, where no journal tells of them (`none`,
        `at-most-once`)."""
        if self._journals:
            return
        if self._entered[0] != self.core.fence:
            self._entered = self.core.fence, {}
        last = self._entered[1]
        for number, front in self.core._fronts._fronts.items():
            # those of timed fronts follow from their input, unless some of it is skipped
            told = self._skips or isinstance(front, JournalledFront)
            for run in front.positions._runs if told else ():
                if run.time > last.get(number, START):
                    last[number] = run.time
                    # as a journal would have it: nothing but an end is an entry of nothing here
                    has = _END if run.is_pledge else self._answers.pop(run.time, run.payloads)
                    yield number, replace(run, payloads=has)

    def step(self, events: Sequence[Event]) -> Sequence[a.Action]:
        """Take a pass of the core, and show it to the invariants."""
        actions = super().step(events)
        invariants, fence = self._invariants, self.core.fence
        # In the order of the step itself: what it received was processed before its acker told a time.
        for event in events:
            if type(event) is FromPeer:
                invariants.processed(self.id, event.peer, event.frame)
            elif type(event) is RunRead and event.fence == fence:
                invariants.entered(fence, event.front, event.entry)
        for action in actions:
            if type(action) is a.ToPeer:
                invariants.sent(self.id, action.peer, action.frame)
            elif type(action) is a.Append:
                invariants.entered(fence, action.front, action.entry)
        for front, entry in self._unjournalled():
            invariants.entered(fence, front, entry)
        invariants.answers_are_between(self.core)
        if (told := told_by(self.core)) is not None:
            invariants.told(fence, told)
        return actions


def _cluster_of(plan: Plan) -> type[Cluster]:
    if plan.hands_over:
        return HandedOverCluster
    if plan.rolls:
        return RollingCluster
    return RestartedCluster if plan.restarts else Cluster


def _outside(world: World, plan: Plan) -> Outside:
    """Everything that is not a process."""
    sinks = [SinkName(vertex.name) for vertex in plan.job.graph.sinks if vertex.call is None]
    if plan.worker.dead_letter is not None:
        sinks.append(plan.worker.dead_letter)
    delay, site = plan.delay, ConsumerSite if plan.worker.exactly_once else Forgetful
    return Outside(
        Network(world, delay, plan.encode),
        Journals(world, delay, [site.front for site in plan.sites if not site.timed], plan.answers_us or delay),
        Store(world, 3 * delay, plan.parquet), Records(world, 2 * delay),
        {sink: site(world, sink, delay) for sink in sinks}, {site.front: site for site in plan.sites},
        Service(world, delay, productions_of(plan.job.graph)), delay, plan.turn,
    )  # fmt: skip
