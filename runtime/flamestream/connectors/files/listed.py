"""A bounded files source: all records of all files in the order of their names, or of a list of names, as one
partition.

The offset counts records over all files, so the files and their contents have to stay as they are while the
job exists: the same offset must always be the same record. A file that changes or goes between listing and
reading, or while it is read, fails the source; a change between two runs of a job shows when its regenerated
output is compared. Folders that grow are for `follow: true`.

Keeps: the same offset gives the same record. Does not: journal anything: its front is timed.
"""

from collections.abc import Iterator, Mapping, Sequence

from flamestream.connectors.files.formats import Format, Mark, Record, fill
from flamestream.connectors.files.places import CHANGED, Files, Found
from flamestream.connectors.kit.credit import THE_PARTITION
from flamestream.connectors.kit.producer import Chunk
from flamestream.core.protocol.events import Entry
from flamestream.model.errors import Bug, Corrupt
from flamestream.model.ids import Offset, Partition


class ListedReader:
    """Reads the files that its first listing found."""

    idle_seconds = 0.0
    problem = ""

    def __init__(self, files: Files, form: Format) -> None:
        self._place = files
        self._format = form
        self._files: list[Found] | None = None
        self._offset = 0
        self._records: Iterator[Record] | None = None
        self.ended = False

    def seek(self, offsets: Mapping[Partition, Offset]) -> None:
        self._offset = offsets.get(THE_PARTITION, Offset(0))
        self._records = None
        self.ended = False

    def next(self, records: int, size: int) -> Sequence[Chunk]:
        chunk = Chunk(THE_PARTITION, Offset(self._offset), [], [])
        try:
            if self._records is None:
                self._records = self._from(self._offset)
            self.ended = fill(chunk, self._records, records, size)
        except BaseException:
            # a generator that has raised is at its end: the next call begins a new one where this chunk ends
            self._records = None
            if not chunk.payloads:
                raise
        self._offset += len(chunk.payloads)
        return [chunk] if chunk.payloads else []

    def read(self, entry: Entry) -> list[object]:
        raise Bug(f"a bounded files source has no journalled runs, but was asked for {entry}")

    def _from(self, offset: int) -> Iterator[Record]:
        if self._files is None:
            self._files = self._place.listing(settled_only=False)
        skipped, left, mark = 0, self._files, Mark()
        while left and skipped < offset:
            mark = Mark()
            self._skip(left[0], mark, offset - skipped)
            skipped += mark.offset
            if skipped < offset:
                left = left[1:]
        if skipped < offset:
            raise Corrupt(
                f"{self._place.where}: {skipped} records are there, but the job has already read {offset}: "
                "files are gone or have shrunk. "
                "Restore them; the files of a bounded source must not change while the job exists"
            )
        return self._of(left, mark)

    def _skip(self, file: Found, mark: Mark, count: int) -> None:
        try:
            self._format.skip(self._place, file, mark, count)
        except FileNotFoundError:
            raise gone(file) from None

    def _of(self, files: list[Found], mark: Mark) -> Iterator[Record]:
        self._place.expect(files)
        for file in files:
            try:
                yield from self._format.records(self._place, file, mark)
            except FileNotFoundError:
                raise gone(file) from None
            mark = Mark()


def gone(file: Found) -> Corrupt:
    """A listed file is not there."""
    return Corrupt(f"{file.path}: it is gone since the source was listed, so its records are lost. {CHANGED}")
