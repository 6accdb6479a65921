"""Inputs: the sources of a manifest as pieces for tasks.

| source                        | pieces                                                            |
|-------------------------------|-------------------------------------------------------------------|
| plain lines of a folder       | bytes of files; lines are counted first, by a job of their own     |
| Parquet                       | some rows each                                                     |
| other files, S3               | some files each; records are counted first, by a job of their own  |
| generator with `count`        | some numbers each                                                 |
| any other that ends           | one, read through the source's own producer                       |
| journalled, with a kept journal | one a front: the recorded runs                                  |

Keeps: record numbers, and so times, are the streaming engine's. Does not: read records
(connectors/files/pieces.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flamestream.connectors import sources
from flamestream.connectors.files.cut_files import ALL, Reading, in_pieces
from flamestream.connectors.files.formats import Mark
from flamestream.connectors.files.lines import Lines as LinesFormat
from flamestream.connectors.files.lines import Text
from flamestream.connectors.files.listing import LocalFiles, places
from flamestream.connectors.files.pieces import (
    Ending,
    Lines,
    Part,
    Piece,
    Runs,
    Stamps,
    WholeRuns,
    numbers_in_pieces,
    parts_of,
)
from flamestream.connectors.files.places import Found, is_gzip
from flamestream.connectors.files.spec import FilesSpec
from flamestream.connectors.files.windows import Cut, NumberWindow, Planner, RecordWindow, Window
from flamestream.connectors.kit.spec import function_of
from flamestream.connectors.recorded import RecordedSource, RecordedWindow
from flamestream.connectors.synthetic.connector import GeneratorSpec
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.model.errors import UserError
from flamestream.model.time import END, Time


@dataclass(frozen=True, slots=True)
class Input:
    """A source of the graph and its input. `bounded`: it ends, or what there is of it is recorded. `until`:
    what its journal has from there on is not looked at."""

    vertex: int
    source: RecordedSource
    bounded: bool
    until: Time = END

    @property
    def name(self) -> str:
        return self.source.front.source

    @property
    def where(self) -> str:
        """Place of the input in the manifest."""
        return f"spec.sources.{self.name}"

    @property
    def stamps(self) -> Stamps:
        front = self.source.front
        return Stamps(front.front, front.run_length, front.step, self.source.behind)


def pieces_of(spark: Any, inputs: Sequence[Input], end: Time | None = None) -> list[tuple[int, Piece]]:
    """All input; what is below `end` of sources that have none. Raises UserError that names a source without
    an end."""
    return [(each.vertex, piece) for each in inputs for piece in _pieces(spark, each, end)]


def _pieces(spark: Any, each: Input, end: Time | None) -> Sequence[Piece]:
    if not each.source.front.timed:
        return [_recorded(each, end)]
    spec = sources.settings_of(each.source.spec, each.where)
    if isinstance(spec, FilesSpec):
        return _file_pieces(spark, each, spec)
    if isinstance(spec, GeneratorSpec):
        if end is None:
            _check_bounded(each)
        below = None if end is None else each.stamps.runs_below(end) * each.stamps.run_length
        counts = [count for count in (spec.count, below) if count is not None]
        numbers = numbers_in_pieces(each.stamps, min(counts, default=None), _function(spec, each))
        return [*_whole(each, numbers), *_ending(each, spec.count)]
    if end is None:
        _check_bounded(each)
    return [Below(each.source, end)]


def _ending(each: Input, records: int | None) -> Sequence[Piece]:
    """The end of a source of so many records, if that tells event time."""
    return [Ending(each.stamps, records)] if each.source.tells_time and records is not None else []


def _whole(each: Input, pieces: Sequence[Piece]) -> Sequence[Piece]:
    """The pieces, as whole runs if the source tells event time."""
    if not each.source.tells_time:
        return pieces
    most = each.stamps.run_length  # no piece is empty
    return [WholeRuns(piece, pieces[number + 1 : number + 1 + most]) for number, piece in enumerate(pieces)]


def _function(spec: GeneratorSpec, each: Input) -> Callable[[int], Any] | None:
    return None if spec.function is None else function_of(spec.function, f"{each.where}.generator.function")


def _recorded(each: Input, end: Time | None) -> Piece:
    if not each.source.journal:
        raise UserError(
            f"source {each.name!r} has no end, so a batch cannot read it. Use the streaming runner, or set "
            "spec.journal.keep: true there: a batch then reads what was recorded"
        )
    until = each.until if end is None else min(end, each.until)
    return Below(each.source, None if until == END else until)


@dataclass(frozen=True, slots=True)
class Below:
    """A source through its producer or journal, up to `end`."""

    source: RecordedSource
    end: Time | None

    def runs(self) -> Runs:
        return (
            self.source.runs()
            if self.end is None
            else ((time, 0, records) for time, records in self.source.below(self.end))
        )


def _check_bounded(each: Input) -> None:
    if not each.bounded:
        raise UserError(
            f"source {each.name!r} has no end, so a batch cannot read it: bound it, or use another runner"
        )


def _file_pieces(spark: Any, each: Input, spec: FilesSpec) -> Sequence[Piece]:
    reading = Reading.of(spec, each.name, each.where)
    found = reading.place().listing(settled_only=False)
    if _is_plain(spec, found):
        place = LocalFiles(places(spec.path, spec.paths), spec.pattern, follow_links=spec.follow_links)
        form, first = LinesFormat(each.name, Text(spec.encoding)), 0
        pieces: list[Piece] = []
        groups = parts_of(found)
        for group, count in zip(groups, _counts(spark, groups, always=each.source.tells_time), strict=True):
            pieces.append(Lines(each.stamps, first, group, place, form))
            first += count
        return [*_whole(each, pieces), *_ending(each, first)]
    counts = _records_of(spark, reading, found, spec.by_line)
    return [*_whole(each, in_pieces(each.stamps, found, counts, reading)), *_ending(each, sum(counts))]


def _is_plain(spec: FilesSpec, found: Sequence[Found]) -> bool:
    """Lines that can be found without reading all that stands before them."""
    plain = spec.format == "text" and spec.by_line and not spec.in_s3 and spec.manifest is None
    return plain and not any(map(is_gzip, found))


def _records_of(spark: Any, reading: Reading, found: Sequence[Found], by_line: bool) -> list[int]:
    """How many records each file has: counted where there are cores."""
    if not by_line or not found:
        return [1] * len(found)
    slices = min(len(found), 4 * int(spark.sparkContext.defaultParallelism))
    counts: list[int] = (
        spark.sparkContext.parallelize(found, slices).map(partial(_records_in, reading)).collect()
    )
    return counts


def _records_in(reading: Reading, file: Found) -> int:
    return reading.skip(file, Mark(), ALL)


def _counts(spark: Any, groups: list[list[Part]], *, always: bool) -> list[int]:
    if len(groups) < 2 and not always:  # where the first one ends does not matter
        return [0] * len(groups)
    counts: list[int] = spark.sparkContext.parallelize(groups, len(groups)).map(_count).collect()
    return counts


def _count(group: list[Part]) -> int:
    return sum(part.count() for part in group)


def planner_of(inputs: Sequence[Input], most_runs: int) -> Planner:
    """For micro-batches. Raises UserError that names a source whose order nobody knows."""
    timed = [each for each in inputs if each.source.front.timed]
    tell_time = {each.source.front.front for each in timed if each.source.tells_time}
    windows = {each.source.front.front: _window(each) for each in timed}
    recorded = {
        each.source.front.front: _recorded_window(each) for each in inputs if not each.source.front.timed
    }
    return Planner(windows, most_runs, tell_time, recorded)


def as_recorded(inputs: Sequence[Input]) -> tuple[Input, ...]:
    """The inputs, journalled ones up to what is recorded now."""
    # Answers before what they answer, whose fronts come before theirs: a stream may go on elsewhere (!).
    ends = {
        each.source.front.front: _recorded_window(each).last + 1
        for each in reversed(inputs)
        if not each.source.front.timed
    }
    return tuple(replace(each, until=Time(ends.get(each.source.front.front, END))) for each in inputs)


def check_places(planner: Planner, cut: Cut, inputs: Sequence[Input], known: Sequence[FrontPosition]) -> None:
    """Raises UserError that names a source of which another number of records is below the cut than whoever wrote
    `known` there has read: here its records would have other times."""
    had = {place.front: place for place in known}
    here = {place.front: place for place in planner.places_at(cut, known)}
    for front in (each.source.front for each in inputs if each.source.front.timed):
        place = had.get(front.front)
        # an older index has offsets, and no sum of them
        if place is None or (place.offsets and not place.records):
            continue
        if place.records != (found := here[front.front].records):
            raise UserError(
                f"source {front.source!r}: {place.records:,} of its records are below the job's cut, and batches "
                f"would begin behind {found:,}. If records have come to it since, behind its end of then, no "
                "runner can go on with them: put it back as it was, or begin anew with `flamestream reset`. If a "
                "stream has given them other times, as one that came later, use the streaming runner for it"
            )


def _recorded_window(each: Input) -> RecordedWindow:
    if not each.source.journal:
        raise UserError(
            f"source {each.name!r} cannot be read in micro-batches: its records get their times as they come, "
            "and Spark's offset log cannot say which. Use the streaming runner for it; with "
            "spec.journal.keep: true there, micro-batches read what was recorded"
        )
    entries = [entry for entry in each.source.entries() if entry.time < each.until]
    if not entries and not each.source.front.of_call:
        raise UserError(
            f"source {each.name!r} has no record in the journal, and micro-batches read only what a stream "
            "has recorded of it: run the job as a stream first"
        )
    return RecordedWindow(each.source, entries)


def _window(each: Input) -> Window:
    spec = sources.settings_of(each.source.spec, each.where)
    if isinstance(spec, GeneratorSpec):
        return NumberWindow(each.stamps, spec.count, spec.rate, _function(spec, each))
    if isinstance(spec, FilesSpec):
        reading = Reading.of(spec, each.name, each.where)
        return RecordWindow(each.stamps, reading.place().listing(settled_only=False), reading)
    raise UserError(
        f"source {each.name!r} cannot be read in micro-batches, which read files and generators, and what a "
        "stream has recorded of sources with a journal. Use the streaming runner for it"
    )
