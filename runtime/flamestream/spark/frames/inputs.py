"""Inputs: the sources of a manifest as pieces for tasks.

| source                        | pieces                                                            |
|-------------------------------|-------------------------------------------------------------------|
| files of a folder, a record a file | some files each                                              |
| files of a folder, a line each | bytes of files; lines are counted first, by a job of their own     |
| parquet                       | some rows each                                                     |
| generator with `count`        | some numbers each                                                 |
| any other that ends           | one, read through the source's own producer                       |
| journalled, with a kept journal | one a front: the recorded runs                                  |

Keeps: record numbers, and so times, are the streaming engine's. Does not: read records (adapters/sources/pieces.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flamestream.adapters.sources import GeneratorSpec, ParquetSpec
from flamestream.adapters.sources.documents import Documents
from flamestream.adapters.sources.files import is_gzip
from flamestream.adapters.sources.files_spec import FilesSpec
from flamestream.adapters.sources.lines import Lines as LinesFormat
from flamestream.adapters.sources.lines import Text
from flamestream.adapters.sources.listing import LocalFiles, places
from flamestream.adapters.sources.parquet_table import Table, rows_in_pieces
from flamestream.adapters.sources.pieces import (
    PIECE_RECORDS,
    Files,
    Lines,
    Part,
    Piece,
    Runs,
    Stamps,
    files_in_groups,
    numbers_in_pieces,
    parts_of,
)
from flamestream.adapters.sources.recorded import RecordedSource
from flamestream.adapters.sources.windows import FileWindow, LineWindow, NumberWindow, Planner, RowWindow, Window
from flamestream.adapters.spec import convert, function_of
from flamestream.model.errors import UserError
from flamestream.model.time import Time


@dataclass(frozen=True, slots=True)
class Input:
    """One source of the graph. `bounded`: it ends, or what there is of it is recorded."""

    vertex: int
    source: RecordedSource
    bounded: bool

    @property
    def name(self) -> str:
        return self.source.front.source

    @property
    def stamps(self) -> Stamps:
        return Stamps(self.source.front.front, self.source.front.run_length)


def pieces_of(spark: Any, inputs: Sequence[Input], end: Time | None = None) -> list[tuple[int, Piece]]:
    """All input; what is below `end` of sources that have none. Raises UserError that names a source without an end."""
    return [(each.vertex, piece) for each in inputs for piece in _pieces(spark, each, end)]


def _pieces(spark: Any, each: Input, end: Time | None) -> Sequence[Piece]:
    ((kind, fields),) = each.source.spec.items()
    where = f"spec.sources.{each.name}.{kind}"
    if not each.source.front.timed:
        return [_recorded(each, end)]
    if kind == "files":
        return _file_pieces(spark, each, convert(FilesSpec, fields, where), end)
    if kind == "parquet":
        return rows_in_pieces(each.stamps, _table(each, convert(ParquetSpec, fields, where)), PIECE_RECORDS)
    if kind == "generator":
        spec = convert(GeneratorSpec, fields or {}, where)
        function = None if spec.function is None else function_of(spec.function, f"{where}.function")
        if end is None:
            _check_bounded(each)
        below = None if end is None else each.stamps.runs_below(end) * each.stamps.run_length
        counts = [count for count in (spec.count, below) if count is not None]
        return numbers_in_pieces(each.stamps, min(counts, default=None), function)
    if end is None:
        _check_bounded(each)
    return [Below(each.source, end)]


def _recorded(each: Input, end: Time | None) -> Piece:
    if not each.source.journal:
        raise UserError(
            f"source {each.name!r} has no end, so a batch cannot read it. Use the streaming runner, or set spec.journal.keep: true "
            "there: a batch then reads what was recorded"
        )
    return Below(each.source, end)


@dataclass(frozen=True, slots=True)
class Below:
    """A source through its producer or journal, up to `end`."""

    source: RecordedSource
    end: Time | None

    def runs(self) -> Runs:
        return self.source.runs() if self.end is None else ((time, 0, records) for time, records in self.source.below(self.end))


def _check_bounded(each: Input) -> None:
    if not each.bounded:
        raise UserError(f"source {each.name!r} has no end, so a batch cannot read it: bound it, or use another runner")


def _file_pieces(spark: Any, each: Input, spec: FilesSpec, end: Time | None) -> Sequence[Piece]:
    if not _is_local_text(spec):
        return [Below(each.source, end)]
    place = LocalFiles(places(spec.path, spec.paths), spec.pattern)
    found = place.listing(settled_only=False)
    pieces: list[Piece] = []
    first = 0
    if not spec.by_line:
        for files in files_in_groups(found):
            pieces.append(Files(each.stamps, first, files, place, Documents(each.name, spec.encoding)))
            first += len(files)
        return pieces
    if any(is_gzip(file) for file in found):
        return [Below(each.source, end)]
    groups = parts_of(found)
    for group, count in zip(groups, _counts(spark, groups), strict=True):
        pieces.append(Lines(each.stamps, first, group, place, LinesFormat(each.name, Text(spec.encoding))))
        first += count
    return pieces


def _table(each: Input, spec: ParquetSpec) -> Table:
    return Table.at(each.name, spec.path, spec.columns)


def _counts(spark: Any, groups: list[list[Part]]) -> list[int]:
    if len(groups) < 2:  # where the first one ends does not matter
        return [0] * len(groups)
    counts: list[int] = spark.sparkContext.parallelize(groups, len(groups)).map(_count).collect()
    return counts


def _count(group: list[Part]) -> int:
    return sum(part.count() for part in group)


def planner_of(inputs: Sequence[Input], most_runs: int) -> Planner:
    """For micro-batches. Raises UserError that names a source whose order only a journal knows."""
    return Planner({each.source.front.front: _window(each) for each in inputs}, most_runs)


def _window(each: Input) -> Window:
    ((kind, fields),) = each.source.spec.items()
    where = f"spec.sources.{each.name}.{kind}"
    if each.source.front.timed and kind == "generator":
        spec = convert(GeneratorSpec, fields or {}, where)
        function = None if spec.function is None else function_of(spec.function, f"{where}.function")
        return NumberWindow(each.stamps, spec.count, spec.rate, function)
    if each.source.front.timed and kind == "parquet":
        return RowWindow(each.stamps, _table(each, convert(ParquetSpec, fields, where)))
    if each.source.front.timed and kind == "files":
        return _file_window(each, convert(FilesSpec, fields, where))
    raise UserError(
        f"source {each.name!r} cannot be read in micro-batches: its records get their times as they come, and Spark's offset log cannot "
        "say which. Use the streaming runner for it"
    )


def _file_window(each: Input, spec: FilesSpec) -> Window:
    place = LocalFiles(places(spec.path, spec.paths), spec.pattern)
    if not _is_local_text(spec) or (spec.by_line and any(map(is_gzip, place.listing(settled_only=False)))):
        raise UserError(
            f"source {each.name!r} cannot be read in micro-batches: only plain text of a folder can. Use the batch or the streaming runner "
            "for rows, packed files and S3, or save the input as Parquet (`save_input`)"
        )
    found = place.listing(settled_only=False)
    if spec.by_line:
        return LineWindow(each.stamps, found, place, LinesFormat(each.name, Text(spec.encoding)))
    return FileWindow(each.stamps, found, place, Documents(each.name, spec.encoding))


def _is_local_text(spec: FilesSpec) -> bool:
    """Its records can be found without reading all that stands before."""
    return spec.format == "text" and not spec.in_s3 and spec.manifest is None
