"""The bytes of a part: Parquet or JSON lines, written and read a batch at a time.

Keeps: rows come back as they were, in their order. Does not: name parts, or store them (rolling.py).
"""

import base64
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import islice
from typing import Any, Final, Protocol

import msgspec

from flamestream.connectors.rolling.rows import Row, RowType, row_type
from flamestream.model.decoding import from_json
from flamestream.model.errors import Corrupt

BATCH_ROWS: Final = 4096
GROUP_ROWS: Final = 1 << 17


class PartFormat(Protocol):
    """A format in which parts are written and read."""

    ending: str

    def encoded(self, rows: Iterable[Row]) -> bytes:
        """The bytes of a part. Takes the rows one after the other, as they come."""

    def rows(self, data: bytes, name: str) -> Iterator[Row]:
        """The rows of a part. Raises Corrupt that names it."""


class JsonLinesParts:
    """A JSON object a line; bytes are base64."""

    ending = "jsonl"

    def __init__(self, rows: RowType) -> None:
        self._rows = rows

    def encoded(self, rows: Iterable[Row]) -> bytes:
        names, encode, made = self._rows.names, msgspec.json.Encoder().encode, bytearray()
        for row in rows:
            values = zip(names, self._rows.values(row), strict=True)
            made += encode({name: value for name, value in values if value is not None}) + b"\n"
        return bytes(made)

    def rows(self, data: bytes, name: str) -> Iterator[Row]:
        names = self._rows.names
        for number, line in enumerate(data.splitlines(), 1):
            try:
                found = from_json(line, dict[str, Any])
                values = [found.get(column) for column in names]
                values[1] = base64.b64decode(found["_meta"])
                values[-1] = None if values[-1] is None else base64.b64decode(values[-1])
                yield self._rows.row(values)
            except (msgspec.DecodeError, KeyError, ValueError, TypeError, AttributeError) as error:
                raise Corrupt(
                    f"{name}: line {number} is damaged, or of another version of the class: {error}"
                ) from error


class ParquetParts:
    """zstd, statistics for the columns of the place, a row group each `GROUP_ROWS`."""

    ending = "parquet"

    def __init__(self, rows: RowType) -> None:
        self._rows = rows

    def encoded(self, rows: Iterable[Row]) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema, sink = self._rows.arrow(), BytesIO()
        batches = self._batches(schema, rows)
        with pq.ParquetWriter(sink, schema, compression="zstd", write_page_checksum=True) as writer:
            while group := list(islice(batches, GROUP_ROWS // BATCH_ROWS)):
                writer.write_table(pa.Table.from_batches(group, schema).combine_chunks())
        return sink.getvalue()

    def _batches(self, schema: Any, rows: Iterable[Row]) -> Iterator[Any]:
        """Arrow's batches, in slices, so that the interpreter is never held for long."""
        import pyarrow as pa

        left = iter(rows)
        while some := [self._rows.values(row) for row in islice(left, BATCH_ROWS)]:
            columns = [
                pa.array(column, field.type)
                for column, field in zip(zip(*some, strict=True), schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def rows(self, data: bytes, name: str) -> Iterator[Row]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            opened = pq.ParquetFile(BytesIO(data))
            for batch in opened.iter_batches(BATCH_ROWS, columns=list(self._rows.names), use_threads=False):
                columns = [_listed(batch.column(i)) for i in range(batch.num_columns)]
                for values in zip(*columns, strict=True):
                    yield self._rows.row(list(values))
        except (pa.ArrowInvalid, OSError, KeyError) as error:
            raise Corrupt(f"{name} is damaged, or of another version of the class: {error}") from error


def _listed(column: Any) -> Any:
    """A column as Python values; times are not looked at."""
    import pyarrow as pa

    return column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()


def part_format(name: str, type_name: str | None, where: str) -> PartFormat:
    """Parquet or jsonl, with rows of `type_name`. Raises ManifestError that begins with `where`."""
    if name == "parquet":
        return ParquetParts(row_type(type_name, where))
    return JsonLinesParts(row_type(type_name, where, text=True))
