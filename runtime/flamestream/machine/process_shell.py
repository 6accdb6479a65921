"""What every process of ours does at its beginning and end: its log, its parent, its exit code, who may read its files.

A log line is one JSON object: the event, when, who, and the event's own fields. Exit codes are the command line's (docs/reference/cli.md).

Does not: run anything.
"""

import json
import logging
import os
import resource
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from flamestream.machine.parent_death import die_with_parent
from flamestream.model.decoding import from_json
from flamestream.model.errors import FlameStreamError, ManifestError
from flamestream.model.quoted import plain

C = TypeVar("C", bound=msgspec.Struct)

EXIT_CODES: Final = {"": 0, "user": 1, "fenced": 4, "retryable": 5, "corrupt": 6, "bug": 70}
"""By the category of what ended a process."""
_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}

log = logging.getLogger(__name__)


def keep_private() -> None:
    """Files made from now on are for this process's owner alone, and none is a dump of its memory: both hold users' data, and tokens."""
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def begin(parent: int, **who: object) -> None:
    """End with `parent` (0: don't), log to stderr as `who`, and keep what is written private."""
    keep_private()
    if parent:
        die_with_parent(parent)
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines(who))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def ended_by(error: FlameStreamError) -> int:
    """Log what ended the process; its exit code."""
    log.error(plain(str(error)), extra={"category": error.category})
    return EXIT_CODES[error.category]


def read_config(kind: type[C], file: str) -> C:
    """The process's configuration. Raises ManifestError that names file and field."""
    try:
        return from_json(Path(file).read_bytes(), kind)
    except OSError as error:
        raise ManifestError(f"{file}: cannot read the configuration: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ManifestError(f"{file}: {error}") from error


def last_lines(error: BaseException, count: int = 6) -> str:
    """Enough of a traceback to find the place."""
    return " | ".join(line.strip() for line in "".join(traceback.format_exception(error)).strip().splitlines()[-count:])


def place_of(error: BaseException) -> str:
    """What it is and where it was raised, without its words, which may have users' data."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {frame.name} ({Path(frame.filename).name}:{frame.lineno})"


class _Lines(logging.Formatter):
    """One JSON object a record."""

    def __init__(self, who: dict[str, Any]) -> None:
        super().__init__()
        self._who = who

    def format(self, record: logging.LogRecord) -> str:
        fields = {name: value for name, value in vars(record).items() if name not in _PLAIN}
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"at": when, "level": record.levelname.lower(), "event": record.getMessage(), **self._who, **fields}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def uncaught(kind: type[BaseException], error: BaseException, _: object) -> None:
    """For sys.excepthook: a bug is a log line too, with its whole traceback."""
    log.critical("uncaught exception", exc_info=(kind, error, error.__traceback__))
    sys.stderr.flush()
