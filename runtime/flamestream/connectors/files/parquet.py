"""Parquet: rows, a batch at a time, so memory is bounded by a batch and the pages it touches, not by the file
or a row group.

A file of 14 kB can stand for gigabytes: pages that unpack to a multiple, one text that a thousand rows point
at, a row with a list of a hundred million zeros. So a row group says what it unpacks to before it is read
(its rows are error items if that is too much); texts that rows point at stay what they are, once, until a few
rows at a time become payloads; and a row has at most `MAX_RECORD` bytes.

A file that is not Parquet is an error item; of a row group that is damaged, each row that cannot be read is
one, and the next group is read.

Keeps: row `n` of a file is the same at every read. Does not: follow (a Parquet file is whole or not there),
or scan folders as tables (columns that a path's parts name are not columns here).
"""

from collections.abc import Iterator
from typing import IO, Any, Final, Protocol

from flamestream.connectors.files.formats import Mark, Record
from flamestream.connectors.files.places import Files, Found
from flamestream.connectors.kit.producer import MAX_RECORD, error_item
from flamestream.connectors.kit.rows import BadRow, Rows
from flamestream.model.collections import Map
from flamestream.model.errors import UserError

BATCH_ROWS: Final = 1024
BUFFER: Final = 1 << 20
"""Bytes that one column reads at once."""
MAX_UNPACKED: Final = 256 << 20
MAX_RATIO: Final = 1000
"""A column of a row group unpacks to at most `MAX_UNPACKED` bytes, or `MAX_RATIO` times what it has in the
file."""
SMALL_TEXTS: Final = MAX_RECORD // BATCH_ROWS
"""A column that unpacks to fewer bytes has no text which, in each row of a batch, would make more than
`MAX_RECORD`."""


class Payloads(Protocol):
    """The part of the format that makes payloads of rows."""

    def check(self, file: Found, schema: Any) -> None:
        """Raises UserError if a column of `schema` cannot be in a payload."""

    def of(self, batch: Any) -> Iterator[Any]:
        """A payload a row, or the BadRow that it is."""


class Mapped:
    """Rows as fs.Map or as instances of a class."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def check(self, file: Found, schema: Any) -> None:
        """Whatever stands in a column can be."""

    def of(self, batch: Any) -> Iterator[Any]:
        for values in _plain(batch).to_pylist():
            try:
                yield self._rows.of_values(values)
            except BadRow as error:
                yield error


class Tuples:
    """Rows as tuples (`tuples: true`): the columns in their order, or the value of the one that is chosen.

    Lists and structs are tuples, maps are fs.Map. What no payload can hold (a date, a decimal) is refused by
    its column's name before anything is read: cast it where the file is written."""

    def __init__(self, source: str, columns: list[str]) -> None:
        self._source, self._columns = source, columns

    def check(self, file: Found, schema: Any) -> None:
        for field in schema:
            if (not self._columns or field.name in self._columns) and not _fits(field.type):
                raise UserError(
                    f"source {self._source!r}: column {field.name!r} of {file.path} is {field.type}, which "
                    "no payload can hold: cast it to "
                    "bigint, double or string where the file is written, or leave it out by `columns`"
                )

    def of(self, batch: Any) -> Iterator[Any]:
        columns = [_plain_column(column) for column in batch.columns]
        yield from columns[0] if len(self._columns) == 1 else zip(*columns, strict=True)


class ParquetRows:
    """`Format`."""

    whole = True

    def __init__(self, source: str, rows: Payloads, columns: list[str]) -> None:
        self._source, self._rows = source, rows
        self._columns = columns or None

    def records(self, files: Files, file: Found, mark: Mark, *, growing: bool = False) -> Iterator[Record]:
        import pyarrow as pa

        try:
            with files.open_seekable(file) as stream:
                opened = self._opened(stream)
                self._check_columns(file, opened)
                opened = self._opened(stream, opened)
                yield from self._rows_from(file, opened, mark.offset)
        except pa.ArrowInvalid as error:
            # It is the only record of such a file: who is past it has had it.
            if mark.offset == 0:
                yield Record(
                    error_item(
                        self._source, "DamagedFile", f"{file.name}: it is not a whole Parquet file: {error}"
                    ),
                    file.size,
                )
        except PermissionError as error:
            yield Record(
                error_item(self._source, "PermissionError", f"{file.name}: cannot be read: {error.strerror}"),
                0,
            )

    def skip(self, files: Files, file: Found, mark: Mark, upto: int, *, growing: bool = False) -> None:
        """Count by the footer alone."""
        import pyarrow as pa

        try:
            with files.open_seekable(file) as stream:
                opened = self._opened(stream)
                self._check_columns(file, opened)
                count = opened.metadata.num_rows
        except (pa.ArrowInvalid, PermissionError):
            count = 1  # the error item
        mark.offset = min(max(upto, mark.offset), count)

    def _opened(self, stream: IO[bytes], known: Any = None) -> Any:
        """`known`: opened before; now texts that its rows may point at are left as they are."""
        import pyarrow.parquet as pq  # lazily: it costs a worker without Parquet 0.1 s

        if known is None:
            # Not buffered ahead, which reads whole column chunks: memory is to be bounded by a batch and its
            # pages.
            return pq.ParquetFile(stream, buffer_size=BUFFER, pre_buffer=False)
        shared = shared_texts(known.metadata)
        if not shared:
            return known
        return pq.ParquetFile(
            stream, metadata=known.metadata, read_dictionary=shared, buffer_size=BUFFER, pre_buffer=False
        )

    def _check_columns(self, file: Found, opened: Any) -> None:
        there = opened.schema_arrow.names
        if missing := [name for name in self._columns or () if name not in there]:
            raise UserError(
                f"{file.path}: it has no column {', '.join(missing)}; it has {', '.join(there)}. "
                "Correct `columns`"
            )
        self._rows.check(file, opened.schema_arrow)

    def _rows_from(self, file: Found, opened: Any, offset: int) -> Iterator[Record]:
        """The rows from `offset` on, group by group."""
        import pyarrow as pa

        first = 0
        for group in range(opened.num_row_groups):
            end = first + opened.metadata.row_group(group).num_rows
            if offset < end and (reason := too_much(opened.metadata.row_group(group), self._columns)):
                yield from self._lost(file, max(first, offset), end, reason)
            elif offset < end:
                row = first
                try:
                    for batch in opened.iter_batches(
                        BATCH_ROWS, row_groups=[group], columns=self._columns, use_threads=False
                    ):
                        if row + batch.num_rows > offset:
                            skipped = max(0, offset - row)
                            yield from self._records(file, batch.slice(skipped), row + skipped)
                        row += batch.num_rows
                except (pa.ArrowInvalid, OSError) as error:
                    if isinstance(error, OSError) and (type(error) is not OSError or error.errno):
                        raise  # the disk's; what pyarrow finds wrong with the content has no number
                    yield from self._lost(file, max(row, offset), end, error)
            first = end

    def _lost(self, file: Found, row: int, end: int, error: Exception | str) -> Iterator[Record]:
        """An item for each row that cannot be read: offsets must stay what they are."""
        for lost in range(row, end):
            yield Record(
                error_item(
                    self._source, "DamagedFile", f"{file.name}: row {lost + 1} cannot be read: {error}"
                ),
                1,
            )

    def _records(self, file: Found, batch: Any, row: int) -> Iterator[Record]:
        for part in _in_bounds(batch):
            size = max(1, _bytes_of(part) // part.num_rows)
            if size > MAX_RECORD:  # it is a row alone
                row += 1
                yield Record(
                    error_item(
                        self._source,
                        "RecordTooLong",
                        f"{file.name}: row {row} has more than {MAX_RECORD} bytes",
                    ),
                    size,
                )
                continue
            for made in self._rows.of(part):
                row += 1
                bad = type(made) is BadRow
                yield Record(
                    error_item(self._source, "BadRow", f"{file.name}: row {row}: {made}") if bad else made,
                    size,
                )


def too_much(group: Any, columns: list[str] | None) -> str:
    """Why a row group is not read; "" if it may be. In a list each value counts 8 bytes, whatever it takes
    packed."""
    for number in range(group.num_columns):
        column = group.column(number)
        if columns and not any(f"{column.path_in_schema}.".startswith(f"{name}.") for name in columns):
            continue
        values = column.num_values if column.num_values > group.num_rows else 0
        unpacked, limit = (
            max(column.total_uncompressed_size, 8 * values),
            max(MAX_UNPACKED, MAX_RATIO * column.total_compressed_size),
        )
        if unpacked > limit:
            name, packed = column.path_in_schema, column.total_compressed_size
            way_out = "write smaller row groups, or leave it out by `columns`"
            return (
                f"column {name} of its row group unpacks from {packed} to {unpacked} bytes, more than "
                f"{limit}: {way_out}"
            )
    return ""


def shared_texts(metadata: Any) -> list[str]:
    """Columns of texts or bytes whose rows point into a dictionary, which may have long ones."""
    found = set()
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for number in range(group.num_columns):
            column = group.column(number)
            if (
                column.physical_type == "BYTE_ARRAY"
                and column.has_dictionary_page
                and column.total_uncompressed_size > SMALL_TEXTS
            ):
                found.add(column.path_in_schema)
    return sorted(found)


def _in_bounds(batch: Any) -> Iterator[Any]:
    """The batch in parts of at most `MAX_RECORD` bytes, a greater row alone; texts are written out a part at
    a time."""
    most = max(1, sum(_most_bytes(column) for column in batch.columns))
    step = max(1, MAX_RECORD // most)
    for first in range(0, batch.num_rows, step):
        part = _written_out(batch.slice(first, step))
        if _bytes_of(part) <= MAX_RECORD or part.num_rows == 1:
            yield part
        else:
            yield from (part.slice(row, 1) for row in range(part.num_rows))


def _most_bytes(column: Any) -> int:
    """The bytes that one row of the column may take, where rows point at texts; 0 where they have their own,
    which take what they take."""
    import pyarrow.compute as pc
    from pyarrow import types

    if _points_at_texts(column.type):
        return pc.max(pc.binary_length(column.dictionary)).as_py() or 0
    if types.is_struct(column.type):
        return sum(map(_most_bytes, column.flatten()))
    if types.is_nested(column.type):
        ends = column.offsets if types.is_map(column.type) else None
        lengths = pc.list_value_length(column) if ends is None else pc.subtract(ends[1:], ends[:-1])
        return (pc.max(lengths).as_py() or 0) * _most_bytes(_members(column))
    return 0


def _bytes_of(part: Any) -> int:
    """The bytes of a batch or a column, with all texts written out."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    if isinstance(part, pa.RecordBatch):
        return sum(map(_bytes_of, part.columns))
    if _points_at_texts(part.type):
        return pc.sum(pc.binary_length(part.dictionary).take(part.indices)).as_py() or 0
    if types.is_struct(part.type):
        return sum(map(_bytes_of, part.flatten()))
    if types.is_nested(part.type):
        members = _members(part)
        return max(_bytes_of(members), 8 * len(members))  # as Python has them
    return int(part.nbytes)


def _members(column: Any) -> Any:
    """The members of a column's lists or maps that are in it (a slice has no others)."""
    from pyarrow import types

    if not types.is_map(column.type):
        return column.flatten()
    first, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
    return column.values.slice(first, end - first)


def _points_at_texts(kind: Any) -> bool:
    from pyarrow import types

    of = kind.value_type if types.is_dictionary(kind) else None
    return of is not None and (
        types.is_string(of) or types.is_binary(of) or types.is_large_string(of) or types.is_large_binary(of)
    )


def _written_out(batch: Any) -> Any:
    import pyarrow as pa

    shared = [_points_at_texts(column.type) for column in batch.columns]
    if not any(shared):
        return batch
    columns = [
        column.dictionary_decode() if one else column
        for column, one in zip(batch.columns, shared, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _plain(batch: Any) -> Any:
    """Nanoseconds as microseconds, which Python's times have."""
    import pyarrow as pa

    def cast(column: Any) -> Any:
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            return column.cast(pa.timestamp("us", column.type.tz), safe=False)
        return column

    return pa.RecordBatch.from_arrays([cast(column) for column in batch.columns], names=batch.schema.names)


def _fits(kind: Any) -> bool:
    from pyarrow import types

    if types.is_list(kind) or types.is_large_list(kind):
        return _fits(kind.value_type)
    if types.is_struct(kind):
        return all(_fits(kind.field(number).type) for number in range(kind.num_fields))
    if types.is_map(kind):
        return _fits(kind.key_type) and _fits(kind.item_type)
    plain = (
        types.is_boolean,
        types.is_integer,
        types.is_floating,
        types.is_string,
        types.is_large_string,
        types.is_binary,
        types.is_null,
    )
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
