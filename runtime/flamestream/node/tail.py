"""A file that grows by lines, read on from where it was read to.

Keeps: what is read at once is bounded, whatever is written. Does not: say what a line means.
"""

import os
from pathlib import Path
from typing import Final

MOST_NEW: Final = 16 << 20
"""Bytes of a file that are looked through at once; of a longer one its end."""


class Tail:
    """Whole lines of one file, each given once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._file: int | None = None

    def new(self) -> list[bytes]:
        """The lines since the last call. A file that has begun anew is read from its beginning."""
        try:
            with self._path.open("rb") as stream:
                found = os.fstat(stream.fileno())
                if found.st_ino != self._file or found.st_size < self._at:
                    self._file, self._at = found.st_ino, max(0, found.st_size - MOST_NEW)
                stream.seek(self._at)
                data = stream.read(MOST_NEW)
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        return whole.splitlines()
