"""Whose output stands in a sink's folder, and which files there are the sink's: known without opening it, which would claim it.

Keeps: nothing is changed but by `remove`, and that removes only what a sink of ours has made, of the job that is named.
Does not: ask servers; what was delivered to one is its own.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flamestream.connectors.rolling.opening import OWNER, owner
from flamestream.fenced.fences import FencedFolder
from flamestream.model.errors import Corrupt, Retryable
from flamestream.ports import ObjectStore
from flamestream.store.places import store_from

FOLDERS = ("files", "events")
"""Kinds whose place is a folder with logs."""


@dataclass(frozen=True, slots=True)
class Owned:
    """A place that holds the output of `sink` of `job`."""

    place: str
    job: str
    sink: str


def owned(spec: dict[str, Any]) -> Owned | None:
    """Whose a sink's place is; None if it is nobody's yet, or a server's. Raises Corrupt if that cannot be read."""
    ((kind, settings),) = spec.items()
    if kind in FOLDERS:
        folder = FencedFolder(Path(settings["path"]))
        if not (folder.root / "sink.msgpack").exists():
            return None
        found = folder.owner()
        return Owned(settings["path"], found.job, found.sink)
    if kind == "rolling":
        with suppress(Retryable, Corrupt):  # there is no such place yet
            there = owner(_rolling(settings))
            return Owned(settings["path"], there.job, there.sink)
    return None


def remove(spec: dict[str, Any]) -> None:
    """What the sink has made in its place; other files there stay, and so does a folder that has some."""
    ((kind, settings),) = spec.items()
    if kind in FOLDERS:
        remove_files(Path(settings["path"]), ("attempt-*.log", "fences/*", "sink.msgpack"))
    elif kind == "rolling":
        store = _rolling(settings)
        names = [name for name in store.names("") if name.startswith(("part-", "_flamestream/"))]
        store.delete(*[name for name in names if name != OWNER])
        store.delete(OWNER)  # last: what was interrupted can be begun again
        if "://" not in settings["path"]:
            remove_files(Path(settings["path"]), ())


def remove_files(folder: Path, patterns: Iterable[str]) -> None:
    """The files that match, in this order, then every folder that is empty."""
    for file in (file for pattern in patterns for file in sorted(folder.glob(pattern)) if not file.is_dir()):
        file.unlink(missing_ok=True)
    for inner in [*_folders(folder), folder]:
        with suppress(OSError):  # somebody else's files are in it
            inner.rmdir()


def _folders(folder: Path) -> Iterator[Path]:
    """Below `folder`, the innermost first."""
    yield from sorted((path for path in folder.rglob("*") if path.is_dir()), key=lambda path: len(path.parts), reverse=True)


def _rolling(settings: dict[str, Any]) -> ObjectStore:
    return store_from(settings["path"])
