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
    """How parts are written."""

    ending: str

    def writer(self) -> "PartWriter": ...

    def rows(self, data: bytes, name: str) -> Iterator[Row]:
        """Raises Corrupt that names the part."""
        ...


class PartWriter(Protocol):
    """One part under way, in memory."""

    def write(self, rows: Iterable[Row]) -> None: ...

    def finish(self) -> bytes: ...


class JsonLinesParts:
    """A JSON object a line; bytes are base64."""

    ending = "jsonl"

    def __init__(self, rows: RowType) -> None:
        self._rows = rows

    def writer(self) -> "JsonLinesWriter":
        return JsonLinesWriter(self._rows)

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
                raise Corrupt(f"{name}: line {number} is damaged, or of another version of the class: {error}") from error


class JsonLinesWriter:
    """`PartWriter`."""

    def __init__(self, rows: RowType) -> None:
        self._rows = rows
        self._bytes = bytearray()
        self._encode = msgspec.json.Encoder().encode

    def write(self, rows: Iterable[Row]) -> None:
        names = self._rows.names
        for row in rows:
            values = zip(names, self._rows.values(row), strict=True)
            self._bytes += self._encode({name: value for name, value in values if value is not None}) + b"\n"

    def finish(self) -> bytes:
        return bytes(self._bytes)


class ParquetParts:
    """zstd, statistics for the columns of the place, a row group each `GROUP_ROWS`."""

    ending = "parquet"

    def __init__(self, rows: RowType) -> None:
        self._rows = rows

    def writer(self) -> "ParquetWriter":
        return ParquetWriter(self._rows)

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


class ParquetWriter:
    """`PartWriter`."""

    def __init__(self, rows: RowType) -> None:
        import pyarrow.parquet as pq

        self._rows = rows
        self._schema = rows.arrow()
        self._sink = BytesIO()
        self._writer = pq.ParquetWriter(self._sink, self._schema, compression="zstd", write_page_checksum=True)
        self._batches: list[Any] = []
        self._waiting = 0

    def write(self, rows: Iterable[Row]) -> None:
        """In slices, so that the interpreter is never held for long."""
        import pyarrow as pa

        left = iter(rows)
        while some := [self._rows.values(row) for row in islice(left, BATCH_ROWS)]:
            columns = [pa.array(column, field.type) for column, field in zip(zip(*some, strict=True), self._schema, strict=True)]
            self._batches.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
            self._waiting += len(some)
            if self._waiting >= GROUP_ROWS:
                self._flush()

    def finish(self) -> bytes:
        self._flush()
        self._writer.close()
        return self._sink.getvalue()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches, self._schema).combine_chunks())
            self._batches, self._waiting = [], 0


def _listed(column: Any) -> Any:
    """As Python values; times are not looked at."""
    import pyarrow as pa

    return column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()


def part_format(name: str, type_name: str | None, where: str) -> PartFormat:
    """Parquet or jsonl, with rows of `type_name`. Raises ManifestError that begins with `where`."""
    if name == "parquet":
        return ParquetParts(row_type(type_name, where))
    return JsonLinesParts(row_type(type_name, where, text=True))
