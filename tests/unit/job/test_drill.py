"""A drill's steps and verdicts: announced, struck once, seen, whole again, results, audited; and everything
that must not pass."""

from dataclasses import replace as look_with
from typing import Any

import pytest
from msgspec.structs import replace

from flamestream.job.drill import (
    AUDIT_WITHIN,
    NOTICED,
    RESULTS_WITHIN,
    SEEN_WITHIN,
    TAKEN_UP_WITHIN,
    Step,
    step,
)
from flamestream.job.drill_observed import DrillObserved, DrillPlan
from flamestream.job.drill_status import OVER, AuditResult, DrillStatus
from flamestream.job.moments import moment
from flamestream.job.status import JobStatus, LastRecovery, WorkerFigures

START = 1000.0
CLEAN = AuditResult(clean=True, records=5, delivered=5, complete=True)
PLAN = DrillPlan(job="j", target="worker", times=2, seed=1, timeout=300.0)


def told(attempt: int = 1, **more: Any) -> JobStatus:
    """A job's coordinator that has two workers; `bundles`, `items_in`, `in_flight` and `minimal` are of the
    first."""
    figures: dict[str, Any] = {
        name: more.pop(name)
        for name in ("bundles", "items_in", "in_flight", "minimal", "memory")
        if name in more
    }
    workers = [WorkerFigures(worker="w0", connected=True, **({"memory": 1} | figures))]
    workers += [
        WorkerFigures(worker=f"w{number}", connected=True, memory=1)
        for number in range(1, more.pop("workers", 2))
    ]
    last = LastRecovery(cause="lost w0", duration_ms=120.0)
    given: dict[str, Any] = {
        "phase": "running",
        "attempt": attempt,
        "workers": workers,
        "last_recovery": last,
    }
    return JobStatus(job="n.j", pid=1, updated=0, **(given | more))


class World:
    """What a drill looks at, healthy unless a test says otherwise: faults are made and seen, results flow,
    epochs come."""

    def __init__(self, plan: DrillPlan = PLAN, **always: Any) -> None:
        self.plan, self.always = plan, always
        self.now, self.status, self.attempt, self.count, self.epoch = START, DrillStatus(), 1, 0, 0
        self.struck: list[str] = []
        self.effects: list[str] = []

    def look(self, **more: Any) -> DrillObserved:
        self.count, self.epoch = self.count + 1, self.epoch + 1
        coordinator = told(
            self.attempt, bundles=self.count, items_in=self.count, epoch=self.epoch, cut_time=self.count
        )
        given: dict[str, Any] = {
            "job_phase": "Running", "workers": 2, "told": coordinator, "attempt": self.attempt,
            "victims": {"p1": ("u1",), "p2": ("u2",)}, "sight": "gone" if self.struck else "",
            "audit": CLEAN if self.status.phase == "Auditing" else None,
        }  # fmt: skip
        return DrillObserved(now=self.now, plan=self.plan, status=self.status, **(given | self.always | more))

    def step(self, **more: Any) -> Step:
        """One look and what follows, carried out; then time passes."""
        done = step(self.look(**more))
        self.status = done.status
        if done.effect == "strike":
            self.struck.append(done.status.victim)
            self.attempt += 1
        self.effects += [done.effect] if done.effect else []
        self.now += done.look_again
        return done

    def until(self, *phases: str, struck: bool = False, most: int = 2000, **more: Any) -> DrillStatus:
        """Go on until it is in one of these phases, or a fault is announced."""
        for _ in range(most):
            if self.status.phase in phases or (struck and self.status.struck_at):
                return self.status
            self.step(**more)
        raise AssertionError(f"never {phases}: {self.status}")

    def over(self, **more: Any) -> DrillStatus:
        return self.until(*OVER, **more)


def announced(plan: DrillPlan = PLAN) -> World:
    """A fault is in the status and was made."""
    world = World(plan)
    world.until(struck=True)
    return world


def test_faults_that_were_seen_results_after_each_and_a_clean_audit_pass() -> None:
    world = World()
    status = world.over()
    assert (status.phase, status.reason, status.done, len(world.struck)) == ("Passed", "Clean", 2, 2)
    assert [fault.seen for fault in status.faults] == ["gone", "gone"]
    assert "2 of 2 faults took place, and output went on after each" in status.message
    assert "5 results of 5 records: 0 lost, 0 doubled, 0 reordered" in status.message


# --- what must not pass -------------------------------------------------------------------------------------

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


# --- input that ends ----------------------------------------------------------------------------------------


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


# --- the order of things ------------------------------------------------------------------------------------


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


PAUSE = DrillPlan(job="j", target="worker", lasting=8.0)


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


def test_every_wait_ends() -> None:
    """Whatever is seen for ever, there is a verdict."""
    for seen in [each[0] for each in (*BEFORE.values(), *AFTER.values(), *DAMAGED.values())]:
        for world in (World(**seen), World(PAUSE, **seen)):
            status = world.over(most=5000)
            assert status.reason
            assert world.now - START < PLAN.timeout * 4 + SEEN_WITHIN + RESULTS_WITHIN + AUDIT_WITHIN


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
