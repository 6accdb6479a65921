"""Phase, message and conditions: what a person and `kubectl wait` read.

Keeps: a condition's time moves only when its status does; every message of a trouble says what to do. Does not: decide anything.
"""

from msgspec.structs import replace

from flamestream_operator.api.conditions import MAX_MESSAGE, TYPES, Condition, ConditionType
from flamestream_operator.api.job_status import JobResourceStatus, Phase
from flamestream_operator.jobs.clock import moment, written
from flamestream_operator.jobs.conditions import condition
from flamestream_operator.jobs.desired import Wanted
from flamestream_operator.jobs.observed import Seen, phase_of
from flamestream_operator.jobs.troubles import trouble
from flamestream_operator.jobs.word import Word

TAKES_OVER = 10.0
"""Seconds; longer, and it is a trouble."""
EPOCHS_LATE = 30.0
"""Seconds, or ten intervals: after which epochs are late."""


def is_taking_over(seen: Seen, status: JobResourceStatus) -> bool:
    """A new leader finds the workers of a stream that runs on: until it has heard of them nothing new is known."""
    if status.run.stage != "Running":
        return False
    if seen.coordinated is None:
        return True
    told = seen.coordinated.status
    return told.phase in ("starting", "gathering") and not told.outcome and seen.instant - seen.coordinated.since < TAKES_OVER


def described(seen: Seen, before: JobResourceStatus, status: JobResourceStatus, want: Wanted) -> JobResourceStatus:
    """The status with its words."""
    if is_taking_over(seen, before) and status.run.stage == "Running":
        return replace(status, phase=before.phase, message=before.message, conditions=before.conditions, workers=before.workers)
    words = _words(seen, status, want)
    known = {condition.type: condition for condition in before.conditions}
    conditions = [_made(seen, kind, words[kind], known.get(kind)) for kind in TYPES]
    phase = _phase(seen, status, want)
    return replace(status, phase=phase, message=_message(seen, status, want, words, phase)[:MAX_MESSAGE], conditions=conditions)


def _made(seen: Seen, kind: ConditionType, word: Word, before: Condition | None) -> Condition:
    return condition(kind, word.holds, word.reason, word.message, before, written(seen.now), seen.generation)


def _phase(seen: Seen, status: JobResourceStatus, want: Wanted) -> Phase:
    run = status.run
    told = seen.coordinated.status.phase if seen.coordinated else ""
    if run.stage == "Ended":
        return "Completed" if run.cause == "Completed" else "Failed"
    if run.stage == "Stopped":
        return "Suspended" if run.cause == "Suspend" else "Upgrading"
    if run.stage == "Draining":
        return "Suspending" if run.cause == "Suspend" else "Upgrading"
    if run.stage == "None":
        return "Failed" if want.refusal else "Suspended" if want.plan is not None and want.plan.spec.suspend else "Pending"
    if run.stage == "Running":
        return "Running" if told in ("running", "ending", "", "finished") else "Recovering"
    waits = bool(status.failures.count) and seen.now < moment(status.failures.next_try) and not status.drivers
    return "BackingOff" if waits else "Starting"


def _words(seen: Seen, status: JobResourceStatus, want: Wanted) -> dict[ConditionType, Word]:
    run, told = status.run, seen.coordinated.status if seen.coordinated else None
    phase = told.phase if told is not None else ""
    flows = run.stage in ("Running", "Draining") and phase in ("running", "ending")
    problem = trouble(seen, status, want)
    checkpointing = _checkpointing(seen, status, want, flows)
    whole = status.workers.ready >= status.workers.desired > 0
    failed = (run.stage == "Ended" and run.cause == "Failed") or (run.stage == "None" and bool(want.refusal))
    why_not = problem or Word(True, "Starting", "the job is starting") if not flows else Word(True, "Running")
    recovering = run.stage == "Running" and phase in ("recovering", "gathering", "waiting", "starting")
    stopped = (run.stage == "Stopped" and run.cause == "Suspend") or (run.stage == "None" and _phase(seen, status, want) == "Suspended")
    idle = run.stage in ("Ended", "Stopped", "None")
    ready = flows and whole and checkpointing.holds and run.stage == "Running"
    cause = told.last_recovery.cause if recovering and told is not None and told.last_recovery is not None else ""
    degraded = problem if not failed and not idle else None
    return {
        "Ready": Word(ready, _reason_of_ready(ready, flows, whole, run.stage), "" if ready or problem is None else problem.message),
        "Running": Word(flows, why_not.reason if not idle else run.cause or run.stage, "" if flows or idle else why_not.message),
        "Checkpointing": checkpointing,
        "Recovering": Word(recovering, phase.capitalize() if recovering else "Whole", cause),
        "Suspended": Word(stopped, "AtEpoch" if stopped else "Active", _suspension(status) if stopped else ""),
        "Degraded": degraded or Word(False, "Whole"),
        "Completed": Word(run.stage == "Ended" and run.cause == "Completed", run.cause or "Going"),
        "Failed": _failure(status, want) if failed else Word(False, "NotFailed"),
    }  # fmt: skip


def _reason_of_ready(ready: bool, flows: bool, whole: bool, stage: str) -> str:
    if ready:
        return "Whole"
    return "NotRunning" if not flows else "WorkersMissing" if not whole else "NoEpochYet" if stage == "Running" else stage


def _checkpointing(seen: Seen, status: JobResourceStatus, want: Wanted, flows: bool) -> Word:
    if want.plan is not None and want.plan.spec.guarantee == "none":
        return Word(flows, "NotAskedFor", "guarantee none saves nothing")
    if not flows or seen.coordinated is None:
        return Word(False, "NotRunning")
    if not seen.coordinated.status.epoch:
        return Word(False, "NoEpochYet", "the first epoch has not committed yet")
    interval = float(want.plan.spec.checkpoint.interval) if want.plan is not None else 1.0
    unsaved = seen.coordinated.status.unsaved_since / 1e6
    age = seen.now - unsaved if unsaved else 0.0  # an idle stream takes no epochs
    if age <= max(EPOCHS_LATE, 10 * interval):
        return Word(True, "InTime")
    problems = "; ".join(status.problems) or "look for the store's troubles in the operator's log"
    return Word(False, "EpochsLate", f"nothing was saved for {age:.0f} s, results go on meanwhile: {problems}")


def _suspension(status: JobResourceStatus) -> str:
    at = status.suspension
    if at is None:
        return "never started"
    rest = "" if at.clean else "; the drain ran out of time, so the next start replays what was above the cut"
    return f"at epoch {at.epoch}, cut {at.cut}, {at.outputs} results delivered{rest}"


def _failure(status: JobResourceStatus, want: Wanted) -> Word:
    if want.refusal and status.run.stage == "None":
        return Word(True, "SpecRefused", want.refusal)
    return Word(True, status.failures.reason or "Failed", status.failures.last)


def _message(seen: Seen, status: JobResourceStatus, want: Wanted, words: dict[ConditionType, Word], phase: Phase) -> str:
    if words["Failed"].holds:
        return words["Failed"].message
    if phase == "Suspended":
        return words["Suspended"].message
    if phase == "BackingOff":
        return f"{status.failures.last} (failure {status.failures.count} in a row; next try at {status.failures.next_try})"
    if words["Degraded"].message:
        return words["Degraded"].message
    pods = [phase_of(pod) for pod in seen.of_role("worker")]
    if phase == "Starting":
        run = f"run {status.run.number}: {len(status.drivers)} drivers"
        return f"{run}, {pods.count('Running')} worker pods run, {status.workers.summary} ready"
    return ""
