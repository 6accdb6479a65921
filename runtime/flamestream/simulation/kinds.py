"""Kinds of simulated runs by name: which jobs a seed draws, and what befalls them beside faults.

    flamestream simulate --kind transactions --seeds 0:500

Keeps: a kind, a guarantee and a seed are one run, which a failure names. Does not: break anything: variants of the
protocol that lack a rule are tests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType
from typing import Any, Final

from flamestream.simulation.changes.hand_overs import handing_over
from flamestream.simulation.changes.loads import loaded
from flamestream.simulation.changes.releases import rolling
from flamestream.simulation.changes.restarts import changing_job, restarting
from flamestream.simulation.clients import asked
from flamestream.simulation.faults import FaultPlan
from flamestream.simulation.graphs import SimJob, drawn_job
from flamestream.simulation.jobs import ticks
from flamestream.simulation.jobs.answered import answered_job
from flamestream.simulation.jobs.bank import (
    bank_job,
    indexed_job,
    live_job,
    retracted_job,
    retracted_row_job,
    subgraph_job,
)
from flamestream.simulation.jobs.calls import asking_job
from flamestream.simulation.jobs.event_time import arrival_job, clock_job, event_time_job
from flamestream.simulation.jobs.productions import production_job
from flamestream.simulation.jobs.programs import program_job
from flamestream.simulation.settings import GUARANTEES, STRONG, Adjust, Plan, promising
from flamestream.simulation.simulator import Result, simulate

Draw = Callable[[Random], SimJob]
LOOKED_BACK: Final = ("exactly-once", STRONG, "exactly-once-2pc", "at-least-once")
"""The guarantees under which what was shown once stays."""
OF_ONE_CUT: Final = tuple(name for name in GUARANTEES if name != "at-least-once")
"""Those whose consumers have nothing above a cut but what the code before it made."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Runs that are alike."""

    about: str
    """For people: what jobs do, or what befalls them."""
    draw: Draw | None = None
    """None: what the run's own seed draws."""
    direct: Adjust | None = None
    guarantees: tuple[str, ...] = GUARANTEES
    """Under which it means something."""


def _one_of(*draws: Draw) -> Draw:
    return lambda rng: rng.choice(draws)(rng)


KINDS: Final[Mapping[str, Kind]] = MappingProxyType({
    "any": Kind("functions, folds, loops and now and then a call"),
    "calls": Kind(
        "ask a service, which answers late, twice, wrong and never", _one_of(asking_job, answered_job),
        guarantees=("exactly-once", "exactly-once-2pc", "at-least-once"),
    ),
    "productions": Kind("toss coins, behind doors", production_job, guarantees=(STRONG,)),
    "event-time": Kind(
        "windows and clocks, of late records too", _one_of(event_time_job, arrival_job, clock_job)
    ),
    "windows": Kind("sessions, joins, ranks and own programs", program_job, guarantees=("exactly-once",)),
    "transactions": Kind(
        "tables whose rows change together",
        _one_of(bank_job, retracted_job, retracted_row_job, subgraph_job),
    ),
    "new-index": Kind("tables that get an index while they run", indexed_job, ticks.ticking(), OF_ONE_CUT),
    "queries": Kind(
        "clients ask for states, and for rows of transactions that are taken back", _one_of(drawn_job, live_job),
        asked, LOOKED_BACK,
    ),
    "upgrades": Kind("the code changes", ticks.edited_job, ticks.ticking(), OF_ONE_CUT),
    "new-sources": Kind("sources come with changed code", ticks.growing_job, ticks.growing(), OF_ONE_CUT),
    "fatal-code": Kind("changed code kills its workers", ticks.fatal_job, ticks.failing(), OF_ONE_CUT),
    "raising-code": Kind("changed code raises", ticks.mistaken_job, ticks.ticking(), OF_ONE_CUT),
    "migrations": Kind("states get versions", ticks.migrated_job, ticks.ticking(), OF_ONE_CUT),
    "hand-overs": Kind("another job goes on from a cut", ticks.edited_job, handing_over(), OF_ONE_CUT),
    "restarts": Kind(
        "the job starts anew with other sources", changing_job, restarting(),
        guarantees=("exactly-once", "exactly-once-2pc"),
    ),
    "releases": Kind("the image changes, and workers know other messages", direct=rolling),
    "loads": Kind("slots move and workers come and go for their load", direct=loaded),
})  # fmt: skip


def usual(guarantee: str) -> str:
    """The kind of a guarantee where nobody names one: functions that no other guarantee forgives, if it has some."""
    return "productions" if guarantee == STRONG else "any"


def named(kind: str, guarantee: str) -> str:
    """The name that `--kind` has to be given for it; "": none."""
    return "" if kind == usual(guarantee) else kind


def run(kind: str, seed: int, guarantee: str = "exactly-once", **options: Any) -> Result:
    """Simulate a seed of a kind; `options` are `simulate`'s. Raises SimulationFailure with the command that shows it
    again."""
    its = KINDS[kind]
    job = None if its.draw is None else its.draw(Random(seed))
    return simulate(
        seed, job=job, adjust=_marked(named(kind, guarantee), promising(guarantee, its.direct)), **options
    )


def _marked(kind: str, adjust: Adjust) -> Adjust:
    def marked(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
        plan, faults = adjust(rng, drawn, chosen)
        return replace(plan, job=replace(plan.job, kind=kind)), faults

    return marked
