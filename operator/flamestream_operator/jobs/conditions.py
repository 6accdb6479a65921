"""Phase, message and conditions: what a person and `kubectl wait` read.

The first problem that somebody could do something about is the condition Degraded, or why the job is not
Running.

Keeps: a condition's time moves only when its status does; every message of a problem says what to do. Does
not: decide anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from flamestream.job.moments import moment, passed, written
from flamestream_operator.api.conditions import MAX_MESSAGE, TYPES, ConditionType, condition
from flamestream_operator.api.job_status import JobResourceStatus, Phase, RunStatus
from flamestream_operator.jobs.changes.take_over import missing_leave
from flamestream_operator.jobs.observed import Observed, node_of, phase_of
from flamestream_operator.jobs.spec import Desired
from flamestream_operator.objects.meta import Object

TAKES_OVER: Final = 10.0
"""Seconds that a new leader may take to find the workers; longer, and the status says so."""
LET_IN: Final = 5.0
"""Seconds that a queue may take to let a pod in, in which nothing is wrong."""
EPOCHS_LATE: Final = 30.0
"""Seconds, or ten intervals: after which epochs are late."""
_PULL: Final = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
)


@dataclass(frozen=True, slots=True)
class Statement:
    """Whether a condition holds, why in one word, and what to do."""

    holds: bool
    reason: str
    message: str = ""


def is_taking_over(observed: Observed, status: JobResourceStatus) -> bool:
    """A new leader finds the workers of a stream that runs on: until it has heard of them nothing new is
    known."""
    if status.run.stage != "Running":
        return False
    if observed.coordinated is None:
        return True
    reported, waited = observed.coordinated.status, observed.instant - observed.coordinated.since
    return reported.phase in ("starting", "gathering") and not reported.outcome and waited < TAKES_OVER


def with_conditions(
    observed: Observed, before: JobResourceStatus, status: JobResourceStatus, desired: Desired
) -> JobResourceStatus:
    """The status with its phase, its message and its conditions."""
    if is_taking_over(observed, before) and status.run.stage == "Running":
        return replace(
            status,
            observed_generation=before.observed_generation,
            phase=before.phase,
            message=before.message,
            conditions=before.conditions,
            workers=before.workers,
        )
    said, now = _statements(observed, status, desired), written(observed.now)
    known = {each.type: each for each in before.conditions}
    told = [(kind, said[kind], known.get(kind)) for kind in TYPES]
    conditions = [
        condition(kind, it.holds, it.reason, it.message, old, now, observed.generation)
        for kind, it, old in told
    ]
    phase = _phase(observed, status, desired)
    return replace(
        status,
        phase=phase,
        message=_message(observed, status, desired, said, phase)[:MAX_MESSAGE],
        conditions=conditions,
    )


def _phase(observed: Observed, status: JobResourceStatus, desired: Desired) -> Phase:
    run = status.run
    reported = observed.coordinated.status.phase if observed.coordinated else ""
    if run.stage == "Ended":
        return run.cause if run.cause in ("Completed", "HandedOver") else "Failed"
    if run.stage == "Stopped":
        return "Suspended" if run.cause == "Suspend" else "Upgrading"
    if run.stage == "Draining":
        return "Suspending" if run.cause == "Suspend" else "Upgrading"
    if run.stage == "None":
        return (
            "Failed"
            if desired.refusal
            else "Suspended"
            if desired.plan is not None and desired.plan.spec.suspend
            else "Pending"
        )
    if run.stage == "Running" and run.next and reported == "running":
        return "Upgrading"
    if run.stage == "Running":
        return "Running" if reported in ("running", "ending", "", "finished") else "Recovering"
    waits = (
        bool(status.failures.count) and observed.now < moment(status.failures.next_try) and not status.drivers
    )
    return "BackingOff" if waits else "Starting"


def _statements(
    observed: Observed, status: JobResourceStatus, desired: Desired
) -> dict[ConditionType, Statement]:
    run, reported = status.run, observed.coordinated.status if observed.coordinated else None
    phase = reported.phase if reported is not None else ""
    flows = run.stage in ("Running", "Draining") and phase in ("running", "ending")
    problem = problem_of(observed, status, desired)
    checkpointing = _checkpointing(observed, status, desired, flows)
    whole = status.workers.ready >= status.workers.desired > 0
    failed = (run.stage == "Ended" and run.cause == "Failed") or (
        run.stage == "None" and bool(desired.refusal)
    )
    why_not = (
        problem or Statement(True, "Starting", "the job is starting")
        if not flows
        else Statement(True, "Running")
    )
    recovering = run.stage == "Running" and phase in ("recovering", "gathering", "waiting", "starting")
    stopped = (run.stage == "Stopped" and run.cause == "Suspend") or (
        run.stage == "None" and _phase(observed, status, desired) == "Suspended"
    )
    idle = run.stage in ("Ended", "Stopped", "None")
    rests = _rest(run, stopped)
    ready = bool(rests) or (flows and whole and checkpointing.holds and run.stage == "Running")
    # what is not there yet may come with the next apply
    stalled = (
        _failure(status, desired) if failed and not desired.waits_for else _stalled(observed, status, desired)
    )
    unmade = "" if stalled.holds or rests else _unmade(status, desired, whole, phase)
    cause = (
        reported.last_recovery.cause
        if recovering and reported is not None and reported.last_recovery is not None
        else ""
    )
    degraded = problem if not failed and not idle else None
    return {
        "Ready": Statement(
            ready,
            rests or _reason_of_ready(ready, flows, whole, run.stage),
            "" if ready or problem is None else problem.message,
        ),
        "Running": Statement(
            flows,
            why_not.reason if not idle else run.cause or run.stage,
            "" if flows or idle else why_not.message,
        ),
        "Checkpointing": checkpointing,
        "Recovering": Statement(recovering, phase.capitalize() if recovering else "Whole", cause),
        "Suspended": Statement(
            stopped, "AtEpoch" if stopped else "Active", _suspension(status) if stopped else ""
        ),
        "Degraded": degraded or Statement(False, "Whole"),
        "Completed": Statement(run.stage == "Ended" and run.cause == "Completed", run.cause or "Going"),
        "Failed": _failure(status, desired) if failed else Statement(False, "NotFailed"),
        "Reconciling": Statement(
            bool(unmade), unmade or "Made", problem.message if unmade and problem else ""
        ),
        "Stalled": stalled,
    }


def _rest(run: RunStatus, stopped: bool) -> str:
    """The reason for which a job rests, as it should; "": it should do something."""
    if run.stage == "Ended" and run.cause in ("Completed", "HandedOver"):
        return run.cause
    return "Suspended" if stopped else ""


def _stalled(observed: Observed, status: JobResourceStatus, desired: Desired) -> Statement:
    """Whether the newest spec waits for somebody, while what was there before goes on."""
    if desired.refusal and not desired.waits_for:
        return Statement(True, "SpecRefused", desired.refusal)
    if status.rolled_back == observed.generation > 0:
        return Statement(True, "RolledBack", status.failures.last)
    return Statement(False, "Going")


def _unmade(status: JobResourceStatus, desired: Desired, whole: bool, phase: str) -> str:
    """A word for the difference between the newest spec and what runs; "": there is none."""
    run, plan = status.run, desired.plan
    if run.stage != "Running":
        return "Pending" if run.stage == "None" else run.stage
    if phase not in ("running", "ending", "finished"):
        return "Recovering"
    if run.next or plan is None or plan.code != run.code:
        return "Upgrading"
    if not all(driver.state == "Running" and driver.revision == plan.revision for driver in status.drivers):
        return "Replacing"
    return "" if whole else "WorkersMissing"


def _failure(status: JobResourceStatus, desired: Desired) -> Statement:
    if desired.refusal and status.run.stage == "None":
        return Statement(True, "SpecRefused", desired.refusal)
    return Statement(True, status.failures.reason or "Failed", status.failures.last)


def _reason_of_ready(ready: bool, flows: bool, whole: bool, stage: str) -> str:
    if ready:
        return "Whole"
    return (
        "NotRunning"
        if not flows
        else "WorkersMissing"
        if not whole
        else "NoEpochYet"
        if stage == "Running"
        else stage
    )


def _checkpointing(observed: Observed, status: JobResourceStatus, desired: Desired, flows: bool) -> Statement:
    if desired.plan is not None and desired.plan.spec.guarantee == "none":
        return Statement(flows, "NotAskedFor", "guarantee none saves nothing")
    if not flows or observed.coordinated is None:
        return Statement(False, "NotRunning")
    if not observed.coordinated.status.epoch:
        return Statement(False, "NoEpochYet", "the first epoch has not committed yet")
    interval = float(desired.plan.spec.checkpoint.interval) if desired.plan is not None else 1.0
    unsaved = observed.coordinated.status.unsaved_since / 1e6
    age = observed.now - unsaved if unsaved else 0.0  # an idle stream takes no epochs
    if age <= max(EPOCHS_LATE, 10 * interval):
        return Statement(True, "InTime")
    problems = "; ".join(status.problems) or "look for the store's troubles in the operator's log"
    return Statement(
        False, "EpochsLate", f"nothing was saved for {age:.0f} s, results go on meanwhile: {problems}"
    )


def _suspension(status: JobResourceStatus) -> str:
    at = status.suspension
    if at is None:
        return "never started"
    rest = "" if at.clean else "; the drain ran out of time, so the next start replays what was above the cut"
    return f"at epoch {at.epoch}, cut {at.cut}, {at.outputs} results delivered{rest}"


def _message(
    observed: Observed,
    status: JobResourceStatus,
    desired: Desired,
    said: dict[ConditionType, Statement],
    phase: Phase,
) -> str:
    if said["Failed"].holds:
        return said["Failed"].message
    if phase == "Suspended":
        return said["Suspended"].message
    if phase == "HandedOver":
        return f"{status.handed_over}, which goes on with its sources and sinks: this object can be deleted"
    if phase == "BackingOff":
        return (
            f"{status.failures.last} (failure {status.failures.count} in a row; next try at "
            f"{status.failures.next_try})"
        )
    if said["Degraded"].message:
        return said["Degraded"].message
    pods = [phase_of(pod) for pod in observed.of_role("worker")]
    if phase == "Starting":
        run = f"run {status.run.number}: {len(status.drivers)} drivers"
        return f"{run}, {pods.count('Running')} worker pods run, {status.workers.summary} ready"
    plan, waits_for = desired.plan, {status.run.code, status.run.next}
    if phase == "Running" and status.turned is not None and plan is not None and plan.code not in waits_for:
        return "the newest change waits until the one before has been watched, and was seen whole"
    return ""


# --- problems -----------------------------------------------------------------------------------------------


def problem_of(observed: Observed, status: JobResourceStatus, desired: Desired) -> Statement | None:
    """The problem of a job that goes on, or why it does not start; None: nothing that is known is wrong."""
    if desired.waits_for and desired.refusal:
        return Statement(True, "ApplicationMissing", desired.refusal)
    if desired.refusal and status.run.stage not in ("None", "Ended"):
        return Statement(
            True, "SpecRefused", f"the newest spec cannot run, the one before goes on: {desired.refusal}"
        )
    if observed.secrets_problem:
        return Statement(True, "SecretMissing", observed.secrets_problem)
    plan = desired.plan if status.run.stage == "TakingOver" else None
    if plan is not None and (missing := missing_leave(observed, plan)):
        # a field of its own spec, or somebody else: the reason tells the two apart, so it is written at once
        return Statement(True, "TakeOverDiffers" if missing.startswith("spec.") else "TakeOverWaits", missing)
    operation = observed.operations.get(f"{status.run.stage.lower()}/{status.run.number}")
    if operation is not None and operation.problem:
        return Statement(True, f"{status.run.stage}Delayed", f"{operation.problem}; it is tried again")
    if status.rolled_back:
        failed = f"generation {status.rolled_back} failed ({status.failures.last})"
        return Statement(True, "RolledBack", f"{failed}, the last stable one runs: edit the spec")
    for pod in (*observed.of_role("driver"), *observed.of_role("worker")):
        found = _problem_of_pod(pod, observed.now)
        if found is not None:
            return found
    refusal = next(
        (refusal for key, refusal in sorted(observed.refusals.items()) if key.startswith("aside/")), None
    )
    if refusal is not None:
        return Statement(True, refusal.reason, refusal.message)
    if status.problems:
        return Statement(True, "Troubles", "; ".join(status.problems))
    return _problem_of_placement(observed, status, desired)


def _problem_of_pod(pod: Object, now: float) -> Statement | None:
    name = pod["metadata"]["name"]
    if phase_of(pod) != "Pending":
        return None
    for container in pod.get("status", {}).get("containerStatuses") or ():
        waits = (container.get("state") or {}).get("waiting") or {}
        if waits.get("reason") in _PULL:
            why = waits.get("message") or waits["reason"]
            text = f"pod {name} cannot get its image ({why}): look at spec.image and pods.imagePullSecrets"
            return Statement(True, "ImagePullFailed", text)
        if waits.get("reason") in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError"):
            return Statement(True, "ContainerConfig", f"pod {name} cannot start: {waits.get('message')}")
    if gates := [gate["name"] for gate in pod.get("spec", {}).get("schedulingGates") or ()]:
        late = passed(now, pod["metadata"].get("creationTimestamp", ""), LET_IN)
        return Statement(True, "SchedulingGated", _gated(pod, gates)) if late else None
    for each in pod.get("status", {}).get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return Statement(True, "Unschedulable", f"pod {name} finds no node: {each.get('message')}")
    return None


def _gated(pod: Object, gates: Sequence[str]) -> str:
    meta = pod["metadata"]
    text = f"pod {meta['name']} is held back by {', '.join(gates)}"
    if not any(gate.startswith("kueue.x-k8s.io/") for gate in gates):
        return f"{text}: ask whoever set that scheduling gate"
    where = f"`kubectl -n {meta['namespace']} describe workloads`"
    return f"{text}: its queue does not let it in yet, {where} says why"


def _problem_of_placement(
    observed: Observed, status: JobResourceStatus, desired: Desired
) -> Statement | None:
    if desired.plan is None or not desired.plan.spec.high_availability or status.run.stage != "Running":
        return None
    nodes = [node_of(pod) for pod in observed.of_role("driver") if phase_of(pod) == "Running"]
    if len(nodes) == 2 and nodes[0] == nodes[1]:
        return Statement(
            True,
            "OneNode",
            f"both applications are on node {nodes[0]}, and would be lost with it: add a node",
        )
    return None
