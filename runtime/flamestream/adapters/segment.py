"""Segments: rows of a snapshot as a Parquet file that Spark, pyarrow or anyone else can read.

One row group, six plain columns, sorted by (operation, slot, key, epoch), so that the rows of a key stand together and merging needs
no look at a state. Pages carry checksums; the whole file's SHA-256 is in the manifest (snapshots.py). Encoding runs in a helper
thread: what needs the interpreter is cut into slices of `SLICE` rows with a pause between them, the rest (sort, encode, compress,
merge) is Arrow's and lets the interpreter go.

>>> row = Row(operation=1, slot=7, key=b"k", epoch=3, full=True, state=b"s")
>>> decode_segment(encode_segment([row])) == [row]
True

Keeps: the same rows give the same bytes; damaged or foreign bytes are Corrupt, never other rows. Does not: know what a state is.
Format: docs/formats.md.
"""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from flamestream.core.events import Row
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Slot

SLICE: Final = 512
"""Rows handled between two offers of the interpreter to other threads: 0.2 ms of encoding, 0.5 ms of decoding."""
COLUMNS: Final = ("operation", "slot", "key", "epoch", "full", "state")
ORDER: Final = [(name, "ascending") for name in ("operation", "slot", "key", "epoch")]


def encode_segment(rows: Sequence[Row], between: Callable[[], None] = lambda: time.sleep(0)) -> bytes:
    """A Parquet file of `rows`. `between` is called between slices; it may raise to give up."""
    pa = _arrow()
    schema = _schema(pa)
    batches = []
    for start in range(0, len(rows), SLICE):
        part = rows[start : start + SLICE]
        columns = [pa.array(values, field.type) for values, field in zip(zip(*part, strict=True), schema, strict=True)]
        batches.append(pa.record_batch(columns, schema=schema))
        between()
    return _written(pa.Table.from_batches(batches, schema).sort_by(ORDER))


def decode_segment(
    data: bytes, name: str = "segment", slots: Collection[Slot] | None = None, between: Callable[[], None] = lambda: time.sleep(0)
) -> list[Row]:
    """Its rows, sorted, of `slots` only if given. Raises Corrupt that names `name`."""
    table = _read(data, name)
    if slots is not None:
        compute = _compute()
        wanted = _arrow().array(sorted(slots), table.schema.field("slot").type)
        table = table.filter(compute.is_in(table["slot"], value_set=wanted))
    rows: list[Row] = []
    for batch in table.to_batches(max_chunksize=SLICE):
        rows += map(Row, *(column.to_pylist() for column in batch.columns))
        between()
    return rows


def read_segment(data: bytes, name: str = "segment") -> Any:
    """Its rows as an Arrow table. Raises Corrupt that names `name`."""
    return _read(data, name)


def merge_segments(segments: Sequence[bytes], names: Sequence[str] = ()) -> bytes:
    """One segment with the rows of all, without those that a newer full row of the same key supersedes. States are not looked at."""
    pa, compute = _arrow(), _compute()
    labels = [*names, *(f"segment {i}" for i in range(len(names), len(segments)))]
    tables = [_read(data, label) for data, label in zip(segments, labels, strict=True)]
    table = pa.concat_tables([_schema(pa).empty_table(), *tables]).sort_by(ORDER).combine_chunks()
    if table.num_rows == 0:
        return _written(table)
    key = _key_numbers(pa, compute, table)
    newest_full = compute.if_else(table["full"], table["epoch"], -1)
    newest = pa.table({"key": key, "epoch": newest_full}).group_by("key", use_threads=False).aggregate([("epoch", "max")])
    keep = compute.greater_equal(table["epoch"], newest["epoch_max"].take(key))
    return _written(table.filter(keep))


def count_rows(data: bytes, name: str = "segment") -> tuple[int, tuple[Slot, ...]]:
    """How many rows, and of which slots."""
    table = _read(data, name)
    return table.num_rows, tuple(sorted(Slot(slot) for slot in table["slot"].unique().to_pylist()))


def _key_numbers(pa: Any, compute: Any, table: Any) -> Any:
    """0 for the rows of the first (operation, slot, key) of a sorted table, 1 for those of the second, and so on."""
    rest = table.num_rows - 1
    operation, slot, key = (compute.not_equal(table[c].slice(1), table[c].slice(0, rest)) for c in ("operation", "slot", "key"))
    differs = compute.or_(compute.or_(operation, slot), key)
    starts = pa.chunked_array([pa.array([False]), *differs.chunks])
    return compute.cumulative_sum(starts.cast(pa.int64())).combine_chunks()


def _written(table: Any) -> bytes:
    """Plain encoding: dictionaries and statistics cost more than they save on unique keys."""
    from pyarrow import parquet  # lazily: a worker's start does not wait for it

    sink = _arrow().BufferOutputStream()
    parquet.write_table(
        table.combine_chunks(),
        sink,
        row_group_size=max(1, table.num_rows),
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
        write_statistics=False,
        write_page_checksum=True,
        store_schema=False,
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _read(data: bytes, name: str) -> Any:
    from pyarrow import parquet

    pa = _arrow()
    try:
        file = parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        table = file.read(use_threads=False)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise Corrupt(f"{name} is damaged: {str(error)[:200]}; restore it from a backup, or choose an older snapshot") from error
    expected = _schema(pa)
    if [(f.name, f.type) for f in table.schema] != [(f.name, f.type) for f in expected] or any(c.null_count for c in table.columns):
        raise Corrupt(f"{name} is not a segment: its columns are {table.schema.names}, a segment's are {list(COLUMNS)}")
    return table.cast(expected)


def _schema(pa: Any) -> Any:
    types = (pa.int32(), pa.int32(), pa.binary(), pa.int64(), pa.bool_(), pa.binary())
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in zip(COLUMNS, types, strict=True)])


def _arrow() -> Any:
    import pyarrow

    return pyarrow


def _compute() -> Any:
    import pyarrow.compute

    return pyarrow.compute
