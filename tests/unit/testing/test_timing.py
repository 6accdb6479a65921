"""A simulated pass takes the time that it is charged, and none by default."""

from collections.abc import Sequence
from random import Random

from flamestream.core.protocol.actions import Deliver
from flamestream.simulation.faults import FaultPlan
from flamestream.simulation.graphs import inverted_index
from flamestream.simulation.process import Charge
from flamestream.simulation.settings import Plan
from flamestream.simulation.simulator import Result
from flamestream.testing import Timing, simulate

SEED = 3
DELAYS = 2_000
"""More than what delays, which are drawn in another order when passes take time, can make up."""


def run(timing: Timing | None) -> Result:
    """A job without faults."""

    def adjust(rng: Random, plan: Plan, faults: FaultPlan) -> tuple[Plan, FaultPlan]:
        faults.heal()
        return plan, faults

    return simulate(SEED, adjust=adjust, job=inverted_index(Random(SEED)), timing=timing)


def arrivals(charge: Charge) -> list[int]:
    """When its consumer took each bundle."""
    times: list[int] = []
    run(Timing(charge, lambda now, sink, bundle: times.append(now)))
    return times


def free(events: Sequence[object], actions: Sequence[object]) -> int:
    return 0


def test_a_timing_that_charges_nothing_changes_nothing() -> None:
    assert run(Timing(free)).trace_hash == run(None).trace_hash


def test_a_result_is_late_by_what_the_pass_that_delivers_it_costs() -> None:
    def dear(events: Sequence[object], actions: Sequence[object]) -> int:
        return 50_000 if any(type(action) is Deliver for action in actions) else 0

    assert arrivals(dear)[0] - arrivals(free)[0] >= 50_000 - DELAYS


def test_the_same_charge_gives_the_same_run() -> None:
    assert arrivals(lambda events, actions: 7 * len(events)) == arrivals(
        lambda events, actions: 7 * len(events)
    )


def test_all_is_delivered_whatever_passes_cost() -> None:
    assert run(Timing(lambda events, actions: 300 + 20 * len(events))).delivered == run(None).delivered > 0
