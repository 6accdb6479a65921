"""A drill's steps: announced, struck once, over when the job is whole, and a verdict that says what differs."""

from typing import Any

from flamestream.adapters.status_file import JobStatus, LastRecovery, WorkerFigures
from flamestream.cli.manifest_parts import Seconds
from flamestream_operator.api.drill import DrillSpec, DrillStatus, Fault
from flamestream_operator.core.drill import DrillSeen, Step, step

SPEC = DrillSpec(job="j", fault=Fault(target="worker"), times=2, seed=1)
WHOLE = [WorkerFigures(worker="w0", connected=True), WorkerFigures(worker="w1", connected=True)]


def told(attempt: int, workers: list[WorkerFigures] = WHOLE, phase: str = "running", **outputs: Any) -> JobStatus:
    last = LastRecovery(cause="lost w0", duration_ms=120.0)
    return JobStatus(job="n.j", pid=1, updated=0, phase=phase, attempt=attempt, workers=workers, last_recovery=last, **outputs)


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
    done = over(status, 1010.5, told(2, last_output=1_010_600_000))
    assert (done.done, done.faults[0].recovered_ms, done.faults[0].recovery_ms) == (1, 500.0, 120.0)


def over(status: DrillStatus, whole: float, after: JobStatus, **more: Any) -> DrillStatus:
    """Whole at that moment, and looked at a second later."""
    waits = look(status, now=whole, told=told(2), **more).status
    assert (waits.done, bool(waits.whole_at)) == (0, True)
    return look(waits, now=whole + 1, told=after, **more).status


def test_the_output_gap_is_the_longest_that_ended_after_the_fault() -> None:
    gaps = [(1_005_000_000, 9_000_000), (1_010_400_000, 350_000), (1_010_900_000, 100_000)]
    done = over(struck(), 1010.5, told(2, first_output=1_000_000_000, last_output=1_010_950_000, gaps=gaps))
    assert (done.faults[0].output_gap_ms, done.longest_output_gap_ms) == (350.0, 350.0)


def test_results_are_waited_for_and_an_idle_job_has_no_gap() -> None:
    status = look(struck(), now=1010.5, told=told(2)).status
    idle = told(2, first_output=1_000_000_000, last_output=1_010_100_000)
    assert look(status, now=1012.0, told=idle).status.done == 0
    done = look(status, now=1016.0, told=idle).status
    assert (done.done, done.faults[0].output_gap_ms) == (1, None)


def test_a_coordinator_that_is_younger_than_the_fault_knows_no_gap() -> None:
    young = told(2, first_output=1_010_300_000, last_output=1_010_950_000, gaps=[(1_010_900_000, 100_000)])
    assert over(struck(), 1010.5, young).faults[0].output_gap_ms is None


CUT = DrillSpec(job="j", fault=Fault(target="network", action="cut", pause_for=Seconds(10)), seed=1)


def cut() -> DrillStatus:
    return look(look(look(DrillStatus(), spec=CUT).status, spec=CUT).status, now=1010.0, spec=CUT).status


def test_a_cut_is_over_when_it_is_healed_and_others_have_taken_over() -> None:
    results = {"first_output": 1_000_000_000, "last_output": 1_030_000_000, "gaps": [(1_013_000_000, 2_500_000)]}
    assert not look(cut(), now=1015.0, told=told(2, **results), spec=CUT).status.whole_at
    assert not look(cut(), now=1021.0, told=told(1, **results), spec=CUT).status.whole_at, "nobody has noticed"
    done = over(cut(), 1021.0, told(2, **results), spec=CUT)
    assert (done.done, done.faults[0].output_gap_ms) == (1, 2500.0)


def test_a_cut_that_could_not_be_made_is_an_error_with_its_reason() -> None:
    status = look(cut(), now=1010.5, spec=CUT, strike_problem="the network of p1 was not cut: Operation not permitted").status
    assert status.phase == "Error"
    assert "Operation not permitted" in status.message


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
    assert not look(strike, now=1012.0, told=told(2), spec=spec).status.whole_at
    assert over(strike, 1015.5, told(2, last_output=1_016_000_000), spec=spec).done == 1
