"""Whose output stands in a sink's place, and which files there are the sink's: known without opening it,
which would claim it.

Keeps: only files are removed that a sink of ours has made. Does not: ask servers; what was delivered to one
is its own.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flamestream.fenced.fences import FencedFolder


@dataclass(frozen=True, slots=True)
class Owned:
    """A place that holds the output of `sink` of `job`."""

    place: str
    job: str
    sink: str


def owner_of_logs(path: str) -> Owned | None:
    """Whose fenced logs stand in a folder; None if it has none yet. Raises Corrupt if that cannot be read."""
    folder = FencedFolder(Path(path))
    if not (folder.root / "sink.msgpack").exists():
        return None
    found = folder.owner()
    return Owned(path, found.job, found.sink)


def remove_logs(path: str) -> None:
    """The fenced logs of a folder."""
    # Whose it is goes last: a removal that was interrupted can be begun again.
    remove_files(Path(path), ("attempt-*.log", "fences/*", "sink.msgpack"))


def remove_files(folder: Path, patterns: Iterable[str]) -> None:
    """The files that match, in this order, then every folder that is empty."""
    for file in (file for pattern in patterns for file in sorted(folder.glob(pattern)) if not file.is_dir()):
        file.unlink(missing_ok=True)
    inside = sorted(
        (path for path in folder.rglob("*") if path.is_dir()), key=lambda path: len(path.parts), reverse=True
    )
    for inner in [*inside, folder]:  # the innermost first
        with suppress(OSError):  # somebody else's files are in it
            inner.rmdir()
