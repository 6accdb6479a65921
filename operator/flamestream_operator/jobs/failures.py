"""Failures in a row: how long to wait, when to give up, when they are forgotten.

The first failure after a calm time is repaired at once: what people wait for is the recovery of the driver
that somebody has killed. From the second on the pause doubles.

Keeps: a job that runs for `resetAfter` without failing starts over. Does not: say what a failure is
(drivers.py, lifecycle.py).
"""

from msgspec.structs import replace

from flamestream.job.manifest import Spec
from flamestream.job.moments import CLOCKS_DIFFER, moment, passed, written
from flamestream.model.backoff import Backoff
from flamestream_operator.api.job_status import FailureStatus, JobResourceStatus
from flamestream_operator.jobs.observed import Observed

MAX_TEXT = 1000
MAX_REASON = 128


def with_failure(
    status: JobResourceStatus, spec: Spec, now: float, reason: str, message: str
) -> JobResourceStatus:
    """Count one more failure, and say when the next try is due."""
    before = status.failures
    count = before.count + 1
    # the first one is repaired at once
    pause = Backoff(float(spec.backoff.initial), float(spec.backoff.max)).after(count - 1)
    failures = FailureStatus(
        count=count,
        last=message[:MAX_TEXT],
        reason=reason[:MAX_REASON],
        time=written(now),
        next_try=written(now + pause),
    )
    return replace(status, failures=failures)


def with_refusal(
    observed: Observed, status: JobResourceStatus, reason: str, message: str
) -> JobResourceStatus:
    """The stream goes on with the code that it has: no failure that counts, and nothing to wait for."""
    return left_alone(observed, with_reason(observed, status, reason, message))


def with_reason(
    observed: Observed, status: JobResourceStatus, reason: str, message: str
) -> JobResourceStatus:
    """Say what was wrong, as no failure that counts."""
    failures = replace(
        status.failures, last=message[:MAX_TEXT], reason=reason[:MAX_REASON], time=written(observed.now)
    )
    return replace(status, failures=failures)


def left_alone(observed: Observed, status: JobResourceStatus) -> JobResourceStatus:
    """This generation with this application is not tried again."""
    return replace(status, rolled_back=observed.generation, rolled_back_application=observed.app_digest)


def gives_up(status: JobResourceStatus, spec: Spec) -> bool:
    """Whether there is no other try."""
    if not status.failures.count:
        return False
    limit = spec.backoff.limit
    return spec.restart_policy == "Never" or (limit is not None and status.failures.count > limit)


def with_old_failures_forgotten(status: JobResourceStatus, spec: Spec, now: float) -> JobResourceStatus:
    """Forget the failures of a job that has run for `resetAfter` without one."""
    failures = status.failures
    if (
        not failures.count
        or not passed(now, failures.time, float(spec.backoff.reset_after))
        or status.run.stage != "Running"
    ):
        return status
    return replace(status, failures=FailureStatus())


def may_try(status: JobResourceStatus, now: float) -> bool:
    """Whether the pause is over."""
    failures = status.failures
    # the clock was set back: the pause is of no use
    return now >= moment(failures.next_try) or now < moment(failures.time) - CLOCKS_DIFFER
