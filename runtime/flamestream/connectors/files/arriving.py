"""A followed place whose files appear whole: objects in S3, Parquet, packed files. Each file is a partition,
read once from end to end.

A partition's name is the number of the file in the order of discovery, and its name: `17
day=3/part-0.parquet`. The front journals it with the file's first run, so the order is fixed by the journal
and not by a listing: a file that appears later comes later, wherever its name sorts. A file is begun only
when the one before is through, so after a restart all but the one with the highest number are known to be
through, and none of them is opened again.

A listing takes a request for every thousand objects; the wait between two grows with what one takes, so
looking takes at most a twentieth of the time, and never less than `LEAST_IDLE_SECONDS`.

Keeps: the same partition and offset are the same record; a file that changes or goes before it is through
fails the source. Does not: notice a file that is replaced after it was read through by another process.
"""

import time
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from flamestream.connectors.files.followed import RESTORE, WatchedFiles
from flamestream.connectors.files.formats import Format, Mark, Record, fill
from flamestream.connectors.files.places import CHANGED, Files, Found
from flamestream.connectors.kit.producer import Chunk
from flamestream.core.protocol.events import Entry
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Offset, Partition

LEAST_IDLE_SECONDS: Final = 0.2


class _Open:
    """A file under way: its records behind those that were taken."""

    def __init__(self, partition: Partition, file: Found, offset: int, records: Iterator[Record]) -> None:
        self.partition, self.file, self.offset = partition, file, offset
        self.records = records


class ArrivingReader(WatchedFiles):
    """The reader of files that appear whole."""

    least_idle_seconds = LEAST_IDLE_SECONDS

    def __init__(self, files: Files, form: Format) -> None:
        super().__init__(files, form)
        self._versions: dict[str, str] = {}
        """The version of each file that this process has read from."""
        self._done: set[str] = set()
        """Names of files that are through."""
        self._waiting: list[Found] = []
        """Files that are not begun, the first one last."""
        self._number = 0
        """The number of the newest file that was begun."""
        self._open: _Open | None = None
        self._again: _Open | None = None

    def seek(self, offsets: Mapping[Partition, Offset]) -> None:
        begun = sorted((number_of(partition), partition) for partition, offset in offsets.items() if offset)
        self._done = {name_of(partition) for _, partition in begun}
        self._number = begun[-1][0] if begun else 0
        self._waiting, self._open, self._again = [], None, None
        if begun:
            newest = begun[-1][1]
            self._open = self._opened(newest, self._file(name_of(newest), newest), offsets[newest])

    def next(self, records: int, size: int) -> Sequence[Chunk]:
        chunks: list[Chunk] = []
        while records > 0 and size > 0:
            chunk = self._chunk(records, size, may_raise=not chunks)
            if chunk is None:
                break
            if chunk.payloads:
                chunks.append(chunk)
                records -= len(chunk.payloads)
                size -= sum(chunk.sizes)
        return chunks

    def read(self, entry: Entry) -> list[object]:
        """Runs of a file come one after the other, so it stays open."""
        again = self._again
        if again is None or again.partition != entry.partition or again.offset != entry.first:
            again = self._opened(
                entry.partition, self._file(name_of(entry.partition), entry.partition), entry.first
            )
        self._again = None  # what raises is opened anew
        found = [record.payload for record in islice(again.records, entry.count)]
        if len(found) < entry.count:
            raise Corrupt(
                f"{again.file.path}: it has only {entry.first + len(found)} records, and more of it were "
                f"read; {RESTORE}"
            )
        again.offset += entry.count
        self._again = again
        return found

    # --- files ----------------------------------------------------------------------------------------------

    def _chunk(self, records: int, size: int, may_raise: bool) -> Chunk | None:
        """The next records of the file under way, empty at its end; None if no file is there."""
        if self._open is None and not self._begin():
            return None
        now = self._open
        assert now is not None, "a file was begun"
        chunk = Chunk(now.partition, Offset(now.offset), [], [])
        try:
            at_end = fill(chunk, now.records, records, size)
        except FileNotFoundError:
            self._gone(now)
            return chunk
        except BaseException:
            # A generator that has raised is at its end: the file is opened anew where this chunk ends.
            self._open = self._opened(now.partition, now.file, now.offset + len(chunk.payloads))
            if may_raise and not chunk.payloads:
                raise
            return chunk if chunk.payloads else None
        self._given(now, chunk)
        if at_end:
            self._done.add(now.file.name)
            self._open = None
        return chunk

    def _given(self, now: _Open, chunk: Chunk) -> None:
        now.offset += len(chunk.payloads)
        if chunk.payloads:
            # Only a file that gave something takes a number: of others the journal knows nothing, and a
            # restart counts from that.
            self._number = max(self._number, number_of(now.partition))
            self._versions[now.file.name] = now.file.version

    def _begin(self) -> bool:
        if not self._waiting:
            self._look()
        while self._waiting:
            file = self._waiting.pop()
            if file.size:
                self._open = self._opened(Partition(f"{self._number + 1} {file.name}"), file, 0)
                return True
        return False

    def _gone(self, now: _Open) -> None:
        """Before anything of it was given it never was there."""
        if now.offset:
            raise Corrupt(
                f"{now.file.path}: it is gone, and only {now.offset} records of it were read. {CHANGED}"
            )
        self._open = None

    def _look(self) -> None:
        began = time.monotonic()
        self._waiting = [file for file in self._list() if file.name not in self._done][::-1]
        self._place.expect(self._waiting[::-1])
        self._looked(time.monotonic() - began)

    def _list(self, known: Container[str] = ()) -> list[Found]:
        found = super()._list(known)
        for file in found:
            if self._versions.get(file.name, file.version) != file.version:
                raise Corrupt(f"{file.path}: it was replaced after it was read; {RESTORE}")
        return found

    def _file(self, name: str, partition: Partition) -> Found:
        if name not in self._found:
            self._list()
        file = self._found.get(name)
        if file is None:
            raise Corrupt(
                f"{name!r} (file {number_of(partition)} in the order of discovery) is gone, and it was read "
                f"before; {RESTORE}"
            )
        return file

    def _opened(self, partition: Partition, file: Found, offset: int) -> _Open:
        return _Open(partition, file, offset, self._records(file, offset))

    def _records(self, file: Found, offset: int) -> Iterator[Record]:
        mark = Mark()
        self._format.skip(self._place, file, mark, offset)
        if mark.offset < offset:
            raise Corrupt(
                f"{file.path}: it has {mark.offset} records, but {offset} of it have been read; {RESTORE}"
            )
        yield from self._format.records(self._place, file, mark)


def number_of(partition: str) -> int:
    """A file's number in the order of discovery, from 1, as its partition has it. Raises Corrupt for a
    partition that has none."""
    number, space, _ = partition.partition(" ")
    if not space or not number.isdecimal():
        raise Corrupt(
            f"{partition!r} is not a partition of a followed place with whole files: has the source's format "
            "changed? Restore it"
        )
    return int(number)


def name_of(partition: str) -> str:
    """The name of a partition's file."""
    return partition.partition(" ")[2]
