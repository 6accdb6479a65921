"""An upgrade at a tick: two codes beside each other in one run, until the new one has taken over.

    run.code    has the slots; its drivers are replaced as ever
    run.next    starts beside; its workers wait, with the snapshot at hand, until the coordinator makes the tick

Keeps: code that is watched can be taken back. Does not: make the tick (core/coordinator/changes/upgrade.py), or try
the code before (preflight.py).
"""

from typing import Final

from msgspec.structs import replace

from flamestream.job.manifest_cluster import Upgrade
from flamestream.job.moments import passed, written
from flamestream.job.status import JobStatus
from flamestream_operator.api.job_status import DriverStatus, IntentStatus, JobResourceStatus, StableSpec
from flamestream_operator.jobs.drivers import ending_of_next
from flamestream_operator.jobs.failures import with_reason, with_refusal
from flamestream_operator.jobs.observed import Observed
from flamestream_operator.jobs.spec import Desired, Plan, unlike

PROVEN_WITHIN: Final = 60.0
"""Seconds behind its watch in which code has to be seen whole, with a commit of its own; a change that waits for
it is made by a stop then."""


def running_of(observed: Observed, status: JobResourceStatus, desired: Desired) -> Desired:
    """The spec of the code that runs, while another one is wanted: the last stable one, or that which the run
    has gone on to."""
    if desired.plan is None:
        return desired
    return known_as(observed, status, desired, status.run.code) or desired


def known_as(observed: Observed, status: JobResourceStatus, desired: Desired, code: str) -> Desired | None:
    """The spec of this code: what is wanted, the last stable one, or what the run has gone on to; None: it is not
    known."""
    if desired.plan is not None and desired.plan.code == code:
        return desired
    for known in (status.last_stable, status.turned):
        if known is not None and known.code == code:
            return observed.specs.read(observed.job, dict(known.spec), observed.site, known.application)
    return None


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
        turned = newest_of(observed, None, desired, plan.code)
        return replace(_with_codes_said(status), run=run, turned=turned, intent=IntentStatus())
    if reported is not None and reported.refusal and reported.refused == trial.digest:
        return with_refusal(observed, without_next(status), "UpgradeRefused", reported.refusal)
    if (ending := ending_of_next(observed, status)) is not None:
        return with_refusal(observed, without_next(status), ending.reason, ending.message)
    return status


def kept(
    observed: Observed, status: JobResourceStatus, reported: JobStatus | None, plan: Plan
) -> JobResourceStatus:
    """The workers of the code before: kept as long as the job says, or in charge again, for the new code has
    failed."""
    run = status.run
    if reported is not None and reported.code == run.before_digest != run.digest:
        stable = status.last_stable
        assert stable is not None and stable.code == run.before, "code that is watched is not stable yet"
        run = replace(
            run, code=run.before, digest=run.before_digest, application=stable.application,
            next="", before="", before_digest="",
        )  # fmt: skip
        # of an edit that came since nothing is known: it is tried
        told = with_refusal if plan.code == status.run.code else with_reason
        reason = reported.refusal or "the new code has failed"
        return told(observed, replace(_with_codes_said(status), run=run, turned=None), "TakenBack", reason)
    # Whose watch is over is kept for a way back: nobody needs that who goes on to yet another.
    goes_on = plan.code not in (run.code, run.before)
    if reported is None or reported.code != run.digest:
        return status
    if reported.before and (reported.watched or not goes_on):
        return status
    return replace(status, run=replace(run, before="", before_digest=""))


def waits_for_proof(observed: Observed, status: JobResourceStatus, running: Plan, wanted: Plan) -> bool:
    """Whether another change of code has to wait, for the one before is watched, or not yet seen whole with a
    commit of its own: it could not be gone back to."""
    if status.turned is None or wanted.code == status.run.before:
        return False
    upgrade = running.spec.upgrade or Upgrade()
    most = float(max(upgrade.watch, upgrade.keep or 0)) + PROVEN_WITHIN
    return bool(status.run.before) or not passed(observed.now, status.run.turned_at, most)


def newest_of(observed: Observed, known: StableSpec | None, desired: Desired, code: str) -> StableSpec:
    """The spec that is desired, as one that can be gone back to: that which is known, if it says the same."""
    if known is not None and (known.spec, known.application) == (desired.spec, desired.app_digest):
        return known
    return StableSpec(
        generation=observed.generation, code=code, application=desired.app_digest, spec=desired.spec
    )


def without_next(status: JobResourceStatus) -> JobResourceStatus:
    """No other code is to take over."""
    return replace(status, run=replace(status.run, next=""))


def _with_codes_said(status: JobResourceStatus) -> JobResourceStatus:
    """Each driver carries the code it runs itself, since the run goes on with another."""
    return replace(status, drivers=[replace(each, code=status.code_of(each)) for each in status.drivers])
