"""Folders of a files source: their files' names, in the order that is the same on every machine, and their bytes.

A file's name is its path relative to the folder, parts separated by '/'; names are ordered by their bytes. Only regular files count
(a link to one counts as one; a link to a folder is not entered, so there are no rounds).

>>> bool(matcher("**/*.py").fullmatch("a/b/c.py")), bool(matcher("*.py").fullmatch("a/c.py"))
(True, False)

Does not: know what is in a file (formats.py).
"""

import io
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Final

from flamestream.adapters.sources.files import CheckedFile, Found, version_of
from flamestream.model.errors import UserError

_GLOB: Final = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^\]/]+\]|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look: one path of the manifest, and what goes in front of the names found below it."""

    path: str
    prefix: str


def places(path: str | None, paths: list[str]) -> list[Place]:
    """Names below a lone `path` are relative to it; with several `paths` each name begins with its path as it is written."""
    if path is not None:
        return [Place(path, "")]
    return [Place(each, each.rstrip("/")) for each in paths]


class LocalFiles:
    """`Files` on this machine."""

    whole = False

    def __init__(self, looked_at: list[Place], pattern: str) -> None:
        self.where = ", ".join(place.path for place in looked_at)
        self._places = looked_at
        self._pattern = matcher(pattern)

    def listing(self, settled_only: bool) -> list[Found]:
        return listing(self._places, self._pattern, settled_only)

    def expect(self, files: Sequence[Found]) -> None:
        """The system reads ahead."""

    def open(self, file: Found, position: int = 0, *, growing: bool = False) -> IO[bytes]:
        stream: IO[bytes] = open(file.path, "rb") if growing else io.BufferedReader(CheckedFile(file))  # noqa: SIM115  # the caller closes
        stream.seek(position)
        return stream

    def open_seekable(self, file: Found) -> IO[bytes]:
        return self.open(file)


def listing(looked_at: list[Place], pattern: re.Pattern[str], settled_only: bool) -> list[Found]:
    """All files, ordered by the bytes of their names. A file that is named itself need not match the pattern.

    `settled_only` leaves out names that begin with '.' or end with '.tmp'.
    """
    found: dict[str, Found] = {}
    for place in looked_at:
        for relative, path in _paths(place):
            if path == place.path:  # a file that the manifest names
                _add(found, place.prefix or relative, path)
            elif pattern.fullmatch(relative) and not (settled_only and unsettled(relative)):
                _add(found, f"{place.prefix}/{relative}" if place.prefix else relative, path)
    return [found[name] for name in sorted(found, key=lambda name: name.encode())]


def matcher(pattern: str) -> re.Pattern[str]:
    """A glob over whole relative paths: `**/` is any number of folders, `*` and `?` stay within one part."""
    return re.compile("".join(map(_translated, _GLOB.findall(pattern))), re.DOTALL)


def unsettled(relative: str) -> bool:
    base = relative.rpartition("/")[2]
    return base.startswith(".") or base.endswith(".tmp")


def _translated(token: str) -> str:
    wild = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if token in wild:
        return wild[token]
    if token.startswith("[") and len(token) > 2:
        return "[" + ("^" if token[1] == "!" else "") + token[2 if token[1] == "!" else 1 : -1].replace("\\", "\\\\") + "]"
    return re.escape(token)


def _paths(place: Place) -> Iterator[tuple[str, str]]:
    """(relative name, path) of what is there. A folder that vanishes meanwhile is left out; one that can't be read is an error."""
    try:
        mode = os.stat(place.path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{place.path}: there is no such file or folder on this machine; create it, or correct `path`") from None
    if not stat.S_ISDIR(mode):
        yield os.path.basename(place.path), place.path
        return
    yield from _below(place.path, "")


def _below(folder: str, prefix: str) -> Iterator[tuple[str, str]]:
    todo = [(folder, prefix)]
    while todo:
        folder, prefix = todo.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        todo.append((entry.path, f"{prefix}{entry.name}/"))
                    else:
                        yield prefix + entry.name, entry.path
        except FileNotFoundError:
            if not prefix:
                raise


def _add(found: dict[str, Found], raw_name: str, path: str) -> None:
    try:
        state = os.stat(path)
    except OSError:  # a dangling link, a link that goes round, or gone meanwhile: not a regular file
        return
    if stat.S_ISREG(state.st_mode):
        name = os.fsencode(raw_name).decode("utf-8", "backslashreplace")
        if found.setdefault(name, Found(name, path, state.st_size, version_of(state), state.st_ino)).path != path:
            raise UserError(f"two files have the name {name!r}: {path} and {found[name].path}; give `paths` that do not overlap")
