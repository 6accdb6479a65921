"""A followed files source: new files, and the complete lines that existing ones grow by. Every file is a partition.

A followed folder is looked at again and again; the wait grows with what a look costs, so looking takes at most a twentieth of the
time. What a look finds first is a matter of chance, so the front journals it, and replays read the same records by name and offset.

Records of a followed file never change once given: a document is read once, a log only grows. Its name may not begin with '.' or
end with '.tmp' until a writer has renamed it into place. A file that shrinks, is replaced, or is gone when a replay needs it, fails the
source with the file's name. (A rewritten file of the same length is seen only by the process that had read it.)

Keeps: a record is given once per Follow; memory is a few words a file. Does not: decide when to look (reading.py).
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from flamestream.adapters.sources.contents import Contents
from flamestream.adapters.sources.listing import Found, Place, listing, matcher
from flamestream.adapters.sources.reading import Chunk
from flamestream.core.events import Entry
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Offset, Partition

LEAST_IDLE_SECONDS: Final = 0.05
LOOK_SHARE: Final = 20
RESTORE: Final = "restore the file as it was; the records of a followed file must not change once they are there"


@dataclass(slots=True)
class Mark:
    """How far a file is known: record `offset` begins at byte `position`."""

    offset: int = 0
    position: int = 0
    seen: int = -1
    """Its size when it was last found to have nothing new."""
    inode: int = 0
    """Of the file that was given; 0 if this process has not given any of it."""
    digest: bytes = b""
    """Of the document that was given."""


class FollowedReader:
    """Finds and reads. `_marks` speed up what is read again, and check it."""

    ended = False
    problem = ""

    def __init__(self, looked_at: list[Place], pattern: str, by_line: bool, contents: Contents) -> None:
        self._places = looked_at
        self._pattern = matcher(pattern)
        self._read_more = self._lines if by_line else self._document
        self._read_again = self._lines_again if by_line else self._document_again
        self._by_line = by_line
        self._contents = contents
        self._next: dict[str, int] = {}
        self._marks: dict[str, Mark] = {}
        self._paths: dict[str, str] = {}
        self._fresh: list[Found] = []
        self.idle_seconds = LEAST_IDLE_SECONDS

    def seek(self, offsets: Mapping[Partition, Offset]) -> None:
        self._next = {str(name): int(offset) for name, offset in offsets.items()}
        self._fresh = []
        for mark in self._marks.values():
            mark.seen = -1

    def next(self, records: int, size: int) -> Sequence[Chunk]:
        if not self._fresh:
            self._look()
        chunks: list[Chunk] = []
        while self._fresh and records > 0 and size > 0:
            chunk = self._chunk(records, size, may_raise=not chunks)
            if chunk is None:
                continue
            self._next[chunk.partition] = chunk.first + len(chunk.payloads)
            records -= len(chunk.payloads)
            size -= sum(chunk.sizes)
            chunks.append(chunk)
            if not self._by_line:
                self._fresh.pop()
        return chunks

    def read(self, entry: Entry) -> list[object]:
        if entry.partition not in self._paths:
            self._list()
        path = self._paths.get(entry.partition)
        if path is None:
            raise Corrupt(f"{self._lost(entry)}: the file is gone; {RESTORE}")
        try:
            return self._read_again(entry, path)
        except FileNotFoundError:
            raise Corrupt(f"{self._lost(entry)}: {path} is gone; {RESTORE}") from None

    # --- looking --------------------------------------------------------------------------------------------------------------------

    def _list(self) -> list[Found]:
        found = listing(self._places, self._pattern, settled_only=True)
        self._paths = {file.name: file.path for file in found}
        return found

    def _look(self) -> None:
        """Remember the files that may have something new, the first one last."""
        began = time.monotonic()
        self._fresh = [file for file in self._list() if self._may_have_more(file)][::-1]
        self.idle_seconds = max(LEAST_IDLE_SECONDS, LOOK_SHARE * (time.monotonic() - began))

    def _may_have_more(self, file: Found) -> bool:
        if not self._by_line:
            return not self._next.get(file.name)
        mark = self._marks.get(file.name)
        if mark is None:
            return file.size > 0
        if file.size < mark.position or mark.inode not in (0, file.inode):
            raise Corrupt(f"{file.path}: it has shrunk or was replaced after {mark.offset} lines of it were read; {RESTORE}")
        return file.size not in (mark.position, mark.seen)

    def _chunk(self, records: int, size: int, may_raise: bool) -> Chunk | None:
        """The next records of the first fresh file; None takes it from the list."""
        file = self._fresh[-1]
        try:
            chunk = self._read_more(file, records, size)
        except FileNotFoundError:  # gone before it was given; a replay of what was given before would notice
            chunk = None
        except OSError:
            if may_raise:
                raise
            chunk = None
        if chunk is None:
            self._fresh.pop()
        return chunk

    # --- whole files ----------------------------------------------------------------------------------------------------------------

    def _document(self, file: Found, records: int, size: int) -> Chunk | None:
        payload, data = self._contents.document(file.name, file.path)
        self._marks[file.name] = Mark(offset=1, inode=file.inode, digest=_digest(data))
        return Chunk(Partition(file.name), Offset(0), [payload], [len(data)])

    def _document_again(self, entry: Entry, path: str) -> list[object]:
        payload, data = self._contents.document(entry.partition, path)
        mark = self._marks.setdefault(entry.partition, Mark(offset=1, digest=_digest(data)))
        if mark.digest != _digest(data):
            raise Corrupt(f"{self._lost(entry)}: {path} is not what it was ({len(data)} bytes now); {RESTORE}")
        return [payload]

    # --- lines ----------------------------------------------------------------------------------------------------------------------

    def _lines(self, file: Found, records: int, size: int) -> Chunk | None:
        offset = self._next.get(file.name, 0)
        mark = self._mark_at(file.name, file.path, offset)
        chunk = Chunk(Partition(file.name), Offset(offset), [], [])
        for line in islice(self._contents.lines(file.name, file.path, mark.position), records):
            if not line.complete or size <= 0 or (line.size == 0 and offset):
                break
            chunk.payloads.append(line.payload)
            chunk.sizes.append(line.size)
            size -= line.size
        if not chunk.payloads:
            mark.seen = file.size
            return None
        self._marks[file.name] = Mark(offset + len(chunk.payloads), mark.position + sum(chunk.sizes), inode=file.inode)
        return chunk

    def _lines_again(self, entry: Entry, path: str) -> list[object]:
        mark = self._mark_at(entry.partition, path, entry.first)
        lines = [line for line in islice(self._contents.lines(entry.partition, path, mark.position), entry.count) if line.complete]
        if len(lines) < entry.count:
            raise Corrupt(f"{self._lost(entry)}: {path} has only {entry.first + len(lines)} lines left; {RESTORE}")
        position = mark.position + sum(line.size for line in lines)
        self._marks[entry.partition] = Mark(entry.first + entry.count, position, inode=mark.inode)
        return [line.payload for line in lines]

    def _mark_at(self, name: str, path: str, offset: int) -> Mark:
        """The file's mark, moved to `offset`: from where it is if that is before, else from the file's beginning."""
        mark = self._marks.get(name)
        if mark is None or mark.offset > offset:
            mark = Mark(inode=mark.inode if mark else 0)
        for line in islice(self._contents.lines(name, path, mark.position), offset - mark.offset):
            mark.offset += line.complete
            mark.position += line.size
        if mark.offset < offset:
            raise Corrupt(f"{path}: it has {mark.offset} complete lines, but {offset} of it have been read; {RESTORE}")
        self._marks[name] = mark
        return mark

    def _lost(self, entry: Entry) -> str:
        return f"records {entry.first} to {entry.first + entry.count - 1} of {entry.partition!r} cannot be read again"


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
