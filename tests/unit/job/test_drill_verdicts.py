"""The verdicts of a drill: what passes, and everything that must not."""

from typing import Any

import pytest
from msgspec.structs import replace

from flamestream.job.drills.drill import (
    AUDIT_WITHIN,
    RESULTS_WITHIN,
    SEEN_WITHIN,
    TAKEN_UP_WITHIN,
)
from flamestream.job.drills.observed import DrillPlan
from flamestream.job.drills.status import OVER, AuditResult
from support.runs.drill_looks import CLEAN, PAUSE, PLAN, START, World, announced, told


def test_faults_that_were_seen_results_after_each_and_a_clean_audit_pass() -> None:
    world = World()
    status = world.over()
    assert (status.phase, status.reason, status.done, len(world.struck)) == ("Passed", "Clean", 2, 2)
    assert [fault.seen for fault in status.faults] == ["gone", "gone"]
    assert "2 of 2 faults took place, and output went on after each" in status.message
    assert "5 results of 5 records: 0 lost, 0 doubled, 0 reordered" in status.message


BEFORE: dict[str, tuple[dict[str, Any], str, str]] = {
    "there is no such job": ({"job_phase": ""}, "Inconclusive", "JobNotFound"),
    "the job has completed": ({"job_phase": "Completed", "told": None}, "Inconclusive", "Completed"),
    "the job is suspended": ({"job_phase": "Suspended", "told": None}, "Inconclusive", "NotRunning"),
    "the job has failed": ({"job_phase": "Failed", "told": None}, "Inconclusive", "NotRunning"),
    "the job is being deleted": ({"job_phase": "Deleting"}, "Inconclusive", "JobDeleted"),
    "the job has no coordinator": ({"told": None}, "Inconclusive", "NotRunning"),
    "the job is not whole": ({"told": told(workers=1)}, "Inconclusive", "NotRunning"),
    "a worker has not reported": ({"told": told(memory=0)}, "Inconclusive", "NotRunning"),
    "nothing enters and nothing comes": ({"told": told()}, "Inconclusive", "Idle"),
    "there is nobody to strike": ({"victims": {}}, "Inconclusive", "Refused"),
    "nobody may look": ({"out_of_reach": "forbidden"}, "Inconclusive", "Refused"),
    "the output cannot be audited": ({"cannot_audit": "a socket sink"}, "Inconclusive", "NotAudited"),
    "it was asked for long ago": ({"age": TAKEN_UP_WITHIN + 1}, "Inconclusive", "Expired"),
}


@pytest.mark.parametrize(("seen", "phase", "reason"), BEFORE.values(), ids=BEFORE)
def test_nothing_is_broken_where_a_drill_would_prove_nothing(
    seen: dict[str, Any], phase: str, reason: str
) -> None:
    world = World(**seen)
    status = world.over()
    assert (status.phase, status.reason, world.struck, status.done) == (phase, reason, [], 0)
    assert status.message and status.finished_at


STILL = told(2, bundles=1, items_in=1)
AFTER: dict[str, tuple[dict[str, Any], str, str]] = {
    "the fault was refused": ({"refused": "the strike at p1 failed: Forbidden"}, "Inconclusive", "Refused"),
    "nobody saw the fault": ({"sight": ""}, "Inconclusive", "NotStruck"),
    "a signal was sent, the job is the same": ({"told": told(1), "attempt": 1}, "Failed", "NotWhole"),
    "a worker stays away": ({"told": told(2, workers=1)}, "Failed", "NotWhole"),
    "the coordinator stays away": ({"told": None}, "Failed", "NotWhole"),
    "the victim's place stays empty": ({"replaced": False}, "Failed", "NotWhole"),
    "output stopped, input waits": ({"told": told(2, bundles=1, in_flight=3)}, "Failed", "OutputStopped"),
    "no input, no output": ({"told": STILL}, "Inconclusive", "Idle"),
    "the job fails": ({"job_phase": "Failed", "told": None, "job_message": "damaged"}, "Failed", "JobFailed"),
    "the job is suspended": ({"job_phase": "Suspended", "told": None}, "Inconclusive", "NotRunning"),
    "the job is deleted": ({"job_phase": "", "told": None}, "Inconclusive", "JobDeleted"),
    "the job is another of the same name": ({"job_uid": "another"}, "Inconclusive", "JobDeleted"),
    "the job had ended before anybody missed the victim": (
        {"job_phase": "Completed", "told": None, "attempt": 1},
        "Inconclusive",
        "Completed",
    ),
    "the job had ended before the fault was seen": (
        {"job_phase": "Completed", "told": None, "sight": "", "attempt": 2},
        "Inconclusive",
        "Completed",
    ),
    "the job ends after one of two": (
        {"job_phase": "Completed", "told": None, "attempt": 2},
        "Inconclusive",
        "FewerFaults",
    ),
}


@pytest.mark.parametrize(("seen", "phase", "reason"), AFTER.values(), ids=AFTER)
def test_a_fault_that_did_not_take_place_or_was_not_recovered_from_does_not_pass(
    seen: dict[str, Any], phase: str, reason: str
) -> None:
    world = announced()
    status = world.over(**seen)
    assert (status.phase, status.reason, len(world.struck)) == (phase, reason, 1)
    assert status.done == (1 if reason == "FewerFaults" else 0)


def auditing() -> World:
    world = World()
    world.until("Auditing")
    return world


DAMAGED: dict[str, tuple[dict[str, Any], str, str]] = {
    "lost": (
        {"audit": AuditResult(clean=False, records=5, delivered=4, lost=1, first_difference="4 is missing")},
        "Failed",
        "NotClean",
    ),
    "doubled": ({"audit": AuditResult(clean=False, records=5, delivered=6, doubled=1)}, "Failed", "NotClean"),
    "foreign": ({"audit": AuditResult(clean=False, records=5, delivered=5, foreign=1)}, "Failed", "NotClean"),
    "input is missing": (
        {"audit": AuditResult(clean=False, records=4, delivered=4, missing_input=1)},
        "Failed",
        "NotClean",
    ),
    "bounds before the fault": (
        {"audit": AuditResult(clean=True, records=5, delivered=5, epoch=1)},
        "Inconclusive",
        "NotAudited",
    ),
    "an audit of nothing": ({"audit": AuditResult(clean=True)}, "Inconclusive", "NotAudited"),
    "an audit without output": ({"audit": AuditResult(clean=True, records=5)}, "Inconclusive", "NotAudited"),
    "no verdict": ({"audit": None, "audit_problem": "a socket sink"}, "Inconclusive", "NotAudited"),
    "an audit that does not end": ({"audit": None}, "Inconclusive", "AuditTimedOut"),
    "the job is deleted meanwhile": ({"audit": None, "job_phase": ""}, "Inconclusive", "JobDeleted"),
    "the job fails meanwhile": ({"audit": None, "job_phase": "Failed"}, "Failed", "JobFailed"),
}


@pytest.mark.parametrize(("seen", "phase", "reason"), DAMAGED.values(), ids=DAMAGED)
def test_all_faults_and_an_audit_that_is_not_clean_do_not_pass(
    seen: dict[str, Any], phase: str, reason: str
) -> None:
    status = auditing().over(**seen)
    assert (status.phase, status.reason, status.done) == (phase, reason, 2)


def test_a_difference_is_named() -> None:
    status = auditing().over(**DAMAGED["lost"][0])
    assert "1 lost" in status.message and "first difference: 4 is missing" in status.message
    assert status.audit is not None and status.audit.lost == 1


def test_what_is_not_due_yet_is_said_with_the_pass() -> None:
    status = auditing().over(audit=AuditResult(clean=True, records=9, delivered=5, not_due=3, epoch=10**6))
    assert status.phase == "Passed" and "3 not due yet" in status.message


def test_a_job_that_is_suspended_while_it_is_audited_is_audited() -> None:
    assert auditing().over(job_phase="Suspended").phase == "Passed"


def test_a_job_that_fails_after_a_fault_says_why_or_where_to_look() -> None:
    for why, words in (("damaged snapshot", "p1: damaged snapshot"), ("", "look at its conditions")):
        world = announced()
        world.status = replace(world.status, victim="p1")
        assert words in world.over(job_phase="Failed", told=None, job_message=why).message


def test_a_drill_without_audit_is_no_verdict_on_the_output() -> None:
    world = World(DrillPlan(job="j", target="worker", times=2, audit=False), cannot_audit="a socket sink")
    status = world.over()
    assert (status.phase, status.reason, status.done) == ("Inconclusive", "NotAudited", 2)
    assert "output went on after each" in status.message and "audit" not in world.effects


NO_FAULTS = DrillPlan(job="j", target="worker", times=0)


@pytest.mark.parametrize("more", [{}, {"job_phase": "Completed", "told": None}, {"victims": {}}])
def test_a_drill_of_no_faults_breaks_nothing_and_is_an_audit(more: dict[str, Any]) -> None:
    world = World(NO_FAULTS, **more)
    status = world.over()
    assert (status.phase, status.reason, world.struck) == ("Passed", "Clean", [])
    assert status.message == CLEAN.in_words(), "nothing is said of faults"


def test_a_drill_of_no_faults_fails_by_its_audit_alone() -> None:
    bad = AuditResult(clean=False, records=5, delivered=4, lost=1, first_difference="slot 3")
    status = World(NO_FAULTS, audit=bad).over()
    assert (status.phase, status.reason) == ("Failed", "NotClean") and "slot 3" in status.message


def test_a_drill_of_no_faults_whose_epoch_nobody_knows_has_proved_nothing() -> None:
    status = World(NO_FAULTS, told=None).over()
    assert (status.phase, status.reason) == ("Inconclusive", "NotAudited")


def test_an_audit_waits_for_an_epoch_that_holds_what_came_after_the_last_fault() -> None:
    world = World(DrillPlan(job="j", target="worker", timeout=50.0))
    old = {"epoch": 7, "cut_time": 900, "minimal": 1000, "unsaved_since": 5}
    for _ in range(200):
        world.step(told=told(world.attempt, bundles=world.count, **old))
    assert (world.status.done, world.status.phase, world.status.reason) == (1, "Failed", "NotSaved")
    saved = World(DrillPlan(job="j", target="worker", timeout=50.0))
    while saved.status.phase not in OVER:
        new = old | ({"epoch": 8, "cut_time": 1001} if saved.status.done else {})
        saved.step(told=told(saved.attempt, bundles=saved.count, **new))
    assert saved.status.phase == "Passed"


def test_the_epoch_of_before_is_not_one_that_holds_what_came_after() -> None:
    for news in ({"epoch": 8, "cut_time": 999}, {"epoch": 7, "cut_time": 1001}):
        world = World(DrillPlan(job="j", target="worker", timeout=50.0))
        old = {"epoch": 7, "cut_time": 900, "minimal": 1000, "unsaved_since": 5}
        while world.status.phase not in OVER:
            world.step(
                told=told(world.attempt, bundles=world.count, **(old | (news if world.status.done else {})))
            )
        assert world.status.reason == "NotSaved", news


def test_input_that_ended_after_the_last_fault_passes_and_is_said() -> None:
    world = World(DrillPlan(job="j", target="worker", times=1))
    world.until(struck=True)
    status = world.over(job_phase="Completed", told=None)
    assert (status.phase, status.done, status.faults[0].then) == ("Passed", 1, "ended")
    assert "until the input ended" in status.message and status.faults[0].output_gap_ms is None


def test_the_end_of_the_input_counts_the_loss_of_what_holds_no_slots() -> None:
    world = World(DrillPlan(job="j", target="zookeeper", hits=False))
    world.until(struck=True)
    assert world.over(job_phase="Completed", told=None, attempt=1).phase == "Passed"


def test_a_job_that_ends_early_is_audited_and_a_difference_counts_more() -> None:
    world = announced()
    status = world.over(job_phase="Completed", told=None, audit=DAMAGED["lost"][0]["audit"])
    assert (status.phase, status.reason, status.done) == ("Failed", "NotClean", 1)


def test_every_wait_ends() -> None:
    """Whatever is seen for ever, there is a verdict."""
    for seen in [each[0] for each in (*BEFORE.values(), *AFTER.values(), *DAMAGED.values())]:
        for world in (World(**seen), World(PAUSE, **seen)):
            status = world.over(most=5000)
            assert status.reason
            assert world.now - START < PLAN.timeout * 4 + SEEN_WITHIN + RESULTS_WITHIN + AUDIT_WITHIN
