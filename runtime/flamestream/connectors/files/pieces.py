"""Pieces: a bounded input, cut so that many tasks can read it at once, each record with the time that its
front stamps.

A timed front stamps run i of `run_length` records at its i-th time, so a record's number in the source says
its run and place. Folders are cut at files (cut_files.py), files of lines at bytes, generators at numbers. A
source that is known only by its producer is one piece.

>>> [(time, list(records)) for time, _, records in Numbers(Stamps(FrontId(0), 2), 0, 3, None).runs()]
[(4096, [0, 1]), (8192, [2])]

Keeps: the records and times are those of the streaming engine, whatever the cuts. Does not: know Spark.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final, Protocol

from flamestream.connectors.files.formats import Mark
from flamestream.connectors.files.lines import Lines as LinesFormat
from flamestream.connectors.files.listing import LocalFiles
from flamestream.connectors.files.places import CheckedFile, Found, open_plain
from flamestream.connectors.kit.producer import payload_of_number
from flamestream.core.protocol.events import Entry
from flamestream.core.worker.front import RunRecords
from flamestream.model.errors import UserError
from flamestream.model.event_time import ENDED
from flamestream.model.ids import Offset, Partition
from flamestream.model.time import START, FrontId, Time, step_after

PIECE_BYTES: Final = 16 << 20
PIECE_RECORDS: Final = 200_000

Runs = Iterable[tuple[Time, int, Iterable[Any]]]
"""(time, place of the first record in its run, records)."""


class Piece(Protocol):
    """Picklable. `runs` reads it; times ascend."""

    def runs(self) -> Runs: ...


@dataclass(frozen=True, slots=True)
class Stamps:
    """The rule by which a timed front stamps its records: by their number alone."""

    front: FrontId
    run_length: int
    step: int = 1
    behind: Time = START
    """The last stamp before its own first one."""

    def time(self, run: int) -> Time:
        """The time of the run with this number, from 0."""
        # A timed front's stamps are equally far apart, so none has to be counted up to.
        first = step_after(self.behind, self.front, self.step)
        return Time(first + run * (step_after(first, self.front, self.step) - first))

    def runs_below(self, time: Time) -> int:
        """The number of runs that are stamped below `time`."""
        first = self.time(0)
        step = self.time(1) - first
        return max(0, -(-(time - first) // step))

    def cut(self, first: int, records: Iterable[Any]) -> Runs:
        """Consecutive records from number `first` on, as runs."""
        left = iter(records)
        number = first
        while chunk := list(islice(left, self.run_length - number % self.run_length)):
            run = number // self.run_length
            whole = Entry(self.time(run), Partition(""), Offset(run * self.run_length), self.run_length)
            yield whole.time, number % self.run_length, RunRecords(chunk, whole)
            number += len(chunk)


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a source of so many records, which has event time: a run of its own, behind all others."""

    stamps: Stamps
    records: int

    @property
    def time(self) -> Time:
        """Time of the run that ends the source."""
        return self.stamps.time(-(-self.records // self.stamps.run_length))

    def runs(self) -> Runs:
        yield self.time, 0, RunRecords([ENDED], Entry(self.time, Partition(""), Offset(self.records), 0))


@dataclass(frozen=True, slots=True)
class WholeRuns:
    """A piece of a source that is cut anywhere, as whole runs: without the run that began before it, with all
    of the one that it begins.

    A run of a source with event time tells its progress, so it must be read in one place.
    """

    piece: Piece
    following: Sequence[Piece]
    """The next ones, in order, which together have as many records as a run."""

    def runs(self) -> Runs:
        begun: tuple[Time, RunRecords] | None = None
        for time, first, records in self.piece.runs():
            if begun is not None and time != begun[0]:
                yield begun[0], 0, begun[1]
                begun = None
            if begun is not None:
                begun[1].extend(records)
            elif not first:
                begun = time, _listed(records)
        if begun is not None:
            yield begun[0], 0, self._completed(*begun)

    def _completed(self, begun: Time, run: RunRecords) -> RunRecords:
        for piece in self.following:
            for time, _, records in piece.runs():
                if time != begun:
                    return run
                run.extend(records)
        return run


def _listed(records: Iterable[Any]) -> RunRecords:
    assert isinstance(records, RunRecords), "a piece that is cut anywhere says which run its records are of"
    return RunRecords(records, records.run)


@dataclass(frozen=True, slots=True)
class Together:
    """Pieces that follow each other, as one."""

    pieces: Sequence[Piece]

    def runs(self) -> Runs:
        return chain.from_iterable(piece.runs() for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Given:
    """Runs that are at hand."""

    given: Sequence[tuple[Time, Sequence[Any]]]

    def runs(self) -> Runs:
        return ((time, 0, records) for time, records in self.given)


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers `first` to `end` - 1 of a generator."""

    stamps: Stamps
    first: int
    end: int
    function: Callable[[int], Any] | None

    def runs(self) -> Runs:
        return self.stamps.cut(
            self.first, (payload_of_number(self.function, number) for number in range(self.first, self.end))
        )


@dataclass(frozen=True, slots=True)
class Part:
    """The lines of a file that begin at bytes `start` to `end` - 1."""

    file: Found
    start: int
    end: int

    def count(self) -> int:
        """The number of lines that begin in it. A file that may not be read is one record, an error value."""
        CheckedFile(self.file).close()
        if not os.access(self.file.path, os.R_OK):
            return 1 if self.start == 0 else 0
        with open_plain(self.file) as file:
            file.seek(max(0, self.start - 1))
            # a newline at the last byte begins nothing in here
            left = min(self.end, self.file.size) - 1 - max(0, self.start - 1)
            count = 1 if self.start == 0 and self.file.size else 0
            while left > 0 and (data := file.read(min(left, 1 << 20))):
                count += data.count(b"\n")
                left -= len(data)
        return count

    def lines(self, place: LocalFiles, form: LinesFormat) -> Iterator[object]:
        """The payloads of its lines."""
        at = self._first_line()
        if at is None:
            return
        for line in form.records(place, self.file, Mark(0, at)):
            if at >= self.end:
                return
            yield line.payload
            at += line.size

    def _first_line(self) -> int | None:
        """The byte at which the first line of this part begins; None if none does."""
        if self.start == 0:
            return 0
        if not os.access(self.file.path, os.R_OK):
            return None
        with open_plain(self.file) as file:
            # From the byte before: if that is a newline, a line begins right at `start`.
            file.seek(self.start - 1)
            at = self.start - 1
            while data := file.readline(1 << 20):
                at += len(data)
                if data.endswith(b"\n"):
                    return at if at < self.end else None
        return None


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of consecutive parts, the first of which is record `first`."""

    stamps: Stamps
    first: int
    parts: Sequence[Part]
    place: LocalFiles
    form: LinesFormat

    def runs(self) -> Runs:
        return self.stamps.cut(
            self.first, (line for part in self.parts for line in part.lines(self.place, self.form))
        )


def parts_of(files: Iterable[Found], size: int = PIECE_BYTES) -> list[list[Part]]:
    """Groups of about `size` bytes, in order; a big file is cut."""
    groups: list[list[Part]] = [[]]
    room = size
    for file in files:
        for start in range(0, max(1, file.size), size):
            if room <= 0:
                groups.append([])
                room = size
            part = Part(file, start, min(start + size, file.size))
            groups[-1].append(part)
            room -= part.end - part.start + 1024
    return [group for group in groups if group]


def numbers_in_pieces(
    stamps: Stamps, count: int | None, function: Callable[[int], Any] | None, size: int = PIECE_RECORDS
) -> list[Numbers]:
    """A generator's numbers. Raises UserError if there is no end to them."""
    if count is None:
        raise UserError("a generator without `count` has no end: give it one, or use the streaming runner")
    return [Numbers(stamps, first, min(first + size, count), function) for first in range(0, count, size)]
