"""Any bounded files source cut for many tasks: whichever format, packed or not, in a folder or in S3.

A stretch is some records of one file: all of them, rows of a Parquet file, or what lies between two
micro-batches. What reads it is made anew in each process from the manifest's words, because clients of S3 and
the application's classes do not travel.

Keeps: record numbers are those of the source read as a whole. Does not: cut one file of lines (pieces.py
does, where the lines are plain text of a folder), or list.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import msgspec

from flamestream.connectors.files.formats import Format, Mark
from flamestream.connectors.files.listed import gone
from flamestream.connectors.files.pieces import PIECE_BYTES, PIECE_RECORDS, Runs, Stamps
from flamestream.connectors.files.places import Files, Found
from flamestream.connectors.files.spec import FilesSpec, format_of, place_of
from flamestream.model.decoding import from_json

ALL: Final = 1 << 60


def saved_at(path: str) -> dict[str, Any]:
    """The fields of the `files` source that reads what `spark.save_input` wrote."""
    return {"path": path, "pattern": "**/*.parquet", "format": "parquet", "tuples": True}


@dataclass(frozen=True, slots=True)
class Reading:
    """The words of a manifest that make what reads a source: its place and its format, in whichever process.
    Picklable."""

    spec: bytes
    name: str
    where: str

    @classmethod
    def of(cls, spec: FilesSpec, name: str, where: str) -> "Reading":
        return cls(msgspec.json.encode(spec), name, where)

    def place(self) -> Files:
        return _place(self)

    def form(self) -> Format:
        return _form(self)

    def skip(self, file: Found, mark: Mark, upto: int) -> int:
        """Move `mark` to record `upto`, or to the end; how many records that were."""
        before = mark.offset
        try:
            _counting(self).skip(self.place(), file, mark, upto)
        except FileNotFoundError:
            raise gone(file) from None
        return mark.offset - before


@lru_cache(maxsize=8)
def _place(reading: Reading) -> Files:
    return place_of(from_json(reading.spec, FilesSpec), reading.where)


@lru_cache(maxsize=8)
def _form(reading: Reading) -> Format:
    return format_of(from_json(reading.spec, FilesSpec), reading.name, reading.where)


@lru_cache(maxsize=8)
def _counting(reading: Reading) -> Format:
    """Counting takes no class, and no application."""
    spec = msgspec.structs.replace(from_json(reading.spec, FilesSpec), type=None)
    return format_of(spec, reading.name, reading.where)


@dataclass(frozen=True, slots=True)
class Stretch:
    """`count` records of a file from record `offset` on, which begins at byte `position` where the format
    needs it."""

    file: Found
    offset: int
    position: int
    count: int


@dataclass(frozen=True, slots=True)
class Records:
    """Consecutive stretches, the first record of which is record `first`."""

    stamps: Stamps
    first: int
    stretches: Sequence[Stretch]
    reading: Reading

    def runs(self) -> Runs:
        return self.stamps.cut(self.first, self._payloads())

    def _payloads(self) -> Iterator[object]:
        place, form = self.reading.place(), self.reading.form()
        place.expect([stretch.file for stretch in self.stretches])
        for stretch in self.stretches:
            try:
                records = form.records(place, stretch.file, Mark(stretch.offset, stretch.position))
                yield from (record.payload for record in islice(records, stretch.count))
            except FileNotFoundError:
                raise gone(stretch.file) from None


def in_pieces(
    stamps: Stamps, found: Sequence[Found], counts: Sequence[int], reading: Reading, rows: int = PIECE_RECORDS
) -> list[Records]:
    """All records of `found`, about `PIECE_BYTES` or `rows` of them a piece. Only rows of Parquet are cut
    within a file."""
    most = rows if from_json(reading.spec)["format"] == "parquet" else ALL
    pieces, first, group, size = [], 0, list[Stretch](), 0
    for stretch, count in _stretches(found, counts, most):
        group.append(stretch)
        size += stretch.file.size * stretch.count // count + 1024
        if size >= PIECE_BYTES or stretch.count == most:
            pieces.append(Records(stamps, first, tuple(group), reading))
            first += sum(each.count for each in group)
            group, size = [], 0
    return [*pieces, Records(stamps, first, tuple(group), reading)] if group else pieces


def _stretches(found: Sequence[Found], counts: Sequence[int], most: int) -> Iterable[tuple[Stretch, int]]:
    """With the records of its file."""
    for file, count in zip(found, counts, strict=True):
        for offset in range(0, count, most):
            yield Stretch(file, offset, 0, min(most, count - offset)), count
