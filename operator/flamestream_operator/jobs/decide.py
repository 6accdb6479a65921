"""observe -> decide -> actions, for one job.

A transition is written before any of its effects: if the status that was seen is not the one that follows
from what is seen, the only action is to write it, as a compare-and-set. Its effects come with the next look,
from the status as the API server has it. So an operator that dies between any two writes, or works on an old
copy, does nothing that is not announced, and its successor sees what was.

Only what decides something counts as a transition; figures alone are written at most once in three minutes.

Keeps: pure, so the same look gives the same status; idempotent; bounded number of actions. Does not: do
anything (jobs/reconciler.py).
"""

import dataclasses

import msgspec
from msgspec.structs import replace

from flamestream.job.moments import moment
from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.jobs import actions as do
from flamestream_operator.jobs import drivers
from flamestream_operator.jobs.changes.take_over import may_begin
from flamestream_operator.jobs.changes.upgrade import running_of
from flamestream_operator.jobs.conditions import with_conditions
from flamestream_operator.jobs.deletion import decide_deletion
from flamestream_operator.jobs.effects import effects
from flamestream_operator.jobs.events import events_between
from flamestream_operator.jobs.failures import with_old_failures_forgotten
from flamestream_operator.jobs.figures import with_figures
from flamestream_operator.jobs.lifecycle import with_next_stage
from flamestream_operator.jobs.observed import Observed
from flamestream_operator.jobs.savepoints import with_savepoint_due
from flamestream_operator.jobs.spec import Desired, needs_config_map, sized
from flamestream_operator.jobs.suspicion import due_in
from flamestream_operator.objects.meta import FINALIZER

SOON = 1.0
"""Seconds until the next look while something is under way that nobody reports."""
STANDING = (do.Coordinate, do.Upgrade, do.Reach)
"""Said at each look at a job that runs; who carries them out knows what is new."""
FIGURES_EVERY = 180.0
"""Seconds between two writes that only bring figures up to date."""


def status_of(job: dict[str, object]) -> JobResourceStatus:
    """As it was written. One that cannot be read (an older version's, somebody's edit) starts empty: the
    coordinator's record decides."""
    try:
        return msgspec.convert(job.get("status") or {}, JobResourceStatus)
    except msgspec.ValidationError:
        return JobResourceStatus()


def decide(observed: Observed) -> do.Decision:
    """The actions that follow from one look at a job."""
    before = status_of(observed.job)
    if observed.deleting:
        after, actions = decide_deletion(observed, before, desired_of(observed, before))
        return do.Decision([do.WriteStatus(after)] if is_transition(before, after) else actions, SOON)
    # Before anything is made (!): a job that is deleted needs somebody who ends its stream.
    if FINALIZER not in (observed.job["metadata"].get("finalizers") or ()):
        return do.Decision([do.SetFinalizer(True)], SOON)
    after, desired = transition(observed, before)
    # written first (!): its effects come with the next look, from what the API server has
    if is_transition(before, after):
        # Events behind the write: where that is refused, nothing is told that did not happen.
        return do.Decision([do.WriteStatus(after), *events_between(before, after)], SOON)
    # from what is written, never from what is only decided (!)
    actions = list(effects(observed, before, desired))
    if _expired(observed, before):  # by its own clock: nobody asks for this deletion
        return do.Decision([do.DeleteJob()], SOON)
    if after != before and observed.instant - observed.last_write >= FIGURES_EVERY:
        actions.append(do.WriteStatus(after))
    return do.Decision(actions, _look_again(observed, before, desired, actions))


def _expired(observed: Observed, status: JobResourceStatus) -> bool:
    ttl = (observed.job.get("spec") or {}).get("ttlAfterFinished")
    if not ttl or status.run.stage != "Ended" or not status.finished_at:
        return False
    desired = desired_of(observed, status)
    limit = desired.plan.spec.ttl_after_finished if desired.plan is not None else None
    return limit is not None and observed.now - moment(status.finished_at) >= float(limit)


def _look_again(
    observed: Observed, status: JobResourceStatus, desired: Desired, actions: list[do.Action]
) -> float | None:
    """Events bring us back by themselves; times do not."""
    stage, due = status.run.stage, due_in(observed)
    if (
        due is None
        and all(isinstance(action, STANDING) for action in actions)
        and _is_calm(observed, status, desired)
    ):
        return 30.0
    if (
        stage in ("Starting", "Draining", "Restoring", "TakingOver", "Forgetting", "None")
        or actions
        or due is not None
    ):
        return SOON if due is None else min(SOON, due + 0.01)
    if any(driver.state != "Running" for driver in status.drivers) or status.failures.count:
        return 5.0
    return 60.0


def _is_calm(observed: Observed, status: JobResourceStatus, desired: Desired) -> bool:
    """Whether it runs, and nothing is under way, refused, or waits for a moment: of a thousand jobs nearly all."""
    run, plan = status.run, desired.plan
    return (
        run.stage == "Running" and not run.next and not run.before and status.turned is None
        and observed.coordinated is not None and observed.coordinated.status.phase == "running"
        and all(driver.state == "Running" for driver in status.drivers) and not status.failures.count
        and not observed.refusals and plan is not None and plan.code == run.code
        and plan.spec.deadline is None and plan.spec.savepoints is None
    )  # fmt: skip


def desired_of(observed: Observed, status: JobResourceStatus) -> Desired:
    """The spec that should run, by as many workers as the written status says: the newest that can, or the last
    stable one after a failed upgrade."""
    return sized(_newest_that_can(observed, status), status.workers.desired)


def _newest_that_can(observed: Observed, status: JobResourceStatus) -> Desired:
    spec = dict(observed.job.get("spec") or {})
    if is_rolled_back(observed, status) and status.last_stable is not None:
        stable = status.last_stable
        # The newest application is still read: another one ends the rollback (`is_rolled_back`).
        return dataclasses.replace(
            observed.specs.read(observed.job, dict(stable.spec), observed.site, stable.application),
            waits_for="" if observed.app_digest else needs_config_map(spec),
        )
    name = needs_config_map(spec)
    if name and not observed.app_digest:
        return Desired(None, "", spec, refusal=observed.app_problem, waits_for=name)
    return observed.specs.read(observed.job, spec, observed.site, observed.app_digest)


def is_rolled_back(observed: Observed, status: JobResourceStatus) -> bool:
    """Whether the newest spec and application are those that failed."""
    # Not read yet is not another one: a new leader must not try a second time what has failed.
    same = (
        not observed.app_digest
        or not status.rolled_back_application
        or observed.app_digest == status.rolled_back_application
    )
    return status.rolled_back == observed.generation > 0 and same


def transition(observed: Observed, before: JobResourceStatus) -> tuple[JobResourceStatus, Desired]:
    """The next status, and the spec that it was made for.

    In this order: forget a rollback that a newer spec overtakes; move the run; note how drivers ended, and
    replace them; bring figures and conditions up to date.
    """
    status = before
    if status.rolled_back and not is_rolled_back(observed, status):
        status = replace(status, rolled_back=0, rolled_back_application="")
    desired = desired_of(observed, status)
    status = with_next_stage(observed, status, desired)
    desired = desired_of(observed, status)  # a rollback changes it
    if desired.plan is not None:
        status = drivers.with_refusals(observed, status, desired.plan)
        status = drivers.with_endings(observed, status, desired.plan)
        status = _with_drivers(observed, status, desired)
        status = with_savepoint_due(
            observed, with_old_failures_forgotten(status, desired.plan.spec, observed.now), desired.plan
        )
    status = with_figures(observed, before, status, desired)
    return with_conditions(
        observed, before, replace(status, observed_generation=observed.generation), desired
    ), desired


def _with_drivers(observed: Observed, status: JobResourceStatus, desired: Desired) -> JobResourceStatus:
    """Go a step towards the drivers of the code that runs, and of the one that is to take over."""
    takes_over = status.run.stage == "TakingOver" and may_begin(status, desired.plan)
    if status.run.stage not in ("Starting", "Running") and not takes_over:
        return status
    status = drivers.with_codes(observed, status)
    for plan in (running_of(observed, status, desired).plan, desired.plan):
        if plan is not None and plan.code in (status.run.code, status.run.next):
            status = drivers.with_drivers(observed, status, plan)
    return status


def is_transition(before: JobResourceStatus, after: JobResourceStatus) -> bool:
    """Whether more has changed than figures."""
    return _decided(before) != _decided(after)


def _decided(status: JobResourceStatus) -> JobResourceStatus:
    conditions = [
        replace(each, message="", observed_generation=0) if each.status != "Unknown" else each
        for each in status.conditions
    ]
    return replace(
        status,
        epoch=None,
        items=replace(status.items, input=0, output=0),
        snapshot=None,
        latency=None,
        event_times={},
        late={},
        conditions=conditions,
        message="",
    )
