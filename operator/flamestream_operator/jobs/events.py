"""Events: one for each transition that a person would want to find again in `kubectl describe`.

Keeps: none that is not a transition, so a quiet job has none. Does not: send them.
"""

from collections.abc import Iterator

from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.jobs.actions import Tell


def events_between(before: JobResourceStatus, after: JobResourceStatus) -> list[Tell]:
    """The Events that tell what has changed from `before` to `after`."""
    return [*_phase(before, after), *_launches(before, after), *_problems(before, after)]


def _phase(before: JobResourceStatus, after: JobResourceStatus) -> Iterator[Tell]:
    if after.phase != before.phase:
        kind = "Warning" if after.phase in ("Failed", "BackingOff", "Recovering") else "Normal"
        yield Tell(kind, after.phase, after.message or f"{before.phase} -> {after.phase}")
    if after.recovery is not None and after.recovery != before.recovery:
        cost = (
            f"{after.recovery.duration_ms:.0f} ms, attempt {after.attempt}, from cut "
            f"{after.recovery.replayed_from}"
        )
        yield Tell("Normal", "Recovered", f"{after.recovery.cause}: {cost}")


def _launches(before: JobResourceStatus, after: JobResourceStatus) -> Iterator[Tell]:
    known = {driver.name for driver in before.drivers}
    for driver in after.drivers:
        if driver.name not in known:
            yield Tell(
                "Normal",
                "DriverLaunched",
                f"application {driver.application}: pod {driver.name}, {driver.tasks} workers",
            )


def _problems(before: JobResourceStatus, after: JobResourceStatus) -> Iterator[Tell]:
    if after.failures.count > before.failures.count:
        yield Tell("Warning", after.failures.reason or "Failure", after.failures.last)
    if after.rolled_back and after.rolled_back != before.rolled_back:
        yield Tell(
            "Warning", "RolledBack", f"generation {after.rolled_back} did not start: {after.failures.last}"
        )
    reasons = {condition.type: condition.reason for condition in before.conditions}
    for condition in after.conditions:
        if (
            condition.type == "Degraded"
            and condition.status == "True"
            and reasons.get("Degraded") != condition.reason
        ):
            yield Tell("Warning", condition.reason, condition.message)
