"""The logs of a job's processes on this machine, merged in time.

Keeps: what is read at once is bounded, whatever a process prints. Does not: say what a line means (marks.py).
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from flamestream.model.decoding import DecodeError, from_json

MOST_SHOWN: Final = 1 << 20
"""Bytes of each log that are merged: its end."""
MOST_LINES: Final = 1000
_PLAIN: Final = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d),(\d{3}) ([A-Z]+) (.*)")
"""A line of the launcher's log, whose times are local."""
LEVELS: Final = ("debug", "info", "warning", "error", "critical")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The lines that are asked for."""

    process: str = ""
    """The beginning of a log's name, or a worker; "": all."""
    level: str = "info"
    """The least one."""
    text: str = ""
    """Somewhere in the line, whatever the case."""
    attempt: int | None = None
    since: str = ""
    """Moments as logs have them, both included; "": no bound."""
    until: str = ""
    limit: int = 200


def merged(folder: Path, wanted: Wanted) -> list[dict[str, Any]]:
    """The newest lines of all logs of a folder, in the order of their moments."""
    return newest(
        (line for path in sorted(folder.glob("*.log")) for line in sifted(path.stem, _end_of(path), wanted)),
        wanted,
    )


def newest(found: Iterable[dict[str, Any]], wanted: Wanted) -> list[dict[str, Any]]:
    """As many lines as are wanted, in the order of their moments."""
    lines = sorted(found, key=lambda line: str(line["at"]))
    return lines[-min(wanted.limit, MOST_LINES) :]


def sifted(process: str, texts: Iterable[str], wanted: Wanted) -> Iterator[dict[str, Any]]:
    """The lines of a process's log that are wanted, with its name."""
    allowed = LEVELS[LEVELS.index(wanted.level) :]
    checks: list[Callable[[dict[str, Any]], bool]] = [
        lambda line: line["level"] in allowed,
        lambda line: not wanted.since or line["at"] >= wanted.since,
        lambda line: not wanted.until or line["at"] <= wanted.until,
        lambda line: wanted.attempt is None or line.get("attempt") == wanted.attempt,
        lambda line: (
            not wanted.process
            or line["process"].startswith(wanted.process)
            or line.get("worker") == wanted.process
        ),
        lambda line: not wanted.text or wanted.text.lower() in str(line).lower(),
    ]
    for line in _parsed(texts):
        line["process"] = process
        if all(check(line) for check in checks):
            yield line


def _end_of(path: Path) -> list[str]:
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(max(0, size - MOST_SHOWN))
            lines = stream.read(MOST_SHOWN).decode(errors="replace").splitlines()
    except FileNotFoundError:  # a log of a life that has made room
        return []
    return lines[1:] if size > MOST_SHOWN else lines


def _parsed(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """A line in JSON as it is; another one gets the moment of the one before it."""
    at = ""
    for text in lines:
        try:
            line = from_json(text)
        except DecodeError:
            line = None
        if not (isinstance(line, dict) and {"at", "level", "event"} <= line.keys()):
            line = _plain(text, at)
        line["at"] = at = str(line["at"])  # whoever prints a line may have put anything there
        yield line


def _plain(text: str, at: str) -> dict[str, Any]:
    if (found := _PLAIN.match(text)) is None:
        return {"at": at, "level": "info", "event": text}
    day, clock, milliseconds, level, rest = found.groups()
    local = datetime.fromisoformat(f"{day} {clock}.{milliseconds}").astimezone()
    moment = local.astimezone(UTC).isoformat(timespec="milliseconds")
    return {"at": moment, "level": level.lower(), "event": rest}
