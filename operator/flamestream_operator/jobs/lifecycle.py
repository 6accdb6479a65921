"""The stages of a run: start, run, drain, stop, end.

    None ─▶ Restoring ─▶ Starting ─▶ Running ─▶ Draining ─▶ Stopped ─▶ Starting (the next run)
                                        │           ▲           └─▶ Forgetting ─▶ Starting (upgrade.strategy: Fresh)
                                        └─▶ Ended (completed, failed)

A change of code drains to an epoch and begins the next run from there. If that run cannot begin before it was ever Ready, the spec goes
back to the last stable one.

Keeps: a run has one code; a new run has a new number, and with it a new token. Does not: make pods (drivers.py).
"""

from msgspec.structs import replace

from flamestream.job.status import JobStatus
from flamestream_operator.api.job_status import EpochStatus, IntentStatus, JobResourceStatus, RunStatus, StableSpec, SuspensionStatus
from flamestream_operator.jobs.clock import moment, passed, written
from flamestream_operator.jobs.desired import Wanted
from flamestream_operator.jobs.drivers import ending_that_is_final
from flamestream_operator.jobs.failures import failed, gives_up
from flamestream_operator.jobs.observed import Seen
from flamestream_operator.jobs.plan import Plan
from flamestream_operator.jobs.preflight import taken_snapshot, tried

DRAIN_WITHIN = 90.0
"""Seconds; the coordinator's own limit is shorter, so this is for one that says nothing."""
NEVER_RAN = 3.0
"""Seconds after which a coordinator that no worker has come to has nothing to drain."""
_ACTIVE = ("Starting", "Running")


def moved(seen: Seen, status: JobResourceStatus, want: Wanted) -> JobResourceStatus:
    """One step of the run."""
    stage = status.run.stage
    if want.plan is None:
        return _refused(seen, status, want)
    status = _deadline(seen, status, want.plan)
    if status.run.stage != stage:
        return status
    if stage in _ACTIVE:
        return _active(seen, status, want, want.plan)
    if stage == "Draining":
        return _drained(seen, status)
    if stage in ("Restoring", "Forgetting"):
        return _prepared(seen, status, want.plan)
    return _begun(seen, status, want, want.plan)


def _refused(seen: Seen, status: JobResourceStatus, want: Wanted) -> JobResourceStatus:
    """A stream that runs goes on; one that does not, says why."""
    if seen.job["spec"].get("suspend") and status.run.stage in _ACTIVE:
        return _draining(seen, status, "Suspend")
    if status.run.stage == "Draining":
        return _drained(seen, status)
    return status


# --- while it runs ------------------------------------------------------------------------------------------------------------------


def _active(seen: Seen, status: JobResourceStatus, want: Wanted, plan: Plan) -> JobResourceStatus:
    told = seen.coordinated.status if seen.coordinated else None
    if told is not None and told.outcome:
        return _finished(seen, status, told, plan)
    ending = ending_that_is_final(seen, status)
    if ending is not None:
        return _failed_for_good(seen, status, plan, ending.reason, ending.message)
    if gives_up(status, plan.spec):
        return _ended(seen, status, "Failed")
    if plan.spec.suspend:
        return _draining(seen, status, "Suspend")
    if plan.code != status.run.code:
        return _upgrading(seen, status, plan)
    if told is not None and told.phase == "running" and status.run.stage == "Starting":
        return replace(status, run=replace(status.run, stage="Running"), intent=IntentStatus())
    return _stable(seen, status, want, plan)


def _upgrading(seen: Seen, status: JobResourceStatus, plan: Plan) -> JobResourceStatus:
    """Other code: tried beside the stream first, if there is one that could go on without it."""
    fresh = plan.spec.upgrade is not None and plan.spec.upgrade.strategy == "Fresh"
    if fresh or status.last_stable is None or status.rolled_back:
        return _draining(seen, status, "Upgrade")
    status = tried(seen, status, plan)
    passed = status.preflight is not None and status.preflight.code == plan.code and status.preflight.state == "Passed"
    return _draining(seen, status, "Upgrade") if passed else status


def _stable(seen: Seen, status: JobResourceStatus, want: Wanted, plan: Plan) -> JobResourceStatus:
    """A spec that was seen running, whole, with a commit of its own, is where an upgrade can go back to."""
    stable, coordinated = status.last_stable, seen.coordinated
    if status.rolled_back or coordinated is None or coordinated.status.phase != "running":
        return status
    if not all(driver.state == "Running" and driver.revision == plan.revision for driver in status.drivers):
        return status
    if plan.spec.guarantee != "none" and (not coordinated.status.epoch or coordinated.epoch_since < moment(status.run.started_at)):
        return status
    if stable is not None and stable.spec == want.spec and stable.application == want.app_digest:
        return status
    fresh = StableSpec(generation=seen.generation, code=status.run.code, application=want.app_digest, spec=want.spec)
    return replace(status, last_stable=fresh)


def _finished(seen: Seen, status: JobResourceStatus, told: JobStatus, plan: Plan) -> JobResourceStatus:
    if told.outcome == "completed":
        return _ended(seen, status, "Completed")
    if told.outcome in ("drained", "stopped"):
        # Somebody else has asked for it (another operator, before it lost the Lease): the run is over, the next one goes on.
        return _stopped(seen, replace(status, run=replace(status.run, cause=status.run.cause or "Upgrade")), told)
    if told.category in ("user", "corrupt"):
        return _failed_for_good(seen, status, plan, "UserError" if told.category == "user" else "StateCorrupt", told.message)
    status = failed(status, plan.spec, seen.now, "JobFailed", told.message)
    return _ended(seen, status, "Failed") if gives_up(status, plan.spec) else _next_run(seen, status, plan, status.run.application)


def _failed_for_good(seen: Seen, status: JobResourceStatus, plan: Plan, reason: str, message: str) -> JobResourceStatus:
    stable = status.last_stable
    status = failed(status, plan.spec, seen.now, reason, message)
    if stable is not None and stable.code != status.run.code and not status.rolled_back:
        status = replace(status, rolled_back=seen.generation, rolled_back_application=seen.app_digest)
        return _draining(seen, status, "Rollback")
    if plan.spec.restart_policy == "Always" and not gives_up(status, plan.spec):
        return _next_run(seen, status, plan, status.run.application)
    return _ended(seen, status, "Failed")


def _deadline(seen: Seen, status: JobResourceStatus, plan: Plan) -> JobResourceStatus:
    deadline = plan.spec.deadline
    if deadline is None or status.run.stage not in _ACTIVE or not status.started_at:
        return status
    if seen.now - moment(status.started_at) <= float(deadline):
        return status
    message = f"not completed within its deadline of {deadline}: raise spec.deadline, or make a new job"
    return _ended(seen, failed(status, plan.spec, seen.now, "DeadlineExceeded", message), "Failed")


# --- stops --------------------------------------------------------------------------------------------------------------------------


def _draining(seen: Seen, status: JobResourceStatus, cause: str) -> JobResourceStatus:
    run = replace(status.run, stage="Draining", cause=cause)
    intent = IntentStatus(key=f"drain/{run.number}/{written(seen.now)}", generation=seen.generation)
    return replace(status, run=run, intent=intent)


def _drained(seen: Seen, status: JobResourceStatus) -> JobResourceStatus:
    """Until the coordinator says that it has stopped; a stream that never ran, or a rolled back one, has nothing to drain."""
    told = seen.coordinated.status if seen.coordinated else None
    if told is not None and told.outcome == "completed":
        return _ended(seen, status, "Completed")
    if told is not None and told.outcome:
        return _stopped(seen, status, told)
    since = status.intent.key.rpartition("/")[2] if status.intent.key.startswith("drain/") else ""
    never_ran = told is not None and told.phase in ("starting", "gathering") and not told.workers and passed(seen.now, since, NEVER_RAN)
    if never_ran or status.run.cause == "Rollback" or passed(seen.now, since, DRAIN_WITHIN):
        return _stopped(seen, status, told)
    return status


def _stopped(seen: Seen, status: JobResourceStatus, told: JobStatus | None) -> JobResourceStatus:
    suspension = None
    if told is not None:
        if told.epoch and (status.epoch is None or status.epoch.number != told.epoch):
            status = replace(status, epoch=EpochStatus(number=told.epoch, cut=str(told.cut), time=written(seen.now)))
        outputs = sum(worker.items_out for worker in told.workers)
        suspension = SuspensionStatus(
            epoch=told.epoch, cut=str(told.cut), time=written(seen.now), outputs=outputs or status.items.output,
            clean=told.outcome == "drained",
        )  # fmt: skip
    run = replace(status.run, stage="Stopped")
    return replace(
        status, run=run, drivers=[], suspension=suspension, intent=IntentStatus(key=f"stop/{run.number}", generation=seen.generation)
    )


def _ended(seen: Seen, status: JobResourceStatus, cause: str) -> JobResourceStatus:
    run = replace(status.run, stage="Ended", cause=cause, generation=seen.generation)
    intent = IntentStatus(key=f"end/{run.number}", generation=seen.generation)
    return replace(status, run=run, drivers=[], finished_at=written(seen.now), intent=intent)


# --- starts -------------------------------------------------------------------------------------------------------------------------


def _begun(seen: Seen, status: JobResourceStatus, want: Wanted, plan: Plan) -> JobResourceStatus:
    """From None, Stopped or Ended: whether there is a next run."""
    run = status.run
    if plan.spec.suspend and run.stage != "Ended":
        return status
    if run.stage == "Ended" and (run.cause == "Completed" or run.generation == seen.generation):
        return status
    if run.stage in ("None", "Ended") and plan.spec.restore_from is not None and not status.attempt:
        return _waits(seen, status, "Restoring", plan, want)
    fresh = plan.spec.upgrade is not None and plan.spec.upgrade.strategy == "Fresh"
    if run.stage in ("Stopped", "Ended") and fresh and plan.code != run.code:
        return _waits(seen, status, "Forgetting", plan, want)
    return _next_run(seen, status, plan, want.app_digest)


def _waits(seen: Seen, status: JobResourceStatus, stage: str, plan: Plan, want: Wanted) -> JobResourceStatus:
    run = RunStatus(number=status.run.number + 1, generation=seen.generation, code=plan.code, application=want.app_digest, stage=stage)  # type: ignore[arg-type]  # both are stages
    intent = IntentStatus(key=f"{stage.lower()}/{run.number}", generation=seen.generation)
    return replace(status, run=run, intent=intent, preflight=None, finished_at="")


def _prepared(seen: Seen, status: JobResourceStatus, plan: Plan) -> JobResourceStatus:
    if status.run.stage == "Restoring" and taken_snapshot(seen) is not None:
        fits = tried(seen, status, plan)
        if fits.preflight is not None and fits.preflight.state == "Failed":
            why = fits.failures
            status = failed(replace(status, preflight=fits.preflight), plan.spec, seen.now, why.reason, why.last)
            return _ended(seen, status, "Failed")  # nothing was restored: the next spec is tried like the first
        if fits.preflight is None or fits.preflight.state == "Running":
            return fits
        status = fits
    operation = seen.operations.get(f"{status.run.stage.lower()}/{status.run.number}")
    if operation is None or not operation.done:
        return status
    if operation.problem and not operation.final:
        return status  # it is tried again; until then it is a trouble (jobs/troubles.py)
    if operation.problem:
        return _ended(seen, failed(status, plan.spec, seen.now, f"{status.run.stage}Failed", operation.problem), "Failed")
    return _starting(seen, status, status.run)


def _next_run(seen: Seen, status: JobResourceStatus, plan: Plan, app_digest: str) -> JobResourceStatus:
    """The drivers of the old run are not of the new one: their workers' token is no longer good."""
    if plan.code != status.run.code and not status.rolled_back:
        status = replace(status, failures=replace(status.failures, count=0, next_try=""))
    run = RunStatus(number=status.run.number + 1, generation=seen.generation, code=plan.code, application=app_digest)
    return _starting(seen, status, run)


def _starting(seen: Seen, status: JobResourceStatus, run: RunStatus) -> JobResourceStatus:
    run = replace(run, stage="Starting", cause="", started_at=written(seen.now), attempt=status.attempt)
    intent = IntentStatus(key=f"run/{run.number}", generation=seen.generation)
    started = status.started_at or written(seen.now)
    return replace(status, run=run, drivers=[], suspension=None, intent=intent, started_at=started, finished_at="")
