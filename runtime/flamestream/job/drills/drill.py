"""A drill: deliberate faults against a job that runs, one at a time, and what must be true before it has
passed.

    Pending ─▶ Running: whole, gives results ─▶ strike (announced first) ─▶ the fault is seen
                  ▲                                                             │
                  │                                                             ▼
                  └────────── as often as asked ◀── results ◀───────────── whole again
                                                       └▶ Auditing ─▶ verdict

| verdict      | means |
|--------------|-----|
| Passed       | every fault was seen, output went on after each (or the input had ended), and the audit is clean |
| Failed       | a broken promise: the job did not come back, gave or saved nothing any more, or the audit differs |
| Inconclusive | the drill has proved nothing, and `reason` says why: there is no job, no input, no fault, no audit |

A drill of no faults is an audit alone, of a job that runs or has completed.

`step` is the same on a laptop (cli/local_drill.py) and in the operator; both look, and carry out what it
says.

Keeps: a fault is in the status before it is made, and made once: whoever finds one announced waits for its
end. Every wait has a bound. What was not seen is not taken for granted: a signal that was sent is no fault,
an audit of nothing is no audit. Does not: look, strike or audit.
"""

import dataclasses
import random
from dataclasses import dataclass
from typing import Final, Literal

from msgspec.structs import replace

from flamestream.job.drills.observed import DrillObserved, gap_since
from flamestream.job.drills.status import (
    BROKEN,
    MOST_FAULTS,
    OVER,
    AuditResult,
    DrillStatus,
    FaultResult,
    Phase,
    Reason,
)
from flamestream.job.moments import CLOCKS_DIFFER, moment, passed, precise, written

RESULTS_WITHIN: Final = 30.0
"""Seconds in which a job with input should give a result: else it is idle."""
SEEN_WITHIN: Final = 30.0
"""Seconds in which a fault that was made should be seen."""
TAKEN_UP_WITHIN: Final = 300.0
"""Seconds after which nobody expects a drill to begin any more."""
NOTICED: Final = 5.0
"""Seconds of a pause or cut behind which there is a new attempt; a shorter one may pass unnoticed."""
AUDIT_WITHIN: Final = 600.0
LONGEST_MESSAGE: Final = 1000
_RUNS: Final = "a drill needs a job that runs"


@dataclass(frozen=True, slots=True)
class Step:
    """The next status of a drill, an effect to carry out, and when to look again (seconds)."""

    status: DrillStatus
    effect: Literal["", "strike", "audit"] = ""
    look_again: float = 0.5


def step(seen: DrillObserved) -> Step:
    """The status that follows from one look, and what is to be done for it."""
    status = seen.status
    if status.phase in OVER:
        return Step(status)
    if status.phase == "Pending":
        return _begun(seen)
    if (lost := _without_job(seen)) is not None:
        return lost
    if status.phase == "Auditing":
        return _audited(seen)
    return _struck(seen) if status.struck_at else _between(seen)


# --- before a fault -----------------------------------------------------------------------------------------


def _begun(seen: DrillObserved) -> Step:
    if seen.age > TAKEN_UP_WITHIN:
        text = (
            f"nobody took it up within {TAKEN_UP_WITHIN:.0f} s, and a fault that late may surprise somebody: "
            "make another drill"
        )
        return _over(seen, "Expired", text)
    if not seen.job_phase:
        return _over(seen, "JobNotFound", f"there is no job {seen.plan.job!r}: {_RUNS}")
    if seen.plan.audit and seen.cannot_audit:
        text = (
            f"nothing was broken, for the output could not be audited: {seen.cannot_audit}. A drill without "
            "audit measures the gap only"
        )
        return _over(seen, "NotAudited", text)
    now = precise(seen.now)
    return Step(
        replace(
            seen.status,
            phase="Running",
            started_at=now,
            since=now,
            asked=seen.plan.times,
            job_uid=seen.job_uid,
        )
    )


def _without_job(seen: DrillObserved) -> Step | None:
    status, plan, phase = seen.status, seen.plan, seen.job_phase
    if phase in ("", "Deleting") or status.job_uid != seen.job_uid:
        return _over(seen, "JobDeleted", f"the job {plan.job!r} was deleted meanwhile, after {_count(seen)}")
    if phase == "Failed" and (status.done or status.struck_at):
        where = f"after the fault at {status.victim}" if status.victim else "after its faults"
        return _over(
            seen, "JobFailed", f"the job failed {where}: {seen.job_message or 'look at its conditions'}"
        )
    if phase in ("Failed", "Suspended", "Stopped") and status.phase == "Running":
        return _over(seen, "NotRunning", f"the job {plan.job!r} is {phase}, after {_count(seen)}: {_RUNS}")
    return None


def _between(seen: DrillObserved) -> Step:
    """No fault is under way."""
    status, plan = seen.status, seen.plan
    if seen.job_phase == "Completed" and not status.done and plan.times:
        return _over(
            seen,
            "Completed",
            f"the job has completed before anything was broken: {_RUNS}, and input that goes on",
        )
    if seen.job_phase == "Completed" or status.done >= plan.times:
        return _saved(seen)
    if seen.out_of_reach:
        return _over(seen, "Refused", seen.out_of_reach)
    if not seen.whole:
        if status.next_at:  # it was
            return Step(replace(status, next_at="", since=precise(seen.now)))
        return _in_time(seen, status.since, plan.timeout, "before the next fault")
    if not status.done and (idle := _flows(seen)) is not None:
        return idle
    return _due(seen)


def _flows(seen: DrillObserved) -> Step | None:
    """None: the job has given results while it was watched. Who breaks an idle job learns nothing."""
    status = seen.status
    if seen.told_attempt != status.whole_attempt:
        return _again(seen, status.since, _watched(seen), "before the first fault")
    if seen.bundles > status.bundles:
        return None
    if not passed(seen.now, status.whole_at, RESULTS_WITHIN):
        return Step(status, look_again=0.2)
    return _idle(seen, "nothing was broken")


def _due(seen: DrillObserved) -> Step:
    status, plan = seen.status, seen.plan
    # From the same seed at each look: the pause is the one that `next_at` was made of.
    rng = random.Random(f"{plan.seed}/{status.done}")  # a schedule, not a secret
    pause = plan.after if plan.after is not None else rng.uniform(0.2, 3.0)
    if not status.next_at:
        return Step(replace(status, next_at=precise(seen.now + pause)), look_again=pause)
    if seen.hold:
        return Step(status, look_again=0.05)
    left = moment(status.next_at) - seen.now
    if 0 < left <= pause + CLOCKS_DIFFER:  # else the clock was set back since
        return Step(status, look_again=max(0.05, left))
    if not seen.victims:
        return _over(seen, "Refused", f"there is no {plan.target} that could be struck")
    victim, now = rng.choice(sorted(seen.victims)), precise(seen.now)
    announced = replace(
        status,
        struck_at=now,
        since=now,
        victim=victim,
        lives=list(seen.victims[victim]),
        peers=len(seen.victims),
        seen="",
        attempt=seen.told_attempt,
        next_at="",
        whole_at="",
        message="",
    )
    # written before it is made (!): whoever finds it waits for its end
    return Step(announced, "strike", 0.05)


# --- after one ----------------------------------------------------------------------------------------------


def _struck(seen: DrillObserved) -> Step:
    """Wait until the fault was seen, the job is whole again, and gives results."""
    status, plan, told = seen.status, seen.plan, seen.told
    if seen.refused:
        return _over(seen, "Refused", f"{seen.refused}; {_count(seen)} took place before")
    if not status.seen:  # a signal that was sent is no fault (!)
        return _sighted(seen)
    if seen.job_phase == "Completed":
        # else it had ended before anybody missed the victim
        counts = seen.attempt > status.attempt or not plan.hits
        return Step(_with_fault(seen, None, "ended") if counts else _without_fault(status), look_again=0.05)
    if not passed(seen.now, status.struck_at, plan.lasting):
        return Step(status)  # it is over when the zombie has come back, and changed nothing
    if not _recovered(seen):
        return _in_time(
            seen, status.struck_at, plan.timeout + plan.lasting, f"after the fault at {status.victim}"
        )
    assert told is not None, "a whole job has a coordinator"
    if not status.whole_at:
        return Step(
            replace(_watched(seen), epoch=told.epoch, mark=max(worker.minimal for worker in told.workers)),
            look_again=0.2,
        )
    if seen.told_attempt != status.whole_attempt:  # somebody else's recovery: counters began anew
        counted_anew = replace(_watched(seen), whole_at=status.whole_at)
        return _again(seen, status.struck_at, counted_anew, f"after the fault at {status.victim}")
    if seen.bundles > status.bundles:
        return Step(_with_fault(seen, gap_since(told, moment(status.struck_at)), "output"))
    return _silent(seen, sum(worker.in_flight for worker in told.workers))


def _sighted(seen: DrillObserved) -> Step:
    status = seen.status
    if seen.sight:
        return Step(replace(status, seen=seen.sight), look_again=0.05)
    if seen.job_phase == "Completed":
        return Step(_without_fault(status), look_again=0.05)
    if passed(seen.now, status.struck_at, seen.plan.lasting + SEEN_WITHIN):
        text = (
            f"the fault at {status.victim} was announced, and nobody saw that it took place; {_count(seen)} "
            "took place before"
        )
        return _over(seen, "NotStruck", text)
    return Step(status, look_again=0.2)


def _watched(seen: DrillObserved) -> DrillStatus:
    """Results are waited for from now on."""
    counts = {"whole_attempt": seen.told_attempt, "bundles": seen.bundles, "entered": seen.entered}
    return replace(seen.status, whole_at=precise(seen.now), **counts)


def _recovered(seen: DrillObserved) -> bool:
    plan = seen.plan
    noticed = plan.hits and (not plan.lasting or plan.lasting >= NOTICED)
    return seen.whole and seen.replaced and (seen.told_attempt > seen.status.attempt or not noticed)


def _silent(seen: DrillObserved, waiting: int) -> Step:
    """No results since the job is whole again: none are due, or `waiting` items do not get theirs."""
    status = seen.status
    if waiting and passed(seen.now, status.whole_at, seen.plan.timeout):
        text = f"no result came within {seen.plan.timeout:g} s after the fault at {status.victim}"
        return _over(seen, "OutputStopped", f"{text}, and {waiting} items that have entered wait for theirs")
    if not waiting and passed(seen.now, status.whole_at, RESULTS_WITHIN):
        return _idle(seen, f"{_count(seen)} took place before the one at {status.victim}")
    return Step(status, look_again=0.2)


def _with_fault(seen: DrillObserved, gap: float | None, then: Literal["output", "ended"]) -> DrillStatus:
    status, told = seen.status, seen.told
    whole, struck = moment(status.whole_at) if status.whole_at else seen.now, moment(status.struck_at)
    last = told.last_recovery if told is not None and told.attempt > status.attempt else None
    fault = FaultResult(
        victim=status.victim, time=status.struck_at, seen=status.seen,
        recovered_ms=round(max(0.0, whole - struck) * 1000, 1),
        recovery_ms=round(last.duration_ms, 1) if last is not None else 0.0, output_gap_ms=gap, then=then,
        gap_resolution_ms=seen.gap_resolution_ms if gap is not None else None,
    )  # fmt: skip
    return replace(
        _without_fault(status), done=status.done + 1, faults=[*status.faults, fault][-MOST_FAULTS:],
        since=precise(seen.now), longest_recovery_ms=max(status.longest_recovery_ms, fault.recovered_ms),
        longest_output_gap_ms=max(status.longest_output_gap_ms, gap or 0.0),
    )  # fmt: skip


def _without_fault(status: DrillStatus) -> DrillStatus:
    return replace(status, struck_at="", victim="", lives=[], peers=0, seen="", next_at="", whole_at="")


# --- the audit and the verdict ------------------------------------------------------------------------------


def _saved(seen: DrillObserved) -> Step:
    """Until an epoch holds what came after the last fault: an audit does not miss what lies above the
    committed cut."""
    status, plan, told = seen.status, seen.plan, seen.told
    if not plan.audit:
        text = (
            f"{_count(seen)} took place, and output went on{_ended(seen)}. Nothing was audited: this says "
            "nothing about the guarantee"
        )
        return _over(seen, "NotAudited", text)
    held = told is not None and (
        not told.unsaved_since or (told.epoch > status.epoch and told.cut_time >= status.mark)
    )
    if held or not plan.saves or seen.job_phase == "Completed":
        epoch = told.epoch if held and plan.saves and told is not None else 0
        return Step(
            replace(status, phase="Auditing", epoch=epoch, since=precise(seen.now), message=""),
            look_again=0.05,
        )
    if passed(seen.now, status.since, plan.timeout) and not plan.times:
        text = f"no epoch was known within {plan.timeout:g} s, which says how far an audit goes"
        return _over(seen, "NotAudited", f"{text}: look at the job's conditions")
    if passed(seen.now, status.since, plan.timeout):
        text = (
            f"no epoch was committed within {plan.timeout:g} s after the last fault: "
            "look at the job's conditions"
        )
        return _over(seen, "NotSaved", text)
    return Step(status)


def _audited(seen: DrillObserved) -> Step:
    status, found = seen.status, seen.audit
    if seen.audit_problem:
        return _over(seen, "NotAudited", f"the output could not be audited: {seen.audit_problem}")
    if found is None:
        if passed(seen.now, status.since, AUDIT_WITHIN):
            return _over(
                seen, "AuditTimedOut", f"the audit did not end within {AUDIT_WITHIN:.0f} s: look at its pod"
            )
        return Step(status, "audit", 1.0)
    return _concluded(dataclasses.replace(seen, status=replace(status, audit=found)), found)


def _concluded(seen: DrillObserved, found: AuditResult) -> Step:
    text = found.in_words()
    if not found.clean:
        return _over(seen, "NotClean", f"{text}; first difference: {found.first_difference or 'not named'}")
    if not found.delivered or not found.records:  # an audit of nothing is no audit (!)
        return _over(seen, "NotAudited", f"the audit is of nothing: {text}")
    if not found.complete and found.epoch < seen.status.epoch:
        short = (
            f"the audit goes to epoch {found.epoch}, and only epoch {seen.status.epoch} holds what came "
            "after the last fault"
        )
        return _over(seen, "NotAudited", f"{short}; {text}")
    if seen.status.done < seen.plan.times:
        return _over(
            seen, "FewerFaults", f"only {_count(seen)} took place, then the job had completed; {text}"
        )
    if not seen.plan.times:
        return _over(seen, "Clean", text)
    return _over(seen, "Clean", f"{_count(seen)} took place, and output went on{_ended(seen)}; {text}")


def _count(seen: DrillObserved) -> str:
    return f"{seen.status.done} of {seen.plan.times} faults"


def _ended(seen: DrillObserved) -> str:
    ended = seen.status.faults and seen.status.faults[-1].then == "ended"
    return " until the input ended, after the last" if ended else " after each"


def _idle(seen: DrillObserved, before: str) -> Step:
    entered = seen.entered - seen.status.entered if seen.told is not None else 0
    what = f"{entered:,} items entered and gave no result" if entered > 0 else "nothing entered"
    return _over(
        seen,
        "Idle",
        f"the job is idle: {what} for {RESULTS_WITHIN:.0f} s ({before}). Feed its sources during a drill",
    )


def _in_time(seen: DrillObserved, since: str, within: float, when: str) -> Step:
    if not passed(seen.now, since, within):
        return Step(seen.status)
    text = f"the job was not whole within {within:g} s {when}: look at its conditions"
    return _over(seen, "NotWhole" if seen.status.done or seen.status.struck_at else "NotRunning", text)


def _again(seen: DrillObserved, since: str, status: DrillStatus, when: str) -> Step:
    """Results are waited for anew in another attempt; of a job that is whole for a moment only, not for
    ever."""
    within = seen.plan.timeout + seen.plan.lasting + RESULTS_WITHIN
    return (
        _in_time(seen, since, within, when)
        if passed(seen.now, since, within)
        else Step(status, look_again=0.2)
    )


def _over(seen: DrillObserved, reason: Reason, message: str) -> Step:
    """The verdict: which one it is follows from its reason."""
    phase: Phase = "Passed" if reason == "Clean" else "Failed" if reason in BROKEN else "Inconclusive"
    return Step(
        replace(
            seen.status,
            phase=phase,
            reason=reason,
            message=message[:LONGEST_MESSAGE],
            finished_at=written(seen.now),
        )
    )
