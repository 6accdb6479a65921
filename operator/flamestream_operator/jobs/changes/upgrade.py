"""An upgrade at a tick: two codes beside each other in one run, until the new one has taken over.

    run.code    has the slots; its drivers are replaced as ever
    run.next    starts beside; its workers wait, with the snapshot at hand, until the coordinator makes the tick

Keeps: code that is watched can be taken back. Does not: make the tick (core/coordinator/changes/upgrade.py), or try
the code before (preflight.py).
"""

from msgspec.structs import replace

from flamestream.job.manifest_cluster import Upgrade
from flamestream.job.moments import passed, written
from flamestream.job.status import JobStatus
from flamestream_operator.api.job_status import DriverStatus, IntentStatus, JobResourceStatus
from flamestream_operator.jobs.drivers import ending_of_next
from flamestream_operator.jobs.failures import with_refusal
from flamestream_operator.jobs.observed import Observed
from flamestream_operator.jobs.spec import Desired, Plan, unlike


def running_of(observed: Observed, status: JobResourceStatus, desired: Desired) -> Desired:
    """The spec of the code that runs, while another one is wanted: the last stable one, if that is it."""
    stable = status.last_stable
    if desired.plan is None or desired.plan.code == status.run.code:
        return desired
    if stable is None or stable.code != status.run.code:
        return desired
    return observed.specs.read(observed.job, dict(stable.spec), observed.site, stable.application)


def needs_a_stop(status: JobResourceStatus, runs: Plan | None, wanted: Plan) -> bool:
    """Whether more is other than code: what a stream that runs on cannot change."""
    if runs is None or runs.code != status.run.code or status.run.stage != "Running":
        return True
    trial = status.preflight
    if trial is None or not trial.digest or trial.digest == status.run.digest:
        return True  # nobody could tell the two by what workers say
    return runs.spec.batches or bool(unlike(runs.spec, wanted.spec))


def desired_for(
    observed: Observed, status: JobResourceStatus, desired: Desired, driver: DriverStatus
) -> Desired:
    """The spec that a driver is made from."""
    return running_of(observed, status, desired) if status.code_of(driver) == status.run.code else desired


def turning(observed: Observed, status: JobResourceStatus, desired: Desired, plan: Plan) -> JobResourceStatus:
    """Workers of the new code start beside those that run, and take over at one cut."""
    run, trial = status.run, status.preflight
    assert trial is not None, "it has passed"
    reported = observed.coordinated.status if observed.coordinated else None
    if run.next != plan.code:
        intent = IntentStatus(key=f"upgrade/{plan.code}", generation=observed.generation)
        return replace(status, run=replace(run, next=plan.code), intent=intent)
    if reported is not None and reported.code == trial.digest:
        run = replace(
            run, code=plan.code, digest=trial.digest, next="", generation=observed.generation,
            application=desired.app_digest, before=run.code, before_digest=run.digest,
            turned_at=written(observed.now),
        )  # fmt: skip
        return replace(_with_codes_said(status), run=run, intent=IntentStatus())
    if reported is not None and reported.refusal and reported.refused == trial.digest:
        return with_refusal(observed, without_next(status), "UpgradeRefused", reported.refusal)
    if (ending := ending_of_next(observed, status)) is not None:
        return with_refusal(observed, without_next(status), ending.reason, ending.message)
    return status


def kept(
    observed: Observed, status: JobResourceStatus, reported: JobStatus | None, plan: Plan
) -> JobResourceStatus:
    """The workers of the code before: kept for a while, or in charge again, for the new code has failed."""
    run, upgrade = status.run, plan.spec.upgrade or Upgrade()
    if reported is not None and reported.code == run.before_digest != run.digest:
        stable = status.last_stable
        assert stable is not None and stable.code == run.before, "code that is watched is not stable yet"
        run = replace(
            run, code=run.before, digest=run.before_digest, application=stable.application,
            next="", before="", before_digest="",
        )  # fmt: skip
        reason = reported.refusal or "the new code has failed"
        return with_refusal(observed, replace(_with_codes_said(status), run=run), "TakenBack", reason)
    if passed(observed.now, run.turned_at, float(max(upgrade.watch, upgrade.keep or 0))):
        status = replace(status, run=replace(run, before="", before_digest=""))
    return status


def without_next(status: JobResourceStatus) -> JobResourceStatus:
    """No other code is to take over."""
    return replace(status, run=replace(status.run, next=""))


def _with_codes_said(status: JobResourceStatus) -> JobResourceStatus:
    """Each driver carries the code it runs itself, since the run goes on with another."""
    return replace(status, drivers=[replace(each, code=status.code_of(each)) for each in status.drivers])
