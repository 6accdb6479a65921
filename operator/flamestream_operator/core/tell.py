"""Events: one for each transition that a person would want to find again in `kubectl describe`.

Keeps: none that is not a transition, so a quiet job has none. Does not: send them.
"""

from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.core.actions import Tell


def told(before: JobResourceStatus, after: JobResourceStatus) -> list[Tell]:
    """What has happened between the two."""
    events = []
    if after.phase != before.phase:
        kind = "Warning" if after.phase in ("Failed", "BackingOff", "Recovering") else "Normal"
        events.append(Tell(kind, after.phase, after.message or f"{before.phase} -> {after.phase}"))
    for driver in after.drivers:
        if driver.name not in {each.name for each in before.drivers}:
            events.append(
                Tell("Normal", "DriverLaunched", f"application {driver.application}: driver pod {driver.name}, {driver.tasks} workers")
            )
    if after.failures.count > before.failures.count:
        events.append(Tell("Warning", after.failures.reason or "Failure", after.failures.last))
    if after.recovery is not None and after.recovery != before.recovery:
        recovery = after.recovery
        events.append(
            Tell(
                "Normal",
                "Recovered",
                f"{recovery.cause}: {recovery.duration_ms:.0f} ms, attempt {after.attempt}, from cut {recovery.replayed_from}",
            )
        )
    if after.rolled_back and after.rolled_back != before.rolled_back:
        events.append(Tell("Warning", "RolledBack", f"generation {after.rolled_back} did not start: {after.failures.last}"))
    now = {each.type: each for each in after.conditions}
    for condition in before.conditions:
        new = now.get(condition.type)
        if new is not None and condition.type == "Degraded" and new.status == "True" and new.reason != condition.reason:
            events.append(Tell("Warning", new.reason, new.message))
    return events
