"""A bounded files source: all records of all files in the order of their names, as one partition.

The offset counts records over all files, so the folder's files and their contents have to stay as they are while the job exists: the
same offset must always be the same record. A file that changes or goes between listing and reading fails the source; a change
between two runs of a job shows when its regenerated output is compared. Folders that grow are for `follow: true`.

Keeps: the same offset gives the same record. Does not: journal anything: its front is timed.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from flamestream.adapters.sources.contents import Contents
from flamestream.adapters.sources.listing import Found, Place, listing, matcher
from flamestream.adapters.sources.reading import Chunk
from flamestream.core.events import Entry
from flamestream.model.errors import Bug, Corrupt
from flamestream.model.ids import Offset, Partition

THE_PARTITION = Partition("")


class ListedReader:
    """Reads the files that its first listing found."""

    idle_seconds = 0.0

    def __init__(self, looked_at: list[Place], pattern: str, by_line: bool, contents: Contents) -> None:
        self._places = looked_at
        self._pattern = matcher(pattern)
        self._by_line = by_line
        self._contents = contents
        self._files: list[Found] | None = None
        self._offset = 0
        self._records: Iterator[tuple[object, int]] | None = None
        self.ended = False

    def seek(self, offsets: Mapping[Partition, Offset]) -> None:
        self._offset = offsets.get(THE_PARTITION, Offset(0))
        self._records = None
        self.ended = False

    def next(self, records: int, size: int) -> Sequence[Chunk]:
        try:
            return self._chunks(records, size)
        except OSError:
            self._records = None
            raise

    def read(self, entry: Entry) -> list[object]:
        raise Bug(f"a bounded files source has no journalled runs, but was asked for {entry}")

    def _chunks(self, records: int, size: int) -> Sequence[Chunk]:
        if self._records is None:
            self._records = self._from(self._offset)
        chunk = Chunk(THE_PARTITION, Offset(self._offset), [], [])
        for payload, length in islice(self._records, records):
            chunk.payloads.append(payload)
            chunk.sizes.append(length)
            size -= length
            if size <= 0:
                break
        else:
            self.ended = len(chunk.payloads) < records
        self._offset += len(chunk.payloads)
        return [chunk] if chunk.payloads else []

    def _from(self, offset: int) -> Iterator[tuple[object, int]]:
        if self._files is None:
            self._files = listing(self._places, self._pattern, settled_only=False)
        if self._by_line:
            records = (line for file in self._files for line in self._lines_of(file))
            skipped = sum(1 for _ in islice(records, offset))
        else:
            records = (self._document_of(file) for file in self._files[offset:])
            skipped = min(offset, len(self._files))
        if skipped < offset:
            raise Corrupt(
                f"{self._where}: {skipped} records are there, but the job has already read {offset}: files are gone or have shrunk. "
                "Restore them; the files of a bounded source must not change while the job exists"
            )
        return records

    def _document_of(self, file: Found) -> tuple[object, int]:
        check_unchanged(file)
        payload, data = self._contents.document(file.name, file.path)
        return payload, len(data)

    def _lines_of(self, file: Found) -> Iterator[tuple[object, int]]:
        check_unchanged(file)
        return ((line.payload, line.size) for line in self._contents.lines(file.name, file.path, 0))

    @property
    def _where(self) -> str:
        return ", ".join(place.path for place in self._places)


def check_unchanged(file: Found) -> None:
    """Raises Corrupt if `file` is not as it was when it was listed."""
    now = _state(file)
    if now != (file.size, file.changed):
        raise Corrupt(
            f"{file.path}: it has changed since the source was listed (size {file.size}, now {now[0]}). "
            "The files of a bounded source must not change while the job exists; use `follow: true` for files that grow"
        )


def _state(file: Found) -> tuple[int, int]:
    try:
        state = os.stat(file.path)
    except FileNotFoundError:
        raise Corrupt(
            f"{file.path}: it is gone since the source was listed, so its records are lost. Restore it; the files of a bounded source "
            "must not change while the job exists"
        ) from None
    return state.st_size, state.st_mtime_ns
