"""Places with files: what is there, and its bytes. A folder here, S3 in files/s3.py; formats and readers know
neither.

Keeps: bytes that are read from a `Found` are those of the version that was listed; a file that changes or
goes meanwhile is an error that names it, before a record that was cut in two is given. (`growing=True` is for
logs: what lies behind the listed end may be read.) Does not: know what is in a file (formats.py), or when to
look (listed.py, followed.py, arriving.py).
"""

import errno
import gzip
import io
import os
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Final, Protocol

from flamestream.model.errors import Corrupt

SKIPPED_AT_ONCE: Final = 1 << 20
CHANGED: Final = (
    "Restore it; a file must not change once it is there (`follow: "
    "true` reads what a folder's lines files grow by)"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A file as a listing saw it."""

    name: str
    path: str
    """The path that messages name and that is opened."""
    size: int
    version: str
    """Differs if the content was changed."""
    inode: int = 0


class Files(Protocol):
    """A place with files, or several of a kind."""

    where: str
    """The place as messages name it."""
    whole: bool
    """A file appears whole and never grows."""

    def listing(self, settled_only: bool, known: Container[str] = ()) -> list[Found]:
        """The files in their order, without those of `known` names. `settled_only` leaves out names that begin
        with '.' or end with '.tmp'."""

    def expect(self, files: Sequence[Found]) -> None:
        """Announce files that will be opened in this order, so that what is far away may be fetched ahead."""

    def open(self, file: Found, position: int = 0, *, growing: bool = False) -> IO[bytes]:
        """The file's bytes from `position` on. Raises FileNotFoundError, PermissionError, or Corrupt if it is
        not what was listed."""

    def open_seekable(self, file: Found) -> IO[bytes]:
        """The file's bytes for reading here and there. Raises as `open`."""


def is_gzip(file: Found) -> bool:
    return file.name.endswith(".gz")


@contextmanager
def opened(files: Files, file: Found, position: int = 0, *, growing: bool = False) -> Iterator[IO[bytes]]:
    """A file's content from byte `position` on: unpacked if its name ends with .gz, and then the position is
    one of the unpacked bytes."""
    if not is_gzip(file):
        with files.open(file, position, growing=growing) as plain:
            yield plain
        return
    with files.open(file) as packed, gzip.GzipFile(fileobj=packed) as unpacked:
        left = position
        while left > 0 and (skipped := unpacked.read(min(left, SKIPPED_AT_ONCE))):
            left -= len(skipped)
        yield unpacked  # type: ignore[misc]  # a GzipFile is an IO[bytes] in all but name


class CheckedFile(io.FileIO):
    """A local file that is found to be what was listed when it is opened and at its end."""

    def __init__(self, file: Found) -> None:
        with _no_link(file):
            super().__init__(file.path, opener=_opener)
        self._file = file
        try:
            self.check()
        except Corrupt:
            self.close()
            raise

    def readinto(self, buffer: "bytearray | memoryview") -> int | None:  # type: ignore[override]  # any writable buffer
        count = super().readinto(buffer)
        if not count:
            self.check()
        return count

    def check(self) -> None:
        """Raises Corrupt if it is gone or another."""
        file = self._file
        try:
            # By its path and not by its descriptor, which stays the old file's when another is renamed over
            # it.
            now = version_of(os.stat(file.path))
        except FileNotFoundError:
            raise Corrupt(
                f"{file.path}: it is gone since it was listed, so its records are lost. {CHANGED}"
            ) from None
        if now != file.version:
            raise Corrupt(
                f"{file.path}: it has changed since it was listed (size {file.size}, "
                f"now {now.split()[0]}). {CHANGED}"
            )


def open_plain(file: Found) -> IO[bytes]:
    """A local file that may have grown since it was listed. Raises Corrupt if it is a link now."""
    with _no_link(file):
        return open(file.path, "rb", opener=_opener)


def _opener(path: str, flags: int) -> int:
    # A file when it was listed, it may be a link by now to something that only this process may read.
    return os.open(path, flags | os.O_NOFOLLOW)


@contextmanager
def _no_link(file: Found) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise Corrupt(
            f"{file.path}: it is a link now, and was a file when it was listed. {CHANGED}"
        ) from None


def version_of(state: os.stat_result) -> str:
    """The version of a local file: its size and modification time."""
    return f"{state.st_size} {state.st_mtime_ns}"
