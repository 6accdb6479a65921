"""The report of a drill and its exit code, the same for `flamestream drill` and `kubectl flamestream drill`.

Does not: decide the verdict (job/drills/drill.py).
"""

from collections.abc import Mapping
from typing import Final

from flamestream.job.drills.status import DrillStatus, FaultResult, Reason
from flamestream.job.exit_codes import ExitCode

CODES: Final[Mapping[Reason, ExitCode]] = {
    "Clean": ExitCode.OK,
    "NotClean": ExitCode.DIFFERENCE,
    "OutputStopped": ExitCode.DIFFERENCE,
    "NotWhole": ExitCode.DIFFERENCE,
    "NotSaved": ExitCode.DIFFERENCE,
    "JobFailed": ExitCode.DIFFERENCE,
    "JobNotFound": ExitCode.USAGE,
    "JobDeleted": ExitCode.UNAVAILABLE,
    "NotRunning": ExitCode.UNAVAILABLE,
    "AuditTimedOut": ExitCode.UNAVAILABLE,
    "Expired": ExitCode.UNAVAILABLE,
    "DrillsOff": ExitCode.UNAVAILABLE,
    "DrillDeleted": ExitCode.UNAVAILABLE,
    "Stalled": ExitCode.UNAVAILABLE,
    "Completed": ExitCode.UNPROVEN,
    "FewerFaults": ExitCode.UNPROVEN,
    "Idle": ExitCode.UNPROVEN,
    "Refused": ExitCode.UNPROVEN,
    "NotStruck": ExitCode.UNPROVEN,
    "NotAudited": ExitCode.UNPROVEN,
    "Unreadable": ExitCode.UNPROVEN,
}


def code_of_drill(status: DrillStatus) -> ExitCode:
    """0 of nothing but a pass."""
    assert (status.phase == "Passed") == (status.reason == "Clean"), f"{status.phase} for {status.reason}"
    return CODES[status.reason]


def fault_told(fault: FaultResult) -> str:
    """A fault in a line."""
    if fault.then == "ended":
        return f"struck {fault.victim} (seen {fault.seen}); then the input ended"
    gap = "output gap unknown" if fault.output_gap_ms is None else f"output gap {fault.output_gap_ms:.0f} ms"
    if fault.output_gap_ms is not None and fault.gap_resolution_ms:
        gap += f" (to {fault.gap_resolution_ms:g} ms)"
    recovery = f" (recovery {fault.recovery_ms:.0f} ms)" if fault.recovery_ms else ""
    return (
        f"struck {fault.victim} (seen {fault.seen}): whole again after {fault.recovered_ms:.0f} "
        f"ms{recovery}, {gap}"
    )


def verdict_told(status: DrillStatus) -> str:
    """The verdict in a line."""
    reason = "" if status.reason == "Clean" else f" ({status.reason})"
    return f"{status.phase}{reason}: {status.message}"
