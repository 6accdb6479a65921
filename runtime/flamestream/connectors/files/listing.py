"""Folders of a files source: their files' names, in the order that is the same on every machine, and their
bytes.

A file's name is its path relative to the folder, parts separated by '/'; names are ordered by their bytes.
Only regular files count. A link to one counts as one, under the link's name, if it stays in the folder or
`followLinks` allows that it leaves it; a link to a folder is not entered, so there are no rounds. Whoever may
write into a watched folder can thus not have other files read out.

Keeps: a link is resolved once, when it is listed, and what is opened then is no link (places.py). Does not:
know what is in a file (formats.py).
"""

import io
import logging
import os
import stat
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from flamestream.connectors.files.glob import Glob
from flamestream.connectors.files.places import CheckedFile, Found, open_plain, version_of
from flamestream.model.errors import UserError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """A path of the manifest to look below, and what goes in front of the names found there."""

    path: str
    prefix: str


def places(path: str | None, paths: list[str]) -> list[Place]:
    """Names below a lone `path` are relative to it; with several `paths` each name begins with its path as it
    is written."""
    if path is not None:
        return [Place(path, "")]
    return [Place(each, each.rstrip("/")) for each in paths]


class LocalFiles:
    """`Files` on this machine."""

    whole = False

    def __init__(self, looked_at: list[Place], pattern: str, *, follow_links: bool = False) -> None:
        self.where = ", ".join(place.path for place in looked_at)
        self._places = looked_at
        self._pattern = Glob(pattern)
        self._follow_links = follow_links
        self._told = False

    def listing(self, settled_only: bool, known: Container[str] = ()) -> list[Found]:
        """A file that is named itself need not match the pattern. One that is known costs no call of the system."""
        found: dict[str, Found] = {}
        for place in self._places:
            root = os.path.realpath(place.path)
            for one in _paths(place, known):
                if one.path == place.path:  # a file that the manifest names
                    _add(found, one.name, root)
                    continue
                wanted = self._pattern.matches(one.relative) and not (
                    settled_only and unsettled(one.relative)
                )
                if wanted and (path := self._resolved(one, root)) is not None:
                    _add(found, one.name, path)
        return [found[name] for name in sorted(found, key=lambda name: name.encode())]

    def _resolved(self, one: "_Entry", root: str) -> str | None:
        """The path that is opened; None for a link that leaves the folder, which is told once."""
        if not one.link:
            return one.path
        real = os.path.realpath(one.path)
        if self._follow_links or real.startswith(root.rstrip("/") + "/"):
            return real
        if not self._told:
            self._told = True
            log.warning(
                f"{one.path} is a link that leaves its folder: it is skipped, and so is every other one; "
                "followLinks: true reads them"
            )
        return None

    def expect(self, files: Sequence[Found]) -> None:
        """Nothing is done: the system reads ahead."""

    def open(self, file: Found, position: int = 0, *, growing: bool = False) -> IO[bytes]:
        stream: IO[bytes] = open_plain(file) if growing else io.BufferedReader(CheckedFile(file))
        stream.seek(position)
        return stream

    def open_seekable(self, file: Found) -> IO[bytes]:
        return self.open(file)


def unsettled(relative: str) -> bool:
    base = relative.rpartition("/")[2]
    return base.startswith(".") or base.endswith(".tmp")


@dataclass(frozen=True, slots=True)
class _Entry:
    """Anything that is found and is no folder."""

    name: str
    relative: str
    path: str
    link: bool


def _paths(place: Place, known: Container[str]) -> Iterator[_Entry]:
    """The files and links that are there and not known. A folder that vanishes meanwhile is left out; one that can't be
    read is an error."""
    try:
        mode = os.stat(place.path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"{place.path}: there is no such file or folder on this machine; create it, or correct `path`"
        ) from None
    if not stat.S_ISDIR(mode):
        base = os.path.basename(place.path)
        if (name := place.prefix or base) not in known:
            yield _Entry(name, base, place.path, link=False)
        return
    yield from _below(place, known)


def _below(place: Place, known: Container[str]) -> Iterator[_Entry]:
    front = f"{place.prefix}/" if place.prefix else ""
    todo = [(place.path, "")]
    while todo:
        folder, prefix = todo.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        todo.append((entry.path, f"{prefix}{entry.name}/"))
                    elif (name := f"{front}{prefix}{entry.name}") not in known:
                        yield _Entry(name, prefix + entry.name, entry.path, entry.is_symlink())
        except FileNotFoundError:
            if not prefix:
                raise


def _add(found: dict[str, Found], raw_name: str, path: str) -> None:
    try:
        state = os.stat(path)
    except OSError:  # a dangling link, a link that goes round, or gone meanwhile: not a regular file
        return
    if stat.S_ISREG(state.st_mode):
        # A name that is not UTF-8 has lone surrogates here, which no payload can hold.
        name = os.fsencode(raw_name).decode("utf-8", "backslashreplace")
        if (
            found.setdefault(name, Found(name, path, state.st_size, version_of(state), state.st_ino)).path
            != path
        ):
            raise UserError(
                f"two files have the name {name!r}: {path} and {found[name].path}; "
                "give `paths` that do not overlap"
            )
