"""The settings that a seed draws before its run begins: the job, its input, the sizes and times of
everything, and the faults."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random

from flamestream.core.coordinator.coordination import Settings
from flamestream.core.protocol.inventory import inventory_of
from flamestream.core.protocol.settings import FrontSettings, WorkerSettings
from flamestream.model.calls.call import calls_of
from flamestream.model.graph import Graph
from flamestream.model.ids import Partition, SourceName
from flamestream.model.time import ROOM, FrontId, Timestamp
from flamestream.simulation.faults import FaultPlan
from flamestream.simulation.graphs import SimJob, drawn_job
from flamestream.simulation.outside.producers import SimRecord, SourceSite
from flamestream.simulation.world import EPOCH_START

MS = 1_000
LIVENESS_LIMIT = 10_000 * MS
"""Virtual time after healing in which a job has to end (invariant 9)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A run as the seed draws it, but for its faults."""

    job: SimJob
    sites: list[SourceSite]
    worker: WorkerSettings
    coordinator: Settings
    workers: int
    standbys: int
    delay: int
    turn: int
    heal_at: int
    encode: bool
    stop_at: int | None
    """When somebody stops the job, to start it again a little later."""
    parquet: bool = False
    """Segments are Parquet files."""
    edited: bool = False
    """Its settings are edited now and then: each new process has others than the last."""
    guarantee: str = "exactly-once"
    entrance_us: int = 0
    """The time that an item at the door of a slot counts for, where the load of slots is told; 0: it is
    not."""
    upgrades: tuple[int, ...] = ()
    """When the code is changed, ascending."""
    restarts: tuple[int, ...] = ()
    """When it is stopped, to be started again with its next version."""
    hands_over: bool = False
    """Its code is changed by handing it over to another job."""
    rolls: tuple[int, ...] = ()
    """When the image changes under the worker at each place."""
    asks_every: int = 0
    """About so often a client asks for states, in microseconds; 0: nobody does."""
    answers_us: int = 0
    """The longest that a journal takes to say that an entry is durable, in microseconds; 0: no longer than to write
    one."""
    began_with: int = 0
    """The number of fronts that the first graph has."""

    def upgraded_at(self, moments: Iterable[int]) -> "Plan":
        """The same, with code that is changed at these times."""
        ticking = replace(self, began_with=self.began_with or len(self.worker.fronts))
        return replace(ticking, upgrades=tuple(sorted(moments)), coordinator=ticking.coordinator_of(0))

    def worker_of(self, version: int) -> "Plan":
        """The plan that workers of a version of the code are made from."""
        if not (self.upgrades or self.restarts):
            return self
        job = self.job.of_version(version)
        worker = replace(self.worker, code=code_of(version), fronts=self._fronts_of(job.graph))
        return replace(self, job=job, worker=worker)

    def _fronts_of(self, graph: Graph) -> tuple[FrontSettings, ...]:
        """The fronts of a graph's sources, as who does not know the job numbers them: new ones stand before,
        between and behind the others, in the order of their numbers, or nobody could foresee these."""
        names = {vertex.name for vertex in graph.sources}
        its = [front for front in self.worker.fronts if front.source in names]
        fronts, place = its[: self.began_with], 0
        for number, front in enumerate(its[self.began_with :]):
            place = max(place, front.front * 7 % (self.began_with + 1))
            fronts.insert(place + number, front)
        return tuple(replace(front, front=FrontId(number)) for number, front in enumerate(fronts))

    def coordinator_of(self, version: int) -> Settings:
        """Settings of a coordinator for a version of the code."""
        graph = self.job.of_version(version).graph
        return replace(
            self.coordinator, graph=graph.identity,
            inventory=inventory_of(graph, self.job.dead_letter, self._fronts_of(graph)),
            code=code_of(version), drop=tuple(f"fresh-{each}" for each in range(version)),
        )  # fmt: skip


def code_of(version: int) -> str:
    """The digest of a version of the code."""
    return f"v{version}"


def version_of(code: str) -> int:
    """The version whose digest `code` is."""
    return int(code.removeprefix("v"))


def drawn_plan(rng: Random, job: SimJob | None = None) -> Plan:
    """A job with its input and its settings."""
    job = job or drawn_job(rng)
    heal_at = EPOCH_START + rng.randint(80, 350) * MS
    sites = _sites(rng, job, heal_at)
    slots, workers = rng.choice([4, 8, 8, 16]), rng.choice([1, 2, 3, 4, 4])
    fronts = tuple(
        FrontSettings(
            each.front,
            SourceName(f"s{each.front % job.sources}"),
            each.timed,
            each.run_length,
            each.replayable,
            step=each.step,
        )
        for each in sites
    ) + fronts_of_calls(job, len(sites))
    sites += sites_of_calls(fronts)
    worker = edited_worker(rng, WorkerSettings(
        job="sim", slots=slots, fronts=fronts, python="sim", dead_letter=job.dead_letter, heartbeat=20 * MS,
        debug=rng.random() < 0.03,
        patience=job.patience, judged=job.judged,
    ))  # fmt: skip
    return Plan(
        job, sites, worker, _coordinator(rng, job, worker, workers), workers,
        standbys=rng.choice([0, 0, 1, 2]), delay=rng.choice([50, 100, 100, 300]),
        turn=rng.choice([20, 100, 300]), heal_at=heal_at, encode=rng.random() < 0.1,
        stop_at=rng.randint(EPOCH_START, heal_at) if rng.random() < 0.15 else None, edited=rng.random() < 0.2,
        parquet=rng.random() < 0.1,
    )  # fmt: skip


def fronts_of_calls(job: SimJob, first: int) -> tuple[FrontSettings, ...]:
    """Fronts of calls' answers, behind all others."""
    names = [name for name, call in calls_of(job.graph).items() for _ in range(call.settings.fronts)]
    return tuple(
        FrontSettings(FrontId(number), SourceName(name), False, 1, replayable=False, of_call=True)
        for number, name in enumerate(names, first)
    )


def sites_of_calls(fronts: Iterable[FrontSettings]) -> list[SourceSite]:
    """Nothing comes from outside at these."""
    return [SourceSite(each.front, False, False, {Partition(""): []}) for each in fronts if each.of_call]


def edited_worker(rng: Random, settings: WorkerSettings) -> WorkerSettings:
    """Settings of a worker with other limits, for the same job."""
    return replace(
        # small: a few dozen records never meet the limits that users have
        settings, credit_runs=rng.choice([2, 5, 20, 1000]), credit_bytes=rng.choice([60, 400, 8 << 20]),
        delivery_items=rng.choice([1, 3, 50, 8192]), slice_size=rng.choice([1, 4, 128]),
        slice_bytes=rng.choice([30, 64 << 10]), upload_bytes=rng.choice([1, 40, 64 << 20]),
    )  # fmt: skip


def edited_coordinator(rng: Random, settings: Settings) -> Settings:
    """Settings of a coordinator with other intervals and patience, for the same job."""
    patient = rng.random() < 0.2  # as users have it: no shorter than it really is
    return replace(
        settings, interval_us=settings.interval_us and rng.choice([5, 10, 25, 60]) * MS,
        heartbeat_us=rng.choice([50, 70, 100]) * MS, stuck_us=rng.choice([60, 120]) * MS,
        grace_us=rng.choice([5, 20, 50]) * MS, rebalance=rng.random() < 0.7,
        discovery_us=2_000 * MS if patient else 40 * MS, settle_us=1_000 * MS if patient else 20 * MS,
    )  # fmt: skip


STRONG = "strong-productions"
GUARANTEES = ("exactly-once", STRONG, "exactly-once-2pc", "at-most-once", "at-least-once", "none")


Adjust = Callable[[Random, Plan, FaultPlan], tuple[Plan, FaultPlan]]
"""Directs a run."""


def promising(guarantee: str, direct: Adjust | None = None) -> Adjust:
    """Runs whose job asks for `guarantee`, directed further by `direct`."""
    skips, durable = guarantee == "at-most-once", guarantee != "none"
    exactly_once, two_phase = (
        skips or guarantee == STRONG or guarantee.startswith("exactly"),
        skips or guarantee == "exactly-once-2pc",
    )

    def adjust(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
        while skips and drawn.job.graph.calls:  # refused: their answers need a journal
            drawn = drawn_plan(rng)
        plan, faults = (drawn, chosen) if direct is None else direct(rng, drawn, chosen)
        worker = replace(
            plan.worker,
            exactly_once=exactly_once,
            two_phase=two_phase,
            skips=skips,
            durable=durable,
            remembered=exactly_once,
        )
        interval = plan.coordinator.interval_us if durable else None
        coordinator = replace(
            plan.coordinator, exactly_once=exactly_once, two_phase=two_phase, interval_us=interval
        )
        return replace(plan, guarantee=guarantee, worker=worker, coordinator=coordinator), faults

    return adjust


def _coordinator(rng: Random, job: SimJob, worker: WorkerSettings, workers: int) -> Settings:
    return edited_coordinator(rng, Settings(
        job="sim", graph=job.graph.identity,
        inventory=inventory_of(job.graph, job.dead_letter, worker.fronts), python="sim",
        workers=workers, fronts=len(worker.fronts),
        slots=worker.slots, epoch_timeout_us=150 * MS, gather_us=80 * MS, rebalance_pause_us=60 * MS,
        warm_us=80 * MS, retry_us=3 * MS, last_epoch_us=150 * MS, drain_us=200 * MS, failures=1000,
        calm_us=100 * MS,
    ))  # fmt: skip


def _sites(rng: Random, job: SimJob, heal_at: int) -> list[SourceSite]:
    """A front a source, and maybe one more; a few dozen records in all."""
    count = job.sources if job.one_partition or rng.random() < 0.7 else job.sources + 1
    total = rng.randint(8, 48)
    return [
        drawn_site(
            rng, job, FrontId(front), max(1, total // count), heal_at,
            timed=rng.random() < 0.3 and not job.journalled,
        )
        for front in range(count)
    ]  # fmt: skip


def drawn_site(
    rng: Random, job: SimJob, front: FrontId, records: int, heal_at: int, *, timed: bool
) -> SourceSite:
    """The outside of a front with about so many records."""
    partitions = 1 if timed or job.one_partition else rng.choice([1, 1, 2, 3])
    names = [Partition("")] if timed else [Partition(f"p{i}") for i in range(partitions)]
    span = rng.randint(1, heal_at - EPOCH_START)
    parts: dict[Partition, list[SimRecord]] = {name: [] for name in names}
    numbers = (
        sorted(rng.choice(names) for _ in range(records)) if not job.one_partition else [names[0]] * records
    )
    for number, name in enumerate(numbers):
        parts[name].append(
            # no number is of two fronts: a result shows whose records are in it
            SimRecord(job.record(rng, number if job.one_partition else number * 4 + front), 0, Timestamp(0))
        )
    # nothing but its input moves a timed front: an idle one holds all others back
    stays_open = not timed and rng.random() < 0.3
    for name in names:
        parts[name] = scheduled(rng, parts[name], span)
        if stays_open and rng.random() < 0.5:
            parts[name] = _idle_for_long(rng, parts[name], heal_at)
    run_length = rng.randint(1, 4) if timed else 1
    replayable, step = timed or rng.random() < 0.7, ROOM if job.graph.calls else 1
    return SourceSite(front, timed, replayable, parts, run_length, step, stays_open)


def _idle_for_long(rng: Random, records: list[SimRecord], heal_at: int) -> list[SimRecord]:
    """The last few come long after all the others."""
    idle_from = rng.randrange(len(records) + 1)
    again = max(heal_at, *(record.available for record in records), 0) + rng.randrange(300 * MS)
    return [*records[:idle_from], *(replace(record, available=again) for record in records[idle_from:])]


def scheduled(rng: Random, records: list[SimRecord], span: int) -> list[SimRecord]:
    """Spread over `span`, or in clumps, beginning late now and then (a partition discovered while running);
    own times lag or lead."""
    begin = EPOCH_START + (rng.randrange(span) if rng.random() < 0.3 else 0)
    clumps = [rng.randrange(span) for _ in range(rng.choice([1, 3, 100]))]
    moments = sorted(begin + rng.choice(clumps) + rng.randrange(MS) for _ in records)
    return [
        SimRecord(r.payload, at, Timestamp(max(1, at + rng.randint(-20 * MS, 2 * MS))))
        for r, at in zip(records, moments, strict=True)
    ]
