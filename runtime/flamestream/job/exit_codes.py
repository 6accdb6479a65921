"""The exit codes of commands and of processes. Listed in docs/reference/cli.md.

Does not: end anything.
"""

import enum
import logging
from typing import Final

from flamestream.model import errors
from flamestream.model.quoted import plain

log = logging.getLogger(__name__)


class ExitCode(enum.IntEnum):
    """An exit code, the same for every command, and for every process by the category of what ended it."""

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
    """A drill proved nothing: no input, no fault, no audit. Its reason says what to change. Or a search over
    a history reached its bound."""
    BUG = 70
    """An error of FlameStream itself: please report it."""


BY_CATEGORY: Final = {
    "": ExitCode.OK, "user": ExitCode.JOB_FAILED, "fenced": ExitCode.ALREADY_RUNNING,
    "retryable": ExitCode.UNAVAILABLE, "corrupt": ExitCode.CORRUPT, "bug": ExitCode.BUG,
}  # fmt: skip
"""The exit code of a process by the category of what ended it."""


class AlreadyRunning(errors.UserError):
    """Another instance of the job is running; the message names it."""


def code_of(error: errors.FlameStreamError) -> ExitCode:
    """The exit code of a command that ends with `error`: its category, or what is told apart within it."""
    if isinstance(error, AlreadyRunning | errors.Fenced):
        return ExitCode.ALREADY_RUNNING
    if isinstance(error, errors.ManifestError | errors.GraphError):
        return ExitCode.USAGE
    return BY_CATEGORY[error.category]


def ended_by(error: errors.FlameStreamError) -> int:
    """Log what ended this process. Its exit code."""
    log.error(plain(str(error)), extra={"category": error.category})
    return BY_CATEGORY[error.category]
