"""Windows: a timed source cut by global time, for batches that follow each other.

    planner = windows_of(...)      where each source stands at a cut; what there is up to a later one; the
                                   next cut

A cut is a global time, the same for all sources: so the items of earlier batches come before those of later
ones, whichever source they are from. Where a source stands is a number of records and, for files, which one
of which file: a planner that starts anew goes on from there.

Keeps: the pieces between two cuts have exactly the runs with times between them. Does not: take a journalled
source but as it was recorded: its times are not known before they are stamped.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from flamestream.connectors.files.cut_files import ALL, Reading, Records, Stretch
from flamestream.connectors.files.formats import Mark
from flamestream.connectors.files.pieces import Ending, Numbers, Piece, Stamps, Together
from flamestream.connectors.files.places import Found
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.model.ids import Offset, Partition
from flamestream.model.time import FrontId, Time, time_of, timestamp_of
from flamestream.model.time import Timestamp as At

Position = tuple[int, ...]
"""(records read, ...): what a source needs to go on."""


class Window(Protocol):
    """A timed source, read a stretch of time after the other."""

    stamps: Stamps
    begin: Position

    def available(self, position: Position) -> int | None:
        """Runs that are there now; None if any number. `position`: where whoever asks stands."""

    def total(self) -> int | None:
        """Runs that there will ever be; None if there is no end."""

    def piece(self, position: Position, runs: int) -> tuple[Piece, Position]:
        """Everything from `position` to the end of run `runs` - 1, and the position behind it."""


class Recorded(Protocol):
    """A journalled source that was recorded (connectors/recorded.py): its times are any."""

    begin: ClassVar[Position]

    @property
    def last(self) -> Time: ...

    def behind(self, position: Position, runs: int) -> Time | None: ...

    def piece(self, position: Position, cut: Time) -> tuple[Piece, Position]: ...

    def place_at(self, cut: Time, before: FrontPosition | None) -> FrontPosition: ...


def _runs(records: int, stamps: Stamps) -> int:
    return -(-records // stamps.run_length)


@dataclass(slots=True)
class NumberWindow:
    """A generator. With a rate, what is due since this planner was first asked, from where that was."""

    stamps: Stamps
    count: int | None
    rate: float | None
    function: Callable[[int], Any] | None
    first: int = 0
    began: float = 0.0
    begin: Position = (0,)

    def available(self, position: Position) -> int | None:
        if self.rate is None:
            return self.total()
        if not self.began:
            self.began, self.first = time.monotonic(), position[0]
        due = self.first + int((time.monotonic() - self.began) * self.rate)
        return (due if self.count is None else min(due, self.count)) // self.stamps.run_length

    def total(self) -> int | None:
        return None if self.count is None else _runs(self.count, self.stamps)

    def piece(self, position: Position, runs: int) -> tuple[Piece, Position]:
        end = runs * self.stamps.run_length
        end = end if self.count is None else min(end, self.count)
        return Numbers(self.stamps, position[0], max(position[0], end), self.function), (
            max(position[0], end),
        )


@dataclass(slots=True)
class RecordWindow:
    """Files of any format. The records of a window are counted by the format's own skipping: a footer for
    Parquet, else by reading."""

    stamps: Stamps
    files: Sequence[Found]
    reading: Reading
    begin: Position = (0, 0, 0, 0)
    """(records, then where the next one is: file, record of the file, byte)."""
    records: int | None = None

    def available(self, position: Position) -> int | None:
        return self.total()

    def total(self) -> int | None:
        if self.records is None:
            self.records = sum(self.reading.skip(file, Mark(), ALL) for file in self.files)
        return _runs(self.records, self.stamps)

    def piece(self, position: Position, runs: int) -> tuple[Piece, Position]:
        first, number, *at = position
        left, mark, stretches = runs * self.stamps.run_length - first, Mark(*at), []
        while left > 0 and number < len(self.files):
            file, begin = self.files[number], Mark(mark.offset, mark.position)
            count = self.reading.skip(file, mark, mark.offset + left)
            if count:
                stretches.append(Stretch(file, begin.offset, begin.position, count))
                left -= count
            if left > 0:
                number, mark = number + 1, Mark()
        behind = first + sum(stretch.count for stretch in stretches)
        return Records(self.stamps, first, tuple(stretches), self.reading), (
            behind,
            number,
            mark.offset,
            mark.position,
        )


@dataclass(frozen=True, slots=True)
class Cut:
    """A global time, and where each front stands at it."""

    time: Time
    positions: Mapping[FrontId, Position]


class Planner:
    """All sources of a job."""

    def __init__(
        self,
        windows: Mapping[FrontId, Window],
        most_runs: int,
        tell_time: Collection[FrontId] = (),
        recorded: Mapping[FrontId, Recorded] | None = None,
    ) -> None:
        """`tell_time`: timed fronts whose end is a run of its own."""
        self._windows, self._most, self._tell_time = windows, most_runs, tell_time
        self._recorded = recorded or {}

    def begin(self) -> Cut:
        """The cut before everything."""
        timed = {front: window.begin for front, window in self._windows.items()}
        return Cut(Time(0), {**timed, **{front: window.begin for front, window in self._recorded.items()}})

    def end(self) -> Time | None:
        """The cut behind all input; None if there is no end."""
        lasts = [self._last_of(front) for front in self._windows]
        lasts += [window.last for window in self._recorded.values()]
        known = [last for last in lasts if last is not None]
        return _behind(max(known)) if len(known) == len(lasts) else None

    def places_at(self, cut: Cut, before: Sequence[FrontPosition]) -> list[FrontPosition]:
        """All fronts' places at a cut, as the streaming runner says them, in their order. `before`: those known
        at an earlier one."""
        known = {place.front: place for place in before}
        fronts = sorted([*self._windows, *self._recorded])
        return [self._place_at(cut, front, known.get(front)) for front in fronts]

    def _place_at(self, cut: Cut, front: FrontId, before: FrontPosition | None) -> FrontPosition:
        if front in self._recorded:
            return self._recorded[front].place_at(cut.time, before)
        stamps, records = self._windows[front].stamps, cut.positions[front][0]
        last = stamps.time(_runs(records, stamps) - 1) if records else stamps.behind
        end = self._last_of(front) if front in self._tell_time else None
        ended = end is not None and end < cut.time
        offsets = {Partition(""): Offset(records)}
        return FrontPosition(front, end if end is not None and ended else last, offsets, ended, records)

    def next(self, before: Cut) -> Cut:
        """The next cut; `before` itself if nothing is there now."""
        end = self.end()
        if end is not None and before.time >= end:
            return before
        cut = min([*self._bounds(before), *([] if end is None else [end])])
        if cut <= before.time:
            return before
        return self.at(before, cut)

    def at(self, before: Cut, cut: Time) -> Cut:
        """A cut and where each front stands at it, of an earlier one."""
        return Cut(cut, {front: position for front, (_, position) in self.pieces(before, cut).items()})

    def pieces(self, before: Cut, cut: Time) -> dict[FrontId, tuple[Piece, Position]]:
        """The runs that each front stamps from `before` to `cut`, and where it stands then."""
        timed = {front: self._piece(front, before, cut) for front in self._windows}
        return {
            **timed,
            **{front: its.piece(before.positions[front], cut) for front, its in self._recorded.items()},
        }

    def _last_of(self, front: FrontId) -> Time | None:
        """The last time that a timed front will stamp; None if there is no end."""
        window = self._windows[front]
        total = window.total()
        if total is None:
            return None
        return window.stamps.time(max(total + (front in self._tell_time) - 1, 0))

    def _bounds(self, before: Cut) -> Iterator[Time]:
        """Times that the next cut is not above."""
        for front, window in self._windows.items():
            if (last := self._last_of(front)) is None or last >= before.time:
                most = timestamp_of(before.time) + self._most * window.stamps.step
                # only where a timed front goes on (!): a clock's times are far behind its own
                yield time_of(At(most), FrontId(0))
            available, total = window.available(before.positions[front]), window.total()
            if available is not None and (total is None or available < total):
                yield window.stamps.time(available)  # not there yet
        for front, recorded in self._recorded.items():
            if (behind := recorded.behind(before.positions[front], self._most)) is not None:
                yield time_of(timestamp_of(behind), FrontId(0))  # above all runs of the front before it

    def _piece(self, front: FrontId, before: Cut, cut: Time) -> tuple[Piece, Position]:
        window = self._windows[front]
        piece, position = window.piece(before.positions[front], window.stamps.runs_below(cut))
        total = window.total() if front in self._tell_time else None
        if total is not None and before.time <= window.stamps.time(total) < cut:
            piece = Together((piece, Ending(window.stamps, total * window.stamps.run_length)))
        return piece, position


def _behind(last: Time) -> Time:
    """A cut behind a run: the next timestamp's first time."""
    return time_of(At(timestamp_of(last) + 1), FrontId(0))
