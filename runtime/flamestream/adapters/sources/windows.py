"""Windows: a timed source cut by global time, for batches that follow each other.

    planner = windows_of(...)      where each source stands at a cut; what there is up to a later one; the next cut

A cut is a global time, the same for all sources: so the items of earlier batches come before those of later ones, whichever source they
are from. Where a source stands is a number of records and, for lines, a file and a byte: a planner that starts anew goes on from there.

Keeps: the pieces between two cuts have exactly the runs with times between them. Does not: take journalled sources: their times are not
known before they are stamped.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from flamestream.adapters.sources.documents import Documents
from flamestream.adapters.sources.files import Found
from flamestream.adapters.sources.formats import Mark
from flamestream.adapters.sources.lines import Lines
from flamestream.adapters.sources.listing import LocalFiles
from flamestream.adapters.sources.parquet_table import THE_PARTITION, ParquetReader, Table
from flamestream.adapters.sources.pieces import Files, Numbers, Piece, Runs, Stamps
from flamestream.model.ids import Offset
from flamestream.model.time import FrontId, Time, time_of, timestamp_of
from flamestream.model.time import Timestamp as At

UNLIMITED: Final = 1 << 60
Position = tuple[int, ...]
"""(records read, ...): what a source needs to go on."""


class Window(Protocol):
    """One source."""

    stamps: Stamps
    begin: Position

    def available(self) -> int | None:
        """Runs that are there now; None if any number."""
        ...

    def total(self) -> int | None:
        """Runs that there will ever be; None if there is no end."""
        ...

    def piece(self, position: Position, runs: int) -> tuple[Piece, Position]:
        """Everything from `position` to the end of run `runs` - 1, and the position behind it."""
        ...


def _runs(records: int, stamps: Stamps) -> int:
    return -(-records // stamps.run_length)


@dataclass(slots=True)
class NumberWindow:
    """A generator. With a rate, what is due since this planner began."""

    stamps: Stamps
    count: int | None
    rate: float | None
    function: Callable[[int], Any] | None
    first: int = 0
    began: float = 0.0
    begin: Position = (0,)

    def available(self) -> int | None:
        if self.rate is None:
            return self.total()
        if not self.began:
            self.began = time.monotonic()
        due = self.first + int((time.monotonic() - self.began) * self.rate)
        return (due if self.count is None else min(due, self.count)) // self.stamps.run_length

    def total(self) -> int | None:
        return None if self.count is None else _runs(self.count, self.stamps)

    def piece(self, position: Position, runs: int) -> tuple[Piece, Position]:
        end = runs * self.stamps.run_length
        end = end if self.count is None else min(end, self.count)
        return Numbers(self.stamps, position[0], max(position[0], end), self.function), (max(position[0], end),)


@dataclass(slots=True)
class FileWindow:
    """Files, a record each."""

    stamps: Stamps
    files: Sequence[Found]
    place: LocalFiles
    form: Documents
    begin: Position = (0,)

    def available(self) -> int | None:
        return self.total()

    def total(self) -> int | None:
        return _runs(len(self.files), self.stamps)

    def piece(self, position: Position, runs: int) -> tuple[Piece, Position]:
        end = min(runs * self.stamps.run_length, len(self.files))
        return Files(self.stamps, position[0], self.files[position[0] : end], self.place, self.form), (end,)


@dataclass(frozen=True, slots=True)
class RowsFrom:
    """`count` rows of a table from record `first` on."""

    stamps: Stamps
    table: Table
    first: int
    count: int

    def runs(self) -> Runs:
        reader = ParquetReader(self.table)
        reader.seek({THE_PARTITION: Offset(self.first)})
        return self.stamps.cut(self.first, (payload for chunk in reader.next(self.count, UNLIMITED) for payload in chunk.payloads))


@dataclass(slots=True)
class RowWindow:
    """Parquet."""

    stamps: Stamps
    table: Table
    begin: Position = (0,)
    rows: int | None = None

    def available(self) -> int | None:
        return self.total()

    def total(self) -> int | None:
        if self.rows is None:
            self.rows = sum(self.table.counts())
        return _runs(self.rows, self.stamps)

    def piece(self, position: Position, runs: int) -> tuple[Piece, Position]:
        self.total()
        assert self.rows is not None
        end = max(position[0], min(runs * self.stamps.run_length, self.rows))
        return RowsFrom(self.stamps, self.table, position[0], end - position[0]), (end,)


@dataclass(frozen=True, slots=True)
class LinesFrom:
    """`count` lines from a byte of the first of `files` on."""

    stamps: Stamps
    first: int
    count: int
    files: Sequence[Found]
    byte: int
    place: LocalFiles
    form: Lines

    def runs(self) -> Runs:
        records = (payload for payload, _, _ in _lines(self.files, self.byte, self.place, self.form))
        return self.stamps.cut(self.first, (record for record, _ in zip(records, range(self.count), strict=False)))


@dataclass(slots=True)
class LineWindow:
    """Files of lines; the lines of a window are counted by reading them."""

    stamps: Stamps
    files: Sequence[Found]
    place: LocalFiles
    form: Lines
    begin: Position = (0, 0, 0)
    """(records, file, byte)."""
    lines: int | None = None

    def available(self) -> int | None:
        return self.total()

    def total(self) -> int | None:
        if self.lines is None:
            self.lines = sum(1 for _ in _lines(self.files, 0, self.place, self.form))
        return _runs(self.lines, self.stamps)

    def piece(self, position: Position, runs: int) -> tuple[Piece, Position]:
        first, file, byte = position
        wanted, count, end = runs * self.stamps.run_length - first, 0, (file, byte)
        if wanted > 0:
            for _, number, behind in _lines(self.files[file:], byte, self.place, self.form):
                count += 1
                end = (file + number, behind)
                if count == wanted:
                    break
        return LinesFrom(self.stamps, first, count, self.files[file:], byte, self.place, self.form), (first + count, *end)


def _lines(files: Sequence[Found], byte: int, place: LocalFiles, form: Lines) -> Iterator[tuple[object, int, int]]:
    """(payload, number of the file, byte behind the line)."""
    for number, file in enumerate(files):
        at = byte if number == 0 else 0
        if at and at >= file.size:
            continue
        for line in form.records(place, file, Mark(0, at)):
            at += line.size
            yield line.payload, number, at


@dataclass(frozen=True, slots=True)
class Cut:
    """A global time, and where each front stands at it."""

    time: Time
    positions: Mapping[FrontId, Position]


class Planner:
    """All sources of a job."""

    def __init__(self, windows: Mapping[FrontId, Window], most_runs: int) -> None:
        self._windows, self._most = windows, most_runs

    def begin(self) -> Cut:
        """Before everything."""
        return Cut(Time(0), {front: window.begin for front, window in self._windows.items()})

    def end(self) -> Time | None:
        """The cut behind all input; None if there is no end."""
        totals = [(window, window.total()) for window in self._windows.values()]
        if any(total is None for _, total in totals):
            return None
        return max(_behind(window.stamps.time(max(total - 1, 0))) for window, total in totals if total is not None)

    def next(self, before: Cut) -> Cut:
        """The next cut; `before` itself if nothing is there now."""
        end = self.end()
        if end is not None and before.time >= end:
            return before
        most = time_of(At(timestamp_of(before.time) + self._most), FrontId(0))
        bounds = [most] if end is None else [most, end]
        for window in self._windows.values():
            available, total = window.available(), window.total()
            if available is not None and (total is None or available < total):
                bounds.append(window.stamps.time(available))  # not there yet
        cut = min(bounds)
        if cut <= before.time:
            return before
        return Cut(cut, {front: self.pieces(before, cut)[front][1] for front in self._windows})

    def pieces(self, before: Cut, cut: Time) -> dict[FrontId, tuple[Piece, Position]]:
        """What each front stamps from `before` to `cut`, and where it stands then."""
        return {front: window.piece(before.positions[front], window.stamps.runs_below(cut)) for front, window in self._windows.items()}


def _behind(last: Time) -> Time:
    """A cut behind a run: the next timestamp's first time."""
    return time_of(At(timestamp_of(last) + 1), FrontId(0))
