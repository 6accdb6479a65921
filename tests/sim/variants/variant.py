"""A broken variant: the engine with one rule taken away, and how to catch it.

Does not: hold the list (`__init__.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from random import Random
from types import ModuleType
from typing import Any

from flamestream.core.protocol.inventory import inventory_of
from flamestream.core.protocol.settings import FrontSettings
from flamestream.simulation import simulator
from flamestream.simulation.faults import WORDS, Fault, FaultPlan, Moment
from flamestream.simulation.graphs import SimJob, twice_across
from flamestream.simulation.outside.producers import SourceSite
from flamestream.simulation.settings import MS, Adjust, Plan, promising
from flamestream.simulation.simulator import SimulationFailure, Variant, simulate

PATIENCE = 2_500 * MS
"""Virtual time that a job has to end in, once all is healed: what stands still is known to for long enough."""
NOTHING: Mapping[str, Any] = {}


@contextmanager
def patched(owner: Any, **replacements: Any) -> Iterator[None]:
    """`owner` with other attributes for a while."""
    before = {name: owner.__dict__[name] for name in replacements}
    for name, value in replacements.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


class Patch:
    """A variant that replaces attributes of classes and modules."""

    def __init__(self, *parts: tuple[Any, Mapping[str, Any]]) -> None:
        self.parts = parts

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, replacements in self.parts:
                stack.enter_context(patched(owner, **replacements))
            yield

    @property
    def where(self) -> str:
        """What is broken: the engine, another part of the product, or a fake of the simulator, which shows
        less."""
        modules = {
            owner.__name__ if isinstance(owner, ModuleType) else owner.__module__ for owner, _ in self.parts
        }
        if any(module.startswith("flamestream.simulation") for module in modules):
            return "fake"
        return "engine" if all(module.startswith("flamestream.core") for module in modules) else "product"


def patch(owner: Any, **replacements: Any) -> Patch:
    """A variant that replaces attributes of `owner`."""
    return Patch((owner, replacements))


def together(*patches: Patch) -> Patch:
    """All of them at once."""
    return Patch(*(part for one in patches for part in one.parts))


@dataclass(frozen=True)
class BrokenVariant:
    """One rule less."""

    name: str
    broken: Patch
    adjust: Adjust | None = None
    """A directed scenario, where chance alone would need too many seeds."""
    job: Callable[[Random], SimJob] | None = None
    seeds: int = 150
    """It is caught within seeds 0 to this."""
    guarantee: str = "exactly-once"

    def caught(self, since: int = 0) -> tuple[int, SimulationFailure] | None:
        """The first seed from `since` on that catches it (and finds nothing in the whole engine), and what it
        says."""
        for seed in range(since, self.seeds):
            failure = self._failure(seed, self.broken)
            if failure is not None and self._failure(seed, None) is None:
                return seed, failure
        return None

    def _failure(self, seed: int, broken: Variant | None) -> SimulationFailure | None:
        job = None if self.job is None else self.job(Random(seed))
        # The same of both: a seed that the whole engine needs longer for shows nothing.
        with patched(simulator, LIVENESS_LIMIT=PATIENCE):
            try:
                simulate(seed, broken=broken, adjust=promising(self.guarantee, self.adjust), job=job)
            except SimulationFailure as failure:
                return failure
        return None


def directed(
    *faults: Fault,
    rate: float = 0.3,
    times: int = 3,
    spacing: int | None = None,
    clump: int = 1,
    journalled: bool = False,
    late: Iterable[str] = WORDS,
    worker: Mapping[str, Any] = NOTHING,
    coordinator: Mapping[str, Any] = NOTHING,
    plan: Mapping[str, Any] = NOTHING,
) -> Adjust:
    """Certain faults instead of drawn ones, in the last 80 ms before healing, and changed settings.

    `spacing` microseconds between records, of which `clump` come together; `journalled` makes every front
    one; `late` are the words that CONTROL_DELAY holds back.
    """

    def adjust(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
        start = drawn.heal_at - 80_000
        moments = [
            Moment(rng.randrange(start, drawn.heal_at), fault) for fault in faults for _ in range(times)
        ]
        chosen.rates, chosen.late_words = dict.fromkeys(faults, rate), frozenset(late)
        chosen.moments = sorted(moments, key=lambda moment: moment.at)
        sites = (
            drawn.sites if spacing is None else [spaced(site, start, spacing, clump) for site in drawn.sites]
        )
        fronts = drawn.worker.fronts
        if journalled:
            sites = [replace(site, timed=False, run_length=1) for site in sites]
            fronts = tuple(replace(front, timed=False, run_length=1) for front in fronts)
        told = with_fronts(drawn, sites, fronts)
        return replace(
            told,
            worker=replace(told.worker, **worker),
            coordinator=replace(told.coordinator, **coordinator),
            **{"stop_at": None, "edited": False, "parquet": False, **plan},
        ), chosen

    return adjust


def with_fronts(plan: Plan, sites: list[SourceSite], fronts: tuple[FrontSettings, ...]) -> Plan:
    """The plan with other fronts, of which all of its processes know."""
    inventory = inventory_of(plan.job.graph, plan.job.dead_letter, fronts)
    return replace(
        plan,
        sites=sites,
        worker=replace(plan.worker, fronts=fronts),
        coordinator=replace(plan.coordinator, inventory=inventory),
    )


def several_sources(rng: Random) -> SimJob:
    """A job whose items cross workers twice, over several fronts."""
    return next(job for job in iter(lambda: twice_across(rng), None) if job.sources > 1)


def spaced(site: SourceSite, start: int, spacing: int, clump: int) -> SourceSite:
    """Its records, so many at a time, one after the other."""
    spaced = {
        partition: [
            replace(record, available=start + number // clump * spacing)
            for number, record in enumerate(records)
        ]
        for partition, records in site.partitions.items()
    }
    return replace(site, partitions=spaced)
