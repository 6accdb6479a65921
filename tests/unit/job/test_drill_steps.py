"""The steps of a drill: announced, struck once, seen, whole again, results; and how long each may take."""

from dataclasses import replace as look_with
from typing import Any

import pytest
from msgspec.structs import replace

from flamestream.job.drills.drill import (
    AUDIT_WITHIN,
    NOTICED,
    RESULTS_WITHIN,
    Step,
    step,
)
from flamestream.job.drills.observed import DrillPlan
from flamestream.job.drills.status import OVER
from flamestream.job.moments import moment
from support.runs.drill_looks import PAUSE, PLAN, START, World, announced, told


def test_a_fault_is_announced_before_it_is_made_and_made_once() -> None:
    world = World()
    while world.status.phase not in OVER:
        before = world.status.done
        if world.step().effect == "strike":
            assert (
                world.status.struck_at and world.status.victim in ("p1", "p2") and world.status.done == before
            )
    assert world.effects.count("strike") == 2


def test_no_fault_is_made_before_its_moment_or_while_somebody_holds_it() -> None:
    world = World(DrillPlan(job="j", target="worker", after=5.0))
    while not world.status.next_at:
        world.step()
    due = moment(world.status.next_at)
    world.now = due - 0.01
    world.step()
    assert not world.struck
    world.now = due + 10
    world.step(hold=True)
    assert not world.struck
    world.step()
    assert world.struck


def test_an_operator_that_finds_a_fault_announced_does_not_make_it_again() -> None:
    world = announced()
    world.struck.clear()
    world.over(sight="")
    assert (world.struck, world.status.reason) == ([], "NotStruck")


def test_the_same_seed_strikes_the_same_victim_at_the_same_moment() -> None:
    assert len({(announced().status.victim, announced().now) for _ in range(3)}) == 1


def test_only_a_job_that_gives_results_is_struck() -> None:
    world = World()
    for _ in range(20):
        world.step(told=told())
    assert not world.struck
    world.until(struck=True)
    assert moment(world.status.struck_at) < START + RESULTS_WITHIN


def test_counters_of_another_attempt_are_no_results_before_a_fault_either() -> None:
    world = World()
    world.step()
    for attempt, bundles, due in ((1, 5, False), (2, 900, False), (2, 900, False), (2, 901, True)):
        world.step(told=told(attempt, bundles=bundles))
        assert bool(world.status.next_at) is due


def test_counters_of_another_attempt_are_no_results() -> None:
    """A worker that takes over counts from its own beginning."""
    world = announced()
    while not world.status.whole_at:
        world.step(told=told(2, bundles=5))
    world.step(told=told(3, bundles=900))
    assert world.status.done == 0
    world.step(told=told(3, bundles=901))
    assert world.status.done == 1


@pytest.mark.parametrize(
    ("struck", "verdict"), [(False, ("Inconclusive", "NotRunning")), (True, ("Failed", "NotWhole"))]
)
def test_a_job_that_is_whole_for_a_moment_only_is_not_waited_for_for_ever(
    struck: bool, verdict: tuple[str, str]
) -> None:
    """Each look finds a newer attempt."""
    world = announced() if struck else World()
    began, attempt = world.now, 10
    while world.status.phase not in OVER:
        attempt += 1
        world.step(told=told(attempt, bundles=attempt))
    assert (world.status.phase, world.status.reason) == verdict
    assert world.now - began < PLAN.timeout + 2 * RESULTS_WITHIN


def test_it_is_over_when_all_workers_are_back_in_a_new_attempt_and_give_results() -> None:
    world = announced()
    world.step()
    assert world.status.seen == "gone"
    at = moment(world.status.struck_at)
    for later, coordinator in ((0.5, told(1)), (0.6, told(2, workers=1))):
        world.now = at + later
        world.step(told=coordinator)
        assert not world.status.whole_at
    world.now = at + 1
    world.step(told=told(2, bundles=4))
    world.step(told=told(2, bundles=4))
    assert world.status.done == 0
    world.step(told=told(2, bundles=5))
    fault = world.status.faults[0]
    assert (fault.recovered_ms, fault.recovery_ms, fault.then) == (1000.0, 120.0, "output")


def test_a_pause_is_not_over_before_the_victim_goes_on() -> None:
    world = announced(PAUSE)
    struck = moment(world.status.struck_at)
    while not world.status.whole_at:
        world.step(sight="paused")
    assert world.now > struck + 8.0 > struck + NOTICED


def test_a_long_pause_that_nobody_noticed_is_not_recovered_from() -> None:
    world = announced(PAUSE)
    assert world.over(sight="paused", told=told(1)).reason == "NotWhole"


def test_a_short_one_may_pass_unnoticed() -> None:
    world = announced(DrillPlan(job="j", target="worker", lasting=1.0))
    while not world.status.done:
        world.count += 1
        world.step(sight="paused", told=told(1, bundles=world.count))
    assert world.status.faults[0].recovery_ms == 0


def test_a_fault_that_takes_no_slots_needs_no_new_attempt() -> None:
    world = announced(DrillPlan(job="j", target="zookeeper", hits=False))
    while world.status.phase not in OVER:
        world.count += 1
        world.step(told=told(1, bundles=world.count, epoch=world.count, cut_time=world.count))
    assert world.status.phase == "Passed"


def gap(**outputs: Any) -> float | None:
    world = announced()
    struck = int(moment(world.status.struck_at) * 1e6)
    ages = {name: struck + age for name, age in outputs.items() if name != "gaps"}
    ages["gaps"] = [(struck + end, length) for end, length in outputs.get("gaps", ())]
    while not world.status.done:
        world.count += 1
        world.step(told=told(2, bundles=world.count, **ages))
    return world.status.faults[0].output_gap_ms


def test_the_output_gap_is_the_longest_that_ended_after_the_fault() -> None:
    gaps = [(-5_000_000, 9_000_000), (400_000, 350_000), (900_000, 100_000)]
    assert gap(first_output=-9_000_000, gaps=gaps) == 350.0


def test_a_gap_that_nobody_could_see_is_none() -> None:
    assert gap(first_output=-9_000_000, gaps=[(-5_000_000, 9_000_000)]) == 0.0


def test_a_coordinator_that_heard_of_nothing_before_the_fault_knows_no_gap() -> None:
    assert gap(first_output=300_000, gaps=[(900_000, 100_000)]) is None


def test_a_fault_in_a_job_that_is_not_whole_again_for_long_does_not_shorten_the_next_wait() -> None:
    plan = DrillPlan(job="j", target="worker", times=2, after=400.0, timeout=300.0)
    world = World(plan)
    while not world.status.done:
        world.step()
    world.step()
    world.now += 350
    world.step(told=told(2, workers=1))
    world.step(told=told(2, workers=1))
    assert world.status.phase == "Running"


def test_a_clock_that_is_set_back_makes_nobody_wait_until_it_comes_round_again() -> None:
    for until in ({"struck": True}, {}):
        world = World(PAUSE)
        world.until("Auditing", **until)
        world.now -= 86_400
        before = world.now
        world.over(sight="", audit=None)
        assert world.now - before < PLAN.timeout + AUDIT_WITHIN
    waiting = World()
    while not waiting.status.next_at:
        waiting.step()
    waiting.now -= 86_400
    waiting.step()
    assert waiting.struck


def test_what_is_over_stays_over() -> None:
    world = World()
    world.over()
    assert step(world.look()) == Step(world.status)
    assert step(look_with(world.look(), status=replace(world.status, phase="Failed"))).effect == ""
