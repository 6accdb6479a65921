"""observe -> decide -> actions, for one job.

A transition is written before any of its effects: if the status that was seen is not the one that follows from what is seen, the only
action is to write it, as a compare-and-set. Its effects come with the next look, from the status as the API server has it. So an operator
that dies between any two writes, or works on an old copy, does nothing that is not announced, and its successor sees what was.

Keeps: idempotent; bounded number of actions. Does not: do anything (jobs/reconciler.py).
"""

import msgspec

from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.jobs import actions as do
from flamestream_operator.jobs.clock import moment
from flamestream_operator.jobs.deletion import deleted
from flamestream_operator.jobs.desired import wanted
from flamestream_operator.jobs.effects import effects
from flamestream_operator.jobs.events import told
from flamestream_operator.jobs.observed import Seen
from flamestream_operator.jobs.suspicion import due_in
from flamestream_operator.jobs.transition import FIGURES_EVERY, is_transition, transition
from flamestream_operator.objects.meta import FINALIZER

SOON = 1.0
"""Seconds until the next look while something is under way that nobody reports."""


def status_of(job: dict[str, object]) -> JobResourceStatus:
    """As it was written. One that cannot be read (an older version's, somebody's edit) starts empty: the coordinator's record decides."""
    try:
        return msgspec.convert(job.get("status") or {}, JobResourceStatus)
    except msgspec.ValidationError:
        return JobResourceStatus()


def decide(seen: Seen) -> do.Decision:
    """What to do now."""
    before = status_of(seen.job)
    if seen.deleting:
        after, actions = deleted(seen, before, wanted(seen, before))
        return do.Decision([do.WriteStatus(after)] if is_transition(before, after) else actions, SOON)
    if FINALIZER not in (seen.job["metadata"].get("finalizers") or ()):
        return do.Decision([do.SetFinalizer(True)], SOON)
    after, want = transition(seen, before)
    if is_transition(before, after):
        return do.Decision([do.WriteStatus(after), *told(before, after)], SOON)
    actions = list(effects(seen, before, want))
    if _expired(seen, before):
        return do.Decision([do.DeleteJob()], SOON)
    if after != before and seen.instant - seen.last_write >= FIGURES_EVERY:
        actions.append(do.WriteStatus(after))
    return do.Decision(actions, _look_again(seen, before, actions))


def _expired(seen: Seen, status: JobResourceStatus) -> bool:
    ttl = (seen.job.get("spec") or {}).get("ttlAfterFinished")
    if not ttl or status.run.stage != "Ended" or not status.finished_at:
        return False
    want = wanted(seen, status)
    limit = want.plan.spec.ttl_after_finished if want.plan is not None else None
    return limit is not None and seen.now - moment(status.finished_at) >= float(limit)


def _look_again(seen: Seen, status: JobResourceStatus, actions: list[do.Action]) -> float | None:
    """Events bring us back by themselves; times do not."""
    stage, due = status.run.stage, due_in(seen)
    if stage in ("Starting", "Draining", "Restoring", "Forgetting", "None") or actions or due is not None:
        return SOON if due is None else min(SOON, due + 0.01)
    if any(driver.state != "Running" for driver in status.drivers) or status.failures.count:
        return 5.0
    return 30.0 if stage == "Running" else 60.0
