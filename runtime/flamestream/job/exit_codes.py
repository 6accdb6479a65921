"""What the command line's exit codes mean. Listed in docs/reference/cli.md."""

import enum

from flamestream.model import errors


class ExitCode(enum.IntEnum):
    """The same for every command."""

    OK = 0
    JOB_FAILED = 1
    """The job stopped for a reason of its own: a user function, its data."""
    USAGE = 2
    """The command line or the manifest is wrong."""
    DIFFERENCE = 3
    """An audit, a simulation or a verification found a difference."""
    ALREADY_RUNNING = 4
    """Another instance of the job is running."""
    UNAVAILABLE = 5
    """The store, the cluster state or the job does not answer: the same command may succeed later."""
    CORRUPT = 6
    """A durable part is missing, damaged or foreign."""
    UNPROVEN = 7
    """A drill proved nothing: no input, no fault, no audit. Its reason says what to change."""
    BUG = 70
    """An error of FlameStream itself: please report it."""


class AlreadyRunning(errors.UserError):
    """Another instance of the job is running; the message names it."""


def code_of(error: errors.FlameStreamError) -> ExitCode:
    """The exit code that tells an error's category."""
    if isinstance(error, AlreadyRunning | errors.Fenced):
        return ExitCode.ALREADY_RUNNING
    if isinstance(error, errors.ManifestError | errors.GraphError):
        return ExitCode.USAGE
    by_category = {"user": ExitCode.JOB_FAILED, "retryable": ExitCode.UNAVAILABLE, "corrupt": ExitCode.CORRUPT}
    return by_category.get(error.category, ExitCode.BUG)
