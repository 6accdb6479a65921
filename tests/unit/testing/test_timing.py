"""A simulated pass takes the time that it is charged, and none by default."""

from random import Random

from flamestream.core.protocol.actions import Deliver
from flamestream.simulation.graphs import inverted_index
from flamestream.testing import Timing, simulate

SEED = 3
DELAYS = 2_000
"""More than what delays, which are drawn in another order when passes take time, can make up."""


def run(timing):
    """A job without faults."""

    def adjust(rng, plan, faults):
        faults.heal()
        return plan, faults

    return simulate(SEED, adjust=adjust, job=inverted_index(Random(SEED)), timing=timing)


def arrivals(charge):
    """When its consumer took each bundle."""
    times = []
    run(Timing(charge, lambda now, sink, bundle: times.append(now)))
    return times


def free(events, actions):
    return 0


def test_a_timing_that_charges_nothing_changes_nothing() -> None:
    assert run(Timing(free)).trace_hash == run(None).trace_hash


def test_a_result_is_late_by_what_the_pass_that_delivers_it_costs() -> None:
    def dear(events, actions):
        return 50_000 if any(type(action) is Deliver for action in actions) else 0

    assert arrivals(dear)[0] - arrivals(free)[0] >= 50_000 - DELAYS


def test_the_same_charge_gives_the_same_run() -> None:
    assert arrivals(lambda events, actions: 7 * len(events)) == arrivals(
        lambda events, actions: 7 * len(events)
    )


def test_all_is_delivered_whatever_passes_cost() -> None:
    assert run(Timing(lambda events, actions: 300 + 20 * len(events))).delivered == run(None).delivered > 0
