"""Parquet: rows, a batch at a time, so memory is bounded by a batch and the pages it touches, not by the file or a row group.

A file that is not Parquet is an error item; of a row group that is damaged, each row that cannot be read is one, and the next group is
read.

Keeps: row `n` of a file is the same at every read. Does not: follow (a Parquet file is whole or not there), or scan folders as tables
(columns that a path's parts name are not columns here).
"""

from collections.abc import Iterator
from typing import IO, Any, Final, Protocol

from flamestream.adapters.sources.files import Files, Found
from flamestream.adapters.sources.formats import Mark, Record, error_item
from flamestream.adapters.sources.rows import BadRow, Rows
from flamestream.model.errors import UserError

BATCH_ROWS: Final = 1024
BUFFER: Final = 1 << 20
"""Bytes that one column reads at once."""


class Payloads(Protocol):
    """What becomes of rows."""

    def check(self, file: Found, schema: Any) -> None:
        """Raises UserError if a column of `schema` cannot be in a payload."""
        ...

    def of(self, batch: Any) -> Iterator[Any]:
        """A payload a row, or the BadRow that it is."""
        ...


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
                yield from self._rows_from(file, opened, mark.offset)
        except pa.ArrowInvalid as error:
            if mark.offset == 0:
                yield Record(error_item(self._source, "DamagedFile", f"{file.name}: it is not a whole Parquet file: {error}"), file.size)
        except PermissionError as error:
            yield Record(error_item(self._source, "PermissionError", f"{file.name}: cannot be read: {error.strerror}"), 0)

    def skip(self, files: Files, file: Found, mark: Mark, upto: int, *, growing: bool = False) -> None:
        """By the footer alone."""
        import pyarrow as pa

        try:
            with files.open_seekable(file) as stream:
                opened = self._opened(stream)
                self._check_columns(file, opened)
                count = opened.metadata.num_rows
        except (pa.ArrowInvalid, PermissionError):
            count = 1  # the error item
        mark.offset = min(max(upto, mark.offset), count)

    def _opened(self, stream: IO[bytes]) -> Any:
        import pyarrow.parquet as pq  # lazily: it costs a worker without Parquet 0.1 s

        return pq.ParquetFile(stream, buffer_size=BUFFER, pre_buffer=False)

    def _check_columns(self, file: Found, opened: Any) -> None:
        there = opened.schema_arrow.names
        if missing := [name for name in self._columns or () if name not in there]:
            raise UserError(f"{file.path}: it has no column {', '.join(missing)}; it has {', '.join(there)}. Correct `columns`")
        self._rows.check(file, opened.schema_arrow)

    def _rows_from(self, file: Found, opened: Any, offset: int) -> Iterator[Record]:
        """The rows from `offset` on, group by group."""
        import pyarrow as pa

        first = 0
        for group in range(opened.num_row_groups):
            end = first + opened.metadata.row_group(group).num_rows
            if offset < end:
                row = first
                try:
                    for batch in opened.iter_batches(BATCH_ROWS, row_groups=[group], columns=self._columns, use_threads=False):
                        if row + batch.num_rows > offset:
                            skipped = max(0, offset - row)
                            yield from self._records(file, batch.slice(skipped), row + skipped)
                        row += batch.num_rows
                except (pa.ArrowInvalid, OSError) as error:
                    if isinstance(error, OSError) and (type(error) is not OSError or error.errno):
                        raise  # the disk's; what pyarrow finds wrong with the content has no number
                    yield from self._lost(file, max(row, offset), end, error)
            first = end

    def _lost(self, file: Found, row: int, end: int, error: Exception) -> Iterator[Record]:
        """An item for each row that cannot be read: offsets must stay what they are."""
        for lost in range(row, end):
            yield Record(error_item(self._source, "DamagedFile", f"{file.name}: row {lost + 1} cannot be read: {error}"), 1)

    def _records(self, file: Found, batch: Any, row: int) -> Iterator[Record]:
        size = max(1, batch.nbytes // max(1, batch.num_rows))
        for made in self._rows.of(batch):
            row += 1
            bad = type(made) is BadRow
            yield Record(error_item(self._source, "BadRow", f"{file.name}: row {row}: {made}") if bad else made, size)


def _plain(batch: Any) -> Any:
    """Nanoseconds as microseconds, which Python's times have."""
    import pyarrow as pa

    def cast(column: Any) -> Any:
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            return column.cast(pa.timestamp("us", column.type.tz), safe=False)
        return column

    return pa.RecordBatch.from_arrays([cast(column) for column in batch.columns], names=batch.schema.names)
