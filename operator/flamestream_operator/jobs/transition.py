"""From what is seen to the next status: what is decided, before any of it is done.

The order of steps: forget a rollback that a newer spec overtakes; note how drivers ended; move the run; staff it; fill in figures and
conditions. Only what decides something counts as a transition; figures alone are written at most once in two minutes.

Keeps: pure; the same look gives the same status. Does not: act (effects.py).
"""

from msgspec.structs import replace

from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.jobs import drivers
from flamestream_operator.jobs.describe import described
from flamestream_operator.jobs.desired import Wanted, is_rolled_back, wanted
from flamestream_operator.jobs.failures import calmed
from flamestream_operator.jobs.figures import with_figures
from flamestream_operator.jobs.lifecycle import moved
from flamestream_operator.jobs.observed import Seen
from flamestream_operator.savepoints.scheduled import noted

FIGURES_EVERY = 120.0
"""Seconds between two writes that only bring figures up to date."""


def transition(seen: Seen, before: JobResourceStatus) -> tuple[JobResourceStatus, Wanted]:
    """The next status, and what it was made for."""
    status = before
    if status.rolled_back and not is_rolled_back(seen, status):
        status = replace(status, rolled_back=0, rolled_back_application="")
    want = wanted(seen, status)
    status = moved(seen, status, want)
    want = wanted(seen, status)  # a rollback changes it
    if want.plan is not None:
        status = drivers.refused(seen, status, want.plan)
        status = drivers.followed(seen, status, want.plan)
        if status.run.stage in ("Starting", "Running") and want.plan.code == status.run.code:
            status = drivers.staffed(seen, status, want.plan)
        status = noted(seen, calmed(status, want.plan.spec, seen.now), want.plan)
    status = with_figures(seen, status, want)
    return described(seen, before, replace(status, observed_generation=seen.generation), want), want


def is_transition(before: JobResourceStatus, after: JobResourceStatus) -> bool:
    """Whether more has changed than figures."""
    return _decided(before) != _decided(after)


def _decided(status: JobResourceStatus) -> JobResourceStatus:
    conditions = [replace(each, message="", observed_generation=0) if each.status != "Unknown" else each for each in status.conditions]
    return replace(
        status, epoch=None, items=replace(status.items, input=0, output=0), snapshot=None, latency=None, conditions=conditions, message=""
    )
