"""A followed folder on this machine: new files, and the complete lines that existing ones grow by. Every file
is a partition.

A followed folder is looked at again and again; the wait grows with what a look costs, so looking takes at
most a twentieth of a processor. A look that waits, for a processor or for a disk, costs nothing by that: results
would wait twenty times as long. It is not repeated sooner than it took. Of documents that were given a look sees the
names alone. What a look finds first is a matter of chance, so the front journals it, and
replays read the same records by name and offset.

Records of a followed file never change once given: a document is read once, a log only grows. Its name may
not begin with '.' or end with '.tmp' until a writer has renamed it into place. A file that shrinks, is
replaced, or is gone when a replay needs it, fails the source with the file's name. (A rewritten file of the
same length is seen only by the process that had read it.)

Keeps: a record is given once per Follow; memory is a few words a file. Does not: decide when to look
(kit/producer.py), or follow files that appear whole (arriving.py).
"""

import hashlib
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from flamestream.connectors.files.documents import Documents
from flamestream.connectors.files.formats import Format, Mark
from flamestream.connectors.files.places import Files, Found, is_gzip
from flamestream.connectors.kit.producer import Chunk
from flamestream.core.protocol.events import Entry
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Offset, Partition

LEAST_IDLE_SECONDS: Final = 0.05
LOOK_SHARE: Final = 20
RESTORE: Final = (
    "restore the file as it was; the records of a followed file must not change once they are there"
)


@dataclass(slots=True)
class Known(Mark):
    """The place up to which a file is known, and what is known of it."""

    seen: int = -1
    """Its size when it was last found to have nothing new."""
    inode: int = 0
    """The inode of the file that was given; 0 if this process has not given any of it."""
    digest: bytes = b""
    """The hash of the document that was given."""


class WatchedFiles:
    """A place that is looked at again and again; the wait grows with what a look costs."""

    ended = False
    problem = ""
    least_idle_seconds = LEAST_IDLE_SECONDS

    def __init__(self, files: Files, form: Format) -> None:
        self._place, self._format = files, form
        self._found: dict[str, Found] = {}
        self.idle_seconds = self.least_idle_seconds

    def _list(self, known: Container[str] = ()) -> list[Found]:
        found = self._place.listing(True, known)
        self._found = {file.name: file for file in found}
        return found

    def _looked(self, cost: float) -> None:
        self.idle_seconds = max(self.least_idle_seconds, LOOK_SHARE * cost)


class FollowedReader(WatchedFiles):
    """The reader of files that grow. `_marks` speed up what is read again, and check it."""

    def __init__(self, files: Files, form: Format) -> None:
        super().__init__(files, form)
        self._documents = form if isinstance(form, Documents) else None
        self._next: dict[str, int] = {}
        self._marks: dict[str, Known] = {}
        self._fresh: list[Found] = []

    def seek(self, offsets: Mapping[Partition, Offset]) -> None:
        self._next = {str(name): int(offset) for name, offset in offsets.items() if offset}
        self._fresh = []
        for mark in self._marks.values():
            # What had nothing new behind the old offsets may have something behind these.
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
            if self._documents:
                self._fresh.pop()
        return chunks

    def read(self, entry: Entry) -> list[object]:
        if entry.partition not in self._found:
            self._list()
        file = self._found.get(entry.partition)
        if file is None:
            raise Corrupt(f"{self._lost(entry)}: the file is gone; {RESTORE}")
        try:
            return (
                self._document_again(entry, file, self._documents)
                if self._documents
                else self._lines_again(entry, file)
            )
        except FileNotFoundError:
            raise Corrupt(f"{self._lost(entry)}: {file.path} is gone; {RESTORE}") from None

    # --- looking --------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Remember the files that may have something new, the first one last."""
        began, worked = time.monotonic(), time.thread_time()
        found = self._list(self._next if self._documents else ())
        self._fresh = [file for file in found if self._may_have_more(file)][::-1]
        took = time.monotonic() - began
        self._looked(max(time.thread_time() - worked, took / LOOK_SHARE))

    def _may_have_more(self, file: Found) -> bool:
        if self._documents:
            return file.name not in self._next
        mark = self._marks.get(file.name)
        if mark is None:
            return file.size > 0
        # The position in a packed file counts unpacked bytes, which say nothing of its size.
        position = -1 if is_gzip(file) else mark.position
        if file.size < position or mark.inode not in (0, file.inode):
            raise Corrupt(
                f"{file.path}: it has shrunk or was replaced after {mark.offset} lines of it were read; "
                f"{RESTORE}"
            )
        # (!) Read to its end is not given: a recovery goes back to before it, in a process that lives on.
        return mark.offset != self._next.get(file.name, 0) or file.size not in (position, mark.seen)

    def _chunk(self, records: int, size: int, may_raise: bool) -> Chunk | None:
        """The next records of the first fresh file; None takes it from the list."""
        file = self._fresh[-1]
        try:
            chunk = (
                self._document(file, self._documents) if self._documents else self._lines(file, records, size)
            )
        except FileNotFoundError:  # gone before it was given; a replay of what was given before would notice
            chunk = None
        except OSError:
            if may_raise:
                raise
            chunk = None
        if chunk is None:
            self._fresh.pop()
        return chunk

    # --- whole files ----------------------------------------------------------------------------------------

    def _document(self, file: Found, form: Documents) -> Chunk | None:
        record, data = form.record(self._place, file, growing=True)
        self._marks[file.name] = Known(offset=1, inode=file.inode, digest=_digest(data))
        return Chunk(Partition(file.name), Offset(0), [record.payload], [record.size])

    def _document_again(self, entry: Entry, file: Found, form: Documents) -> list[object]:
        record, data = form.record(self._place, file, growing=True)
        mark = self._marks.setdefault(file.name, Known(offset=1, digest=_digest(data)))
        if mark.digest != _digest(data):
            raise Corrupt(
                f"{self._lost(entry)}: {file.path} is not what it was ({len(data)} bytes now); {RESTORE}"
            )
        return [record.payload]

    # --- lines ----------------------------------------------------------------------------------------------

    def _lines(self, file: Found, records: int, size: int) -> Chunk | None:
        offset = self._next.get(file.name, 0)
        mark = self._mark_at(file, offset)
        chunk = Chunk(Partition(file.name), Offset(offset), [], [])
        for record in islice(self._format.records(self._place, file, mark, growing=True), records):
            # A last line without its end may still grow, so it waits.
            # An item without bytes says what is wrong with the file: it comes with the first records only, or
            # each look would give it again.
            if not record.complete or size <= 0 or (record.size == 0 and offset):
                break
            chunk.payloads.append(record.payload)
            chunk.sizes.append(record.size)
            size -= record.size
        if not chunk.payloads:
            mark.seen = file.size
            return None
        self._marks[file.name] = Known(
            offset + len(chunk.payloads), mark.position + sum(chunk.sizes), inode=file.inode
        )
        return chunk

    def _lines_again(self, entry: Entry, file: Found) -> list[object]:
        mark = self._mark_at(file, entry.first)
        found = islice(self._format.records(self._place, file, mark, growing=True), entry.count)
        records = [record for record in found if record.complete]
        if len(records) < entry.count:
            raise Corrupt(
                f"{self._lost(entry)}: "
                f"{file.path} has only {entry.first + len(records)} lines left; {RESTORE}"
            )
        position = mark.position + sum(record.size for record in records)
        self._marks[file.name] = Known(entry.first + entry.count, position, inode=mark.inode)
        return [record.payload for record in records]

    def _mark_at(self, file: Found, offset: int) -> Known:
        """The file's mark, moved to `offset`: from where it is if that is before, else from the file's
        beginning."""
        mark = self._marks.get(file.name)
        if mark is None or mark.offset > offset:
            mark = Known(inode=mark.inode if mark else 0)
        self._format.skip(self._place, file, mark, offset, growing=True)
        if mark.offset < offset:
            raise Corrupt(
                f"{file.path}: it has {mark.offset} complete lines, "
                f"but {offset} of it have been read; {RESTORE}"
            )
        self._marks[file.name] = mark
        return mark

    def _lost(self, entry: Entry) -> str:
        return (
            f"records {entry.first} to {entry.first + entry.count - 1} of {entry.partition!r} cannot be read "
            "again"
        )


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
