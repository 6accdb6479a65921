"""A drill's steps: announced, struck once, over when the job is whole, and a verdict that says what differs."""

from typing import Any

from flamestream.adapters.status_file import JobStatus, LastRecovery, WorkerFigures
from flamestream.cli.manifest_parts import Seconds
from flamestream_operator.api.drill import DrillSpec, DrillStatus, Fault
from flamestream_operator.core.drill import DrillSeen, Step, step

SPEC = DrillSpec(job="j", fault=Fault(target="worker"), times=2, seed=1)
WHOLE = [WorkerFigures(worker="w0", connected=True), WorkerFigures(worker="w1", connected=True)]


def told(attempt: int, workers: list[WorkerFigures] = WHOLE, phase: str = "running") -> JobStatus:
    last = LastRecovery(cause="lost w0", duration_ms=120.0)
    return JobStatus(job="n.j", pid=1, updated=0, phase=phase, attempt=attempt, workers=workers, last_recovery=last)


def look(status: DrillStatus, now: float = 1000.0, **more: Any) -> Step:
    given: dict[str, Any] = {"spec": SPEC, "job_phase": "Running", "workers": 2, "told": told(1), "victims": ("p1", "p2")}
    return step(DrillSeen(now=now, status=status, **(given | more)))


def struck() -> DrillStatus:
    status = look(DrillStatus()).status
    status = look(status).status
    assert status.next_at
    return look(status, now=1010.0).status


def test_a_fault_is_announced_before_it_is_made_and_made_once() -> None:
    waiting = look(look(DrillStatus()).status)
    assert waiting.effect == ""
    strike = look(waiting.status, now=1010.0)
    assert (strike.effect, bool(strike.status.struck_at), strike.status.victim in ("p1", "p2")) == ("strike", True, True)
    assert look(strike.status, now=1010.1).effect == ""


def test_the_same_seed_strikes_the_same_victim() -> None:
    assert {struck().victim for _ in range(3)} == {struck().victim}


def test_it_is_over_when_all_workers_are_back_in_a_new_attempt() -> None:
    status = struck()
    assert look(status, now=1010.5, told=told(1)).status.done == 0
    assert look(status, now=1010.5, told=told(2, WHOLE[:1])).status.done == 0
    done = look(status, now=1010.5, told=told(2)).status
    assert (done.done, done.faults[0].recovered_ms, done.faults[0].recovery_ms) == (1, 500.0, 120.0)


def test_a_job_that_does_not_come_back_fails_the_drill() -> None:
    status = look(struck(), now=1010.0 + 301, told=told(1)).status
    assert status.phase == "Failed"
    assert "not whole within" in status.message


def test_a_drill_of_a_job_that_does_not_run_is_an_error() -> None:
    status = look(look(DrillStatus()).status, job_phase="Suspended").status
    assert status.phase == "Error"
    assert "Suspended" in status.message


def _verdict(**more: Any) -> DrillStatus:
    audit = {"clean": True, "records": 5, "delivered": 5, "lost": 0, "doubled": 0, "reordered": 0, "foreign": 0, "firstDifference": ""}
    return look(DrillStatus(phase="Auditing", done=2, next_at="1970-01-01T00:16:00Z"), audit=audit | more).status


def test_a_clean_audit_passes() -> None:
    assert _verdict().phase == "Passed"


def test_a_difference_fails_and_names_the_first() -> None:
    status = _verdict(clean=False, lost=1, firstDifference="sink out: 4 is missing")
    assert status.phase == "Failed"
    assert "sink out: 4 is missing" in status.message
    assert status.audit is not None
    assert status.audit.lost == 1


def test_an_audit_that_cannot_be_made_is_never_a_pass() -> None:
    status = look(
        DrillStatus(phase="Auditing", done=2, next_at="1970-01-01T00:16:00Z"), audit={"error": "a socket sink", "category": "user"}
    ).status
    assert status.phase == "Error"


def test_a_target_that_the_operator_may_not_see_is_an_error_that_says_so() -> None:
    status = look(look(DrillStatus()).status, out_of_reach="the operator may not see the target's pods: forbidden").status
    assert status.phase == "Error"
    assert "forbidden" in status.message


def test_a_pause_is_not_over_before_the_worker_goes_on() -> None:
    spec = DrillSpec(job="j", fault=Fault(target="worker", action="pause", pause_for=Seconds(5)), seed=1)
    waiting = look(look(DrillStatus(), spec=spec).status, spec=spec).status
    strike = look(waiting, now=1010.0, spec=spec).status
    assert look(strike, now=1012.0, told=told(2), spec=spec).status.done == 0
    assert look(strike, now=1015.5, told=told(2), spec=spec).status.done == 1
