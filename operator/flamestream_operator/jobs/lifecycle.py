"""The lifecycle of a run: start, run, drain, stop, end.

    None ─▶ Restoring, TakingOver ─▶ Starting ─▶ Running ─▶ Draining ─▶ Stopped ─▶ Starting (the next run)
                                        │           ▲           └─▶ Forgetting ─▶ Starting (strategy: Fresh)
                                        └─▶ Ended (completed, failed)

A change of code is taken over at a tick, within the run; or, where it is more than code, or upgrade.strategy
says so, the run drains to an epoch and the next one begins from there. If that cannot begin before it was ever
Ready, the spec goes back to the last stable one.

Keeps: a run has one code at a time; a new run has a new number, and with it a new token. Does not: make pods
(drivers.py).
"""

from typing import Literal

from msgspec.structs import replace

from flamestream.core.protocol.job_record import HANDED_OVER
from flamestream.job.moments import moment, passed, written
from flamestream.job.status import JobStatus
from flamestream_operator.api.job_status import (
    EpochStatus,
    IntentStatus,
    JobResourceStatus,
    RunStatus,
    SuspensionStatus,
)
from flamestream_operator.jobs.changes.preflight import taken_snapshot, with_trial
from flamestream_operator.jobs.changes.take_over import identity_of_other, missing_leave
from flamestream_operator.jobs.changes.upgrade import (
    kept,
    needs_a_stop,
    newest_of,
    running_of,
    turning,
    waits_for_proof,
    without_next,
)
from flamestream_operator.jobs.drivers import ending_that_is_final
from flamestream_operator.jobs.failures import gives_up, left_alone, with_failure
from flamestream_operator.jobs.observed import Observed
from flamestream_operator.jobs.spec import Desired, Plan

DRAIN_WITHIN = 90.0
"""Seconds; the coordinator's own limit is shorter, so this is for one that says nothing."""
SHADOW_EVERY = 60.0
"""Seconds between two trials of a job that only shadows another one."""
NEVER_RAN = 3.0
"""Seconds after which a coordinator that no worker has come to has nothing to drain."""
_ACTIVE = ("Starting", "Running")


def with_next_stage(observed: Observed, status: JobResourceStatus, desired: Desired) -> JobResourceStatus:
    """The status with its run one step further, if it is time for one."""
    stage = status.run.stage
    if desired.plan is None:
        return _refused(observed, status, desired)
    status = _deadline(observed, status, desired.plan)
    if status.run.stage != stage:
        return status
    if stage in _ACTIVE:
        return _active(observed, status, desired, desired.plan)
    if stage == "Draining":
        return _drained(observed, status)
    if stage == "TakingOver":
        return _taking_over(observed, status, desired.plan)
    if stage in ("Restoring", "Forgetting"):
        return _prepared(observed, status, desired.plan)
    return _begun(observed, status, desired, desired.plan)


def _refused(observed: Observed, status: JobResourceStatus, desired: Desired) -> JobResourceStatus:
    """A stream that runs goes on; one that does not, says why."""
    if observed.job["spec"].get("suspend") and status.run.stage in _ACTIVE:
        return _draining(observed, status, "Suspend")
    if status.run.stage == "Draining":
        return _drained(observed, status)
    return status


# --- while it runs ------------------------------------------------------------------------------------------


def _active(observed: Observed, status: JobResourceStatus, desired: Desired, plan: Plan) -> JobResourceStatus:
    reported = observed.coordinated.status if observed.coordinated else None
    if reported is not None and reported.outcome:
        return _finished(observed, status, reported, plan)
    ending = ending_that_is_final(observed, status)
    if ending is not None:
        return _failed_for_good(observed, status, plan, ending.reason, ending.message)
    if gives_up(status, plan.spec):  # spec.backoff.limit, or restartPolicy: Never
        return _ended(observed, status, "Failed")
    if status.run.before:
        status = kept(observed, status, reported, plan)
        if status.rolled_back:
            return status
    # Before the code: a run that stops for the suspension begins again with the new code anyway.
    if plan.spec.suspend:
        return _draining(observed, status, "Suspend")
    if plan.code != status.run.code:
        return _upgrading(observed, status, desired, plan)
    if status.run.next:  # the edit was taken back
        status = without_next(status)
    # Not before it runs: until then the record has the code of the run before.
    if reported is not None and reported.phase == "running" and reported.code and not status.run.digest:
        status = replace(status, run=replace(status.run, digest=reported.code))
    if reported is not None and reported.phase == "running" and status.run.stage == "Starting":
        return replace(status, run=replace(status.run, stage="Running"), intent=IntentStatus())
    return _stable(observed, status, desired, plan)


def _upgrading(
    observed: Observed, status: JobResourceStatus, desired: Desired, plan: Plan
) -> JobResourceStatus:
    """Other code: tried beside the stream first, if there is one that could go on without it."""
    strategy = "Tick" if plan.spec.upgrade is None else plan.spec.upgrade.strategy
    fresh = strategy == "Fresh"
    # No trial where the state is dropped, where nothing has ever been stable, or of what is gone back to:
    # that one has run.
    if fresh or status.last_stable is None or status.rolled_back:
        return _draining(observed, status, "Upgrade")
    status = with_trial(observed, status, plan)
    passed = (
        status.preflight is not None
        and status.preflight.code == plan.code
        and status.preflight.state == "Passed"
    )
    if not passed:
        return status
    running = running_of(observed, status, desired)
    if strategy != "Tick" or needs_a_stop(status, running.plan, plan):
        return _draining(observed, status, "Upgrade")
    if running.plan is not None:
        status = _stable(observed, status, running, running.plan)
        if waits_for_proof(observed, status, running.plan, plan):
            return status
    if status.turned is not None and plan.code != status.run.before:
        return _draining(observed, status, "Upgrade")
    return turning(observed, status, desired, plan)


def _stable(observed: Observed, status: JobResourceStatus, desired: Desired, plan: Plan) -> JobResourceStatus:
    """A spec that was seen running, whole, with a commit of its own, is where an upgrade can go back to."""
    coordinated = observed.coordinated
    if status.turned is not None:
        turned = newest_of(observed, status.turned, desired, status.run.code)
        status = replace(status, turned=turned)
    # nothing new is proved then, and what is still watched can be taken back: then the one before is needed
    if (
        status.rolled_back
        or status.run.before
        or coordinated is None
        or coordinated.status.phase != "running"
    ):
        return status
    if not all(driver.state == "Running" and driver.revision == plan.revision for driver in status.drivers):
        return status
    if plan.spec.guarantee != "none" and (
        not coordinated.status.epoch or coordinated.epoch_since < moment(status.run.started_at)
    ):
        return status
    known = status.turned or status.last_stable
    return replace(status, last_stable=newest_of(observed, known, desired, status.run.code), turned=None)


def _finished(
    observed: Observed, status: JobResourceStatus, reported: JobStatus, plan: Plan
) -> JobResourceStatus:
    if reported.outcome in ("completed", HANDED_OVER):
        return _over(observed, status, reported)
    if reported.outcome in ("drained", "stopped"):
        # Somebody else has asked for it (another operator, before it lost the Lease): the run is over, the
        # next one goes on.
        return _stopped(
            observed, replace(status, run=replace(status.run, cause=status.run.cause or "Upgrade")), reported
        )
    if reported.category in ("user", "corrupt"):
        return _failed_for_good(
            observed,
            status,
            plan,
            "UserError" if reported.category == "user" else "StateCorrupt",
            reported.message,
        )
    status = with_failure(status, plan.spec, observed.now, "JobFailed", reported.message)
    return (
        _ended(observed, status, "Failed")
        if gives_up(status, plan.spec)
        else _next_run(observed, status, plan, status.run.application)
    )


def _failed_for_good(
    observed: Observed, status: JobResourceStatus, plan: Plan, reason: str, message: str
) -> JobResourceStatus:
    stable = status.last_stable
    status = with_failure(status, plan.spec, observed.now, reason, message)
    # once: the old code's failure is final
    if stable is not None and stable.code != status.run.code and not status.rolled_back:
        return _draining(observed, left_alone(observed, status), "Rollback")
    if plan.spec.restart_policy == "Always" and not gives_up(status, plan.spec):
        return _next_run(observed, status, plan, status.run.application)
    return _ended(observed, status, "Failed")


def _deadline(observed: Observed, status: JobResourceStatus, plan: Plan) -> JobResourceStatus:
    deadline = plan.spec.deadline
    if deadline is None or status.run.stage not in _ACTIVE or not status.started_at:
        return status
    if observed.now - moment(status.started_at) <= float(deadline):
        return status
    message = f"not completed within its deadline of {deadline}: raise spec.deadline, or make a new job"
    return _ended(
        observed, with_failure(status, plan.spec, observed.now, "DeadlineExceeded", message), "Failed"
    )


# --- stops --------------------------------------------------------------------------------------------------


def _draining(observed: Observed, status: JobResourceStatus, cause: str) -> JobResourceStatus:
    run = replace(status.run, stage="Draining", cause=cause, next="", before="", before_digest="")
    # The key has the moment, from which `_drained` counts under whatever leader.
    intent = IntentStatus(key=f"drain/{run.number}/{written(observed.now)}", generation=observed.generation)
    return replace(status, run=run, intent=intent)


def _drained(observed: Observed, status: JobResourceStatus) -> JobResourceStatus:
    """Until the coordinator says that it has stopped; a stream that never ran, or a rolled back one, has
    nothing to drain."""
    reported = observed.coordinated.status if observed.coordinated else None
    if reported is not None and reported.outcome in ("completed", HANDED_OVER):
        return _over(observed, status, reported)
    if reported is not None and reported.outcome:
        return _stopped(observed, status, reported)
    since = status.intent.key.rpartition("/")[2] if status.intent.key.startswith("drain/") else ""
    never_ran = (
        reported is not None
        and reported.phase in ("starting", "gathering")
        and not reported.workers
        and passed(observed.now, since, NEVER_RAN)
    )
    if never_ran or status.run.cause == "Rollback" or passed(observed.now, since, DRAIN_WITHIN):
        return _stopped(observed, status, reported)
    return status


def _stopped(observed: Observed, status: JobResourceStatus, reported: JobStatus | None) -> JobResourceStatus:
    suspension = None
    if reported is not None:
        if reported.epoch and (status.epoch is None or status.epoch.number != reported.epoch):
            status = replace(
                status,
                epoch=EpochStatus(number=reported.epoch, cut=str(reported.cut), time=written(observed.now)),
            )
        outputs = sum(worker.items_out for worker in reported.workers)
        suspension = SuspensionStatus(
            epoch=reported.epoch, cut=str(reported.cut), time=written(observed.now),
            outputs=outputs or status.items.output, clean=reported.outcome == "drained",
        )  # fmt: skip
    run = replace(status.run, stage="Stopped")
    return replace(
        status,
        run=run,
        drivers=[],
        suspension=suspension,
        intent=IntentStatus(key=f"stop/{run.number}", generation=observed.generation),
    )


def _over(observed: Observed, status: JobResourceStatus, reported: JobStatus) -> JobResourceStatus:
    """The end that no spec changes any more: its input is through, or another job has it."""
    if reported.outcome == "completed":
        return _ended(observed, status, "Completed")
    return _ended(observed, replace(status, handed_over=reported.message), "HandedOver")


def _ended(observed: Observed, status: JobResourceStatus, cause: str) -> JobResourceStatus:
    run = replace(status.run, stage="Ended", cause=cause, generation=observed.generation)
    intent = IntentStatus(key=f"end/{run.number}", generation=observed.generation)
    return replace(status, run=run, drivers=[], finished_at=written(observed.now), intent=intent)


# --- starts -------------------------------------------------------------------------------------------------


def _begun(observed: Observed, status: JobResourceStatus, desired: Desired, plan: Plan) -> JobResourceStatus:
    """Begin the next run, if there is one, of a job that stands at None, Stopped or Ended."""
    run = status.run
    if plan.spec.suspend and run.stage != "Ended":
        return status
    # A failure is final for the spec that failed: only an edit, another generation, is tried.
    if run.stage == "Ended" and (
        run.cause in ("Completed", "HandedOver") or run.generation == observed.generation
    ):
        return status
    # Without an attempt there is no state: one that has run keeps its own, whatever `restoreFrom` says.
    if run.stage in ("None", "Ended") and plan.spec.restore_from is not None and not status.attempt:
        return _waits(observed, status, "Restoring", plan, desired)
    if run.stage in ("None", "Ended") and plan.spec.take_over is not None and not status.attempt:
        return _waits(observed, status, "TakingOver", plan, desired)
    fresh = plan.spec.upgrade is not None and plan.spec.upgrade.strategy == "Fresh"
    if run.stage in ("Stopped", "Ended") and fresh and plan.code != run.code:
        return _waits(observed, status, "Forgetting", plan, desired)
    return _next_run(observed, status, plan, desired.app_digest)


def _waits(
    observed: Observed,
    status: JobResourceStatus,
    stage: Literal["Restoring", "TakingOver", "Forgetting"],
    plan: Plan,
    desired: Desired,
) -> JobResourceStatus:
    run = RunStatus(
        number=status.run.number + 1,
        generation=observed.generation,
        code=plan.code,
        application=desired.app_digest,
        stage=stage,
    )
    intent = IntentStatus(key=f"{stage.lower()}/{run.number}", generation=observed.generation)
    return replace(status, run=run, intent=intent, preflight=None, finished_at="")


def _taking_over(observed: Observed, status: JobResourceStatus, plan: Plan) -> JobResourceStatus:
    """Ask for nothing before the other job's leave is there, the code was tried, and its pods dial."""
    operation = observed.operations.get(f"takingover/{status.run.number}")
    if operation is not None and operation.done and not operation.problem:
        return replace(_starting(observed, status, status.run), drivers=status.drivers)
    if not status.identity:
        if missing_leave(observed, plan) or plan.spec.take_over is None:
            return status  # the status names what is missing (jobs/conditions.py)
        return replace(status, identity=identity_of_other(observed, plan.spec.take_over))
    status = with_trial(observed, status, plan)
    failed = status.preflight is not None and status.preflight.state == "Failed"
    if failed or (operation is not None and operation.final):
        if operation is not None and operation.problem:
            status = with_failure(status, plan.spec, observed.now, "TakeOverFailed", operation.problem)
        return _ended(observed, replace(status, identity=""), "Failed")
    assert plan.spec.take_over is not None, "its leave names it"
    return _shadowed(observed, status) if plan.spec.take_over.shadow else status


def _shadowed(observed: Observed, status: JobResourceStatus) -> JobResourceStatus:
    """Tried again and again beside the other job, and nothing more."""
    trial = status.preflight
    if trial is None or trial.state != "Passed" or observed.pod(trial.pod) is not None:
        return status
    return replace(status, preflight=None) if passed(observed.now, trial.since, SHADOW_EVERY) else status


def _prepared(observed: Observed, status: JobResourceStatus, plan: Plan) -> JobResourceStatus:
    if status.run.stage == "Restoring" and taken_snapshot(observed) is not None:
        fits = with_trial(observed, status, plan)
        if fits.preflight is not None and fits.preflight.state == "Failed":
            why = fits.failures
            status = with_failure(
                replace(status, preflight=fits.preflight), plan.spec, observed.now, why.reason, why.last
            )
            # nothing was restored: the next spec is tried like the first
            return _ended(observed, status, "Failed")
        if fits.preflight is None or fits.preflight.state == "Running":
            return fits
        status = fits
    operation = observed.operations.get(f"{status.run.stage.lower()}/{status.run.number}")
    if operation is None or not operation.done:
        return status
    if operation.problem and not operation.final:
        # it is tried again; until then it is a problem that the status names (jobs/conditions.py)
        return status
    if operation.problem:
        return _ended(
            observed,
            with_failure(status, plan.spec, observed.now, f"{status.run.stage}Failed", operation.problem),
            "Failed",
        )
    return _starting(observed, status, status.run)


def _next_run(
    observed: Observed, status: JobResourceStatus, plan: Plan, app_digest: str
) -> JobResourceStatus:
    """The drivers of the old run are not of the new one: their workers' token is no longer good."""
    # The count and the pause were the old code's.
    if plan.code != status.run.code and not status.rolled_back:
        status = replace(status, failures=replace(status.failures, count=0, next_try=""))
    run = RunStatus(
        number=status.run.number + 1, generation=observed.generation, code=plan.code, application=app_digest
    )
    return _starting(observed, status, run)


def _starting(observed: Observed, status: JobResourceStatus, run: RunStatus) -> JobResourceStatus:
    run = replace(run, stage="Starting", cause="", started_at=written(observed.now), attempt=status.attempt)
    intent = IntentStatus(key=f"run/{run.number}", generation=observed.generation)
    started = status.started_at or written(observed.now)
    return replace(
        status,
        run=run,
        drivers=[],
        suspension=None,
        intent=intent,
        started_at=started,
        finished_at="",
        turned=None,
    )
