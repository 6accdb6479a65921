"""The beginning and end of every process of ours: its log, its parent, who may read its files.

Does not: run anything, or say its exit code (job/exit_codes.py).
"""

import logging
import os
import resource
import sys
import traceback
from pathlib import Path
from typing import Any, Final, TypeVar, overload

import msgspec

from flamestream.machine.logs import begin_logging
from flamestream.machine.parent_death import die_with_parent
from flamestream.model.decoding import from_json
from flamestream.model.errors import ManifestError
from flamestream.model.quoted import quoted

C = TypeVar("C", bound=msgspec.Struct)
INTERPRETER: Final = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
"""Environment of each process that runs users' functions, so that they give the same in all of them and at every
replay."""

log = logging.getLogger(__name__)


def keep_private() -> None:
    """Files made from now on are for this process's owner alone, and none is a dump of its memory: both hold
    users' data, and tokens."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def begin(parent: int, **who: object) -> None:
    """End with `parent` (0: don't), log to stderr as `who`, and keep what is written private."""
    keep_private()
    if parent:
        die_with_parent(parent)
    begin_logging(**who)


@overload
def read_config(kind: type[C], file: str) -> C: ...
@overload
def read_config(kind: object, file: str) -> Any: ...
def read_config(kind: Any, file: str) -> Any:
    """The process's configuration. Raises ManifestError that names file and field."""
    try:
        return from_json(Path(file).read_bytes(), kind)
    except OSError as error:
        raise ManifestError(f"{file}: cannot read the configuration: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ManifestError(f"{file}: {error}") from error


def read_secret(file: Path, what: str) -> str:
    """The text of a mounted file, without white space around it. Raises ManifestError, which says `what` it
    is."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ManifestError(f"{file}: cannot read {what}: {error.strerror}") from error
    except UnicodeDecodeError:
        # without the error as its cause: that has the file's bytes
        raise ManifestError(f"{file}: cannot read {what}: it is no text in utf-8") from None


def last_lines(error: BaseException, count: int = 6) -> str:
    """The last lines of a traceback, enough to find the place."""
    return " | ".join(
        line.strip() for line in "".join(traceback.format_exception(error)).strip().splitlines()[-count:]
    )


def place_of(error: BaseException) -> str:
    """An error's type and where it was raised, without its words, which may have users' data."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {frame.name} ({Path(frame.filename).name}:{frame.lineno})"


def described(error: BaseException) -> str:
    """Where an error was raised, and the last lines of its traceback, marked: they may have users' data."""
    return f"{place_of(error)}: {quoted(last_lines(error))}"


def uncaught(kind: type[BaseException], error: BaseException, _: object) -> None:
    """Log an uncaught error with its whole traceback: the hook of sys.excepthook."""
    log.critical("uncaught exception", exc_info=(kind, error, error.__traceback__))
    sys.stderr.flush()
