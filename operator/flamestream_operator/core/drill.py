"""A drill, step by step: from what is seen of it and its job to its next status and the fault that is due.

    Pending ─▶ Running: whole ─▶ the moment has come ─▶ strike (announced first) ─▶ whole again ─▶ ... ─▶ Auditing ─▶ verdict

Keeps: a fault is in the status before it is made, and made once: an operator that finds one announced waits for its end. Victims and
moments follow from the seed. Does not: strike (shell/drills.py).
"""

import random
from dataclasses import dataclass
from typing import Any, Literal

from msgspec.structs import replace

from flamestream.adapters.status_file import JobStatus
from flamestream_operator.api.drill import AuditResult, DrillSpec, DrillStatus, FaultResult
from flamestream_operator.core.clock import CLOCKS_DIFFER, moment, passed, precise, written

MOST_FAULTS = 50
RESULTS_WITHIN = 5.0
"""Seconds after it is whole in which a result should come: an idle job has no output gap."""
NOTICED = 5.0
"""Seconds of a cut behind which there is a new attempt; a shorter one may pass unnoticed."""
_HITS_WORKERS = ("worker", "daemon", "executor", "driver", "network", "node")
"""Targets whose loss makes a new attempt."""
AUDIT_WITHIN = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillSeen:
    """One look."""

    now: float
    spec: DrillSpec
    status: DrillStatus
    job_phase: str
    """Of the FlameStreamJob; "": it is not there."""
    workers: int
    """As the job asks for."""
    told: JobStatus | None
    """The coordinator's word."""
    victims: tuple[str, ...] = ()
    """Pods that could be struck, by name."""
    replaced: bool = True
    """Whether the victim's place is taken by a ready pod."""
    strike_problem: str = ""
    """Why the fault that was announced could not be made."""
    out_of_reach: str = ""
    """Why the target's pods cannot be looked at."""
    audit: dict[str, Any] | None = None
    """The audit's termination message."""
    audit_problem: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """What follows."""

    status: DrillStatus
    effect: Literal["", "strike", "audit"] = ""
    look_again: float = 0.5


def step(seen: DrillSeen) -> Step:
    """One step."""
    status = seen.status
    if status.phase in ("Passed", "Failed", "Error"):
        return Step(status)
    if status.phase == "Pending":
        return Step(replace(status, phase="Running", started_at=written(seen.now)))
    if status.phase == "Auditing":
        return _audited(seen)
    if status.struck_at:
        return _struck(seen)
    over = seen.job_phase in ("Completed",) or status.done >= seen.spec.times
    if over:
        return Step(replace(status, phase="Auditing" if seen.spec.audit else "Passed", next_at=written(seen.now), message=""))
    return _waiting(seen)


def _waiting(seen: DrillSeen) -> Step:
    status = seen.status
    if seen.out_of_reach:
        return _error(seen, seen.out_of_reach)
    if seen.job_phase in ("", "Failed", "Suspended", "Deleting"):
        return _error(seen, f"FlameStreamJob {seen.spec.job!r} is {seen.job_phase or 'not there'}: a drill needs one that runs")
    if not is_whole(seen):
        return _timeout(seen, status.started_at if not status.faults else status.faults[-1].time, "before the next fault")
    rng = random.Random(f"{seen.spec.seed}/{status.done}")  # a schedule, not a secret
    pause = float(seen.spec.after) if seen.spec.after is not None else rng.uniform(0.2, 3.0)
    if not status.next_at:
        return Step(replace(status, next_at=precise(seen.now + pause)), look_again=pause)
    left = moment(status.next_at) - seen.now
    if 0 < left <= pause + CLOCKS_DIFFER:  # else the clock was set back since
        return Step(status, look_again=max(0.05, left))
    if not seen.victims:
        return _error(seen, f"there is no {seen.spec.fault.target} to strike: look at targetSelector and targetNamespace")
    victim = rng.choice(sorted(seen.victims))
    assert seen.told is not None, "a whole job has a coordinator"
    return Step(
        replace(status, struck_at=precise(seen.now), victim=victim, attempt=seen.told.attempt, next_at="", message=""), "strike", 0.05
    )


def is_whole(seen: DrillSeen) -> bool:
    """Results flow, and every worker is there."""
    return seen.told is not None and seen.told.phase == "running" and len(seen.told.workers) >= seen.workers > 0


def _struck(seen: DrillSeen) -> Step:
    """Until it is whole again, with a new attempt if workers were struck, and gives results."""
    status = seen.status
    if seen.strike_problem:
        return _error(seen, seen.strike_problem)
    if not passed(seen.now, status.struck_at, lasting(seen.spec)):
        return Step(status)  # it is over when the zombie has come back, and changed nothing
    fault = seen.spec.fault
    hit = fault.target in _HITS_WORKERS and (fault.action not in ("pause", "cut") or lasting(seen.spec) >= NOTICED)
    recovered = is_whole(seen) and seen.told is not None and (seen.told.attempt > status.attempt or not hit) and seen.replaced
    if not recovered:
        return _timeout(seen, status.struck_at, f"after the fault at {status.victim}")
    if not status.whole_at:
        return Step(replace(status, whole_at=precise(seen.now)), look_again=0.2)
    gives = seen.told is not None and seen.told.last_output > moment(status.whole_at) * 1e6
    if not gives and not passed(seen.now, status.whole_at, RESULTS_WITHIN):
        return Step(status, look_again=0.2)
    return Step(_with_fault(seen, gap_since(seen.told, moment(status.struck_at)) if gives else None))


def _with_fault(seen: DrillSeen, gap: float | None) -> DrillStatus:
    status, told = seen.status, seen.told
    took = (moment(status.whole_at) - moment(status.struck_at)) * 1000
    last = told.last_recovery if told is not None and told.attempt > status.attempt else None
    own = round(last.duration_ms, 1) if last is not None else 0.0
    fault = FaultResult(victim=status.victim, time=status.struck_at, recovered_ms=round(took, 1), recovery_ms=own, output_gap_ms=gap)
    return replace(
        status, done=status.done + 1, faults=[*status.faults, fault][-MOST_FAULTS:], struck_at="", victim="", next_at="", whole_at="",
        longest_recovery_ms=max(status.longest_recovery_ms, fault.recovered_ms),
        longest_output_gap_ms=max(status.longest_output_gap_ms, gap or 0.0),
    )  # fmt: skip


def lasting(spec: DrillSpec) -> float:
    """Seconds that the fault goes on."""
    return float(spec.fault.pause_for) if spec.fault.action in ("pause", "cut") else 0.0


def gap_since(told: JobStatus | None, struck: float) -> float | None:
    """Milliseconds of the longest stretch without output that ended after that moment; None if the coordinator is younger."""
    if told is None or not 0 < told.first_output < struck * 1e6:
        return None
    return next((round(length / 1000, 1) for end, length in told.gaps if end > struck * 1e6), None)


def _audited(seen: DrillSeen) -> Step:
    status = seen.status
    if seen.audit_problem:
        return _error(seen, seen.audit_problem)
    if seen.audit is None:
        if seen.now - moment(status.next_at) > AUDIT_WITHIN:
            return _error(seen, f"the audit did not end within {AUDIT_WITHIN:.0f} s: look at its pod")
        return Step(status, "audit", 1.0)
    if "error" in seen.audit:
        return _error(seen, f"the output could not be audited: {seen.audit['error']}")
    found = seen.audit
    names = ("records", "delivered", "lost", "doubled", "reordered", "foreign")
    counts = {key: int(found[key]) for key in names}
    result = AuditResult(clean=bool(found["clean"]), first_difference=str(found.get("firstDifference", "")), **counts)
    wrong = ", ".join(f"{counts[what]} {what}" for what in ("lost", "doubled", "reordered"))
    verdict = f"{result.delivered} results of {result.records} records: {wrong}"
    text = verdict + (f"; first difference: {result.first_difference}" if result.first_difference else "")
    phase: Literal["Passed", "Failed"] = "Passed" if result.clean else "Failed"
    return Step(replace(status, phase=phase, audit=result, message=text[:1000], finished_at=written(seen.now)))


def _timeout(seen: DrillSeen, since: str, when: str) -> Step:
    if not passed(seen.now, since, float(seen.spec.timeout)):
        return Step(seen.status)
    text = f"the job was not whole within {seen.spec.timeout} {when}: look at its conditions"
    status = replace(seen.status, phase="Failed", message=text, finished_at=written(seen.now))
    return Step(status)


def _error(seen: DrillSeen, message: str) -> Step:
    return Step(in_error(seen.status, seen.now, message))


def in_error(status: DrillStatus, now: float, message: str) -> DrillStatus:
    """It could not be carried out."""
    return replace(status, phase="Error", message=message[:1000], finished_at=written(now))
