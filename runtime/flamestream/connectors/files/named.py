"""Files in the order of a list: a text file below the place, a name a line, relative to the place; blank
lines and lines with # are none.

The list may grow at its end while it is followed; it has to be replaced as a whole (renamed into place, or
put).

Keeps: the order is the list's. Does not: read names that the place does not have (an error that says which).
"""

from collections.abc import Container, Sequence
from typing import IO, Final

from flamestream.connectors.files.places import Files, Found
from flamestream.model.errors import UserError

MAX_LIST: Final = 64 << 20


class NamedFiles:
    """`Files` that a list names."""

    def __init__(self, files: Files, manifest: str) -> None:
        self._files = files
        self._manifest = manifest
        self.where = f"{files.where}, as listed in {manifest}"
        self.whole = files.whole

    def listing(self, settled_only: bool, known: Container[str] = ()) -> list[Found]:
        there = {file.name: file for file in self._files.listing(settled_only=False)}
        if self._manifest not in there:
            raise UserError(
                f"{self._files.where}: the list {self._manifest!r} is not there; create it, "
                "or correct `manifest`"
            )
        with self._files.open(there[self._manifest]) as stream:
            names = self._names(stream)
        if missing := [name for name in names if name not in there]:
            raise UserError(
                f"{self._manifest} of {self._files.where} lists {missing[0]!r}, which is not there (missing: "
                f"{len(missing)})"
            )
        return [there[name] for name in names if name not in known]

    def expect(self, files: Sequence[Found]) -> None:
        self._files.expect(files)

    def open(self, file: Found, position: int = 0, *, growing: bool = False) -> IO[bytes]:
        return self._files.open(file, position, growing=growing)

    def open_seekable(self, file: Found) -> IO[bytes]:
        return self._files.open_seekable(file)

    def _names(self, stream: IO[bytes]) -> list[str]:
        data = stream.read(MAX_LIST + 1)
        if len(data) > MAX_LIST:
            raise UserError(
                f"{self._manifest} of {self._files.where} has more than {MAX_LIST} bytes; split it into "
                "several sources"
            )
        try:
            lines = [line.strip() for line in data.decode().splitlines()]
        except UnicodeDecodeError as error:
            raise UserError(
                f"{self._manifest} of {self._files.where} is not UTF-8 at byte {error.start}"
            ) from error
        names = [line for line in lines if line and not line.startswith("#")]
        if len(set(names)) < len(names):
            raise UserError(f"{self._manifest} of {self._files.where} lists a name twice")
        return names
