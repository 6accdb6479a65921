"""A saved table as a bounded source (`parquet`; `spark.save_input` writes one): rows of a file, or of a folder's files by name.

A row is a payload: a tuple of its columns in their order, or the one column that is chosen. Lists and structs are tuples, maps are fs.Map.
What no payload can hold (a date, a decimal) is refused by its column's name before anything is read: cast it where the file is written.

Keeps: the same offset is the same row, as long as the files stay as they are (checked against their listing). Does not: sort: who writes
the files decides the order (spark.save_input does, for a DataFrame).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from flamestream.adapters.sources.files import CheckedFile, Found
from flamestream.adapters.sources.listing import listing, matcher, places
from flamestream.adapters.sources.pieces import Runs, Stamps
from flamestream.adapters.sources.reading import Chunk
from flamestream.core.events import Entry
from flamestream.model.collections import Map
from flamestream.model.errors import Bug, Corrupt, UserError
from flamestream.model.ids import Offset, Partition

PATTERN: Final = "**/*.parquet"
ROWS: Final = 4096
THE_PARTITION: Final = Partition("")


@dataclass(frozen=True, slots=True)
class Table:
    """Which rows. Picklable."""

    source: str
    files: tuple[Found, ...]
    columns: tuple[str, ...] | None
    """None: all."""

    @classmethod
    def at(cls, source: str, path: str, columns: Sequence[str] | None) -> "Table":
        """What is there now. Raises UserError if it is no Parquet, lacks a column, or has one that no payload can hold."""
        files = listing(places(path, []), matcher(PATTERN), settled_only=True)
        table = cls(source, tuple(files), None if columns is None else tuple(columns))
        for file in files:
            table._check(file)
        return table

    def counts(self) -> list[int]:
        """Rows of each file, from their footers."""
        return [int(_open(file).metadata.num_rows) for file in self.files]

    def rows(self, file: Found, first: int = 0) -> Iterator[tuple[Any, int]]:
        """(payload, bytes of input) of each row from `first` on."""
        CheckedFile(file).close()
        opened = _open(file)
        size = max(1, file.size // max(1, opened.metadata.num_rows))
        for batch in opened.iter_batches(batch_size=ROWS, columns=None if self.columns is None else list(self.columns)):
            if first >= batch.num_rows:
                first -= batch.num_rows
                continue
            columns = [_plain_column(column) for column in batch.slice(first).columns]
            first = 0
            payloads = columns[0] if self.columns is not None and len(self.columns) == 1 else zip(*columns, strict=True)
            yield from ((payload, size) for payload in payloads)

    def _check(self, file: Found) -> None:
        schema = _open(file).schema_arrow
        missing = [name for name in self.columns or () if name not in schema.names]
        if missing:
            raise UserError(f"source {self.source!r}: {file.path} has no column {missing[0]!r}; it has {', '.join(schema.names)}")
        for field in schema:
            if (self.columns is None or field.name in self.columns) and not _fits(field.type):
                raise UserError(
                    f"source {self.source!r}: column {field.name!r} of {file.path} is {field.type}, which no payload can hold: cast it to "
                    "bigint, double or string where the file is written, or leave it out by `columns`"
                )


class ParquetReader:
    """`reading.Reader` over a table."""

    idle_seconds = 0.0
    problem = ""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._offset = 0
        self._rows: Iterator[tuple[Any, int]] = iter(())
        self.ended = False

    def seek(self, offsets: Mapping[Partition, Offset]) -> None:
        self._offset = offsets.get(THE_PARTITION, Offset(0))
        self._rows = self._from(self._offset)
        self.ended = False

    def next(self, records: int, size: int) -> Sequence[Chunk]:
        chunk = Chunk(THE_PARTITION, Offset(self._offset), [], [])
        for payload, length in islice(self._rows, records):
            chunk.payloads.append(payload)
            chunk.sizes.append(length)
            size -= length
            if size <= 0:
                break
        else:
            self.ended = len(chunk.payloads) < records
        self._offset += len(chunk.payloads)
        return [chunk] if chunk.payloads else []

    def read(self, entry: Entry) -> list[object]:
        raise Bug(f"a Parquet source has no journalled runs, but was asked for {entry}")

    def _from(self, offset: int) -> Iterator[tuple[Any, int]]:
        for file, count in zip(self._table.files, self._table.counts(), strict=True):
            if offset >= count:
                offset -= count
                continue
            yield from self._table.rows(file, offset)
            offset = 0
        if offset > 0:
            raise Corrupt(f"source {self._table.source!r}: it has {offset} rows fewer than the job has read: restore its files")


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one file as a piece: `count` from `row` on, the first of which is record `first` of the source."""

    stamps: Stamps
    first: int
    table: Table
    file: Found
    row: int
    count: int

    def runs(self) -> Runs:
        return self.stamps.cut(self.first, (payload for payload, _ in islice(self.table.rows(self.file, self.row), self.count)))


def rows_in_pieces(stamps: Stamps, table: Table, size: int) -> list[Rows]:
    """All rows, about `size` a piece."""
    pieces, first = [], 0
    for file, count in zip(table.files, table.counts(), strict=True):
        pieces += [Rows(stamps, first + row, table, file, row, min(size, count - row)) for row in range(0, count, size)]
        first += count
    return pieces


def _open(file: Found) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(file.path)
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{file.path} cannot be read as Parquet: {str(error)[:200]}") from error


def _fits(kind: Any) -> bool:
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind):
        return _fits(kind.value_type)
    if types.is_struct(kind):
        return all(_fits(kind.field(number).type) for number in range(kind.num_fields))
    if types.is_map(kind):
        return _fits(kind.key_type) and _fits(kind.item_type)
    plain = (types.is_boolean, types.is_integer, types.is_floating, types.is_string, types.is_large_string, types.is_binary, types.is_null)
    return any(test(kind) for test in plain) or types.is_large_binary(kind)


def _plain_column(column: Any) -> list[Any]:
    from pyarrow import types

    values: list[Any] = column.to_pylist()
    nested = types.is_nested(column.type)
    return [_payload(value, column.type) for value in values] if nested else values


def _payload(value: Any, kind: Any) -> Any:
    from pyarrow import types

    if value is None:
        return None
    if types.is_map(kind):
        return Map({_payload(key, kind.key_type): _payload(item, kind.item_type) for key, item in value})
    if types.is_struct(kind):
        return tuple(_payload(value[kind.field(n).name], kind.field(n).type) for n in range(kind.num_fields))
    if types.is_list(kind) or types.is_large_list(kind):
        return tuple(_payload(member, kind.value_type) for member in value)
    return value
