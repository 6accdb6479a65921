"""Segments: rows of a snapshot as a Parquet file that Spark, pyarrow or anyone else can read.

One row group, six plain columns, sorted by (operation, slot, key, epoch), so that the rows of a key stand
together and merging needs no look at a state. Pages carry checksums; the whole file's SHA-256 is in the
index (snapshots.py). Encoding runs in a helper thread: what needs the interpreter is cut into slices of
`SLICE` rows or chains with a pause between them, the rest (sort, encode, compress, merge) is Arrow's and lets
the interpreter go, as joining more than 1 MB of values does. No other threads are asked to help.

>>> row = Row(operation=1, slot=7, key=b"k", epoch=3, full=True, state=b"s")
>>> chains_in([part_of(read_segment(written(table_of([row]))))])[0].states
(b's',)

Keeps: the same rows give the same bytes; damaged or foreign bytes are Corrupt, never other rows. Does not:
know what a state is. Format: docs/reference/formats.md.
"""

import time
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from importlib import import_module
from itertools import accumulate, pairwise
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flamestream.core.protocol.chain import Chain, Row
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Slot
from flamestream.model.state_names import LEAST_NUMBER

if TYPE_CHECKING:  # a worker's start does not wait for Arrow
    from pyarrow import Array, BooleanArray, DataType, Int64Array, Schema, Table

SLICE: Final = 512
"""Rows encoded, or chains decoded, between two offers of the interpreter to other threads: 0.2 and 0.5 ms."""
PAGE_BYTES: Final = 128 << 10
"""Bytes of a page: so few that its memory is used again by the next one; greater ones are new to the process,
and slow, each time."""
PAGE_ROWS: Final = 64
"""Rows after which it is looked whether a page is full."""
COLUMNS: Final = ("operation", "slot", "key", "epoch", "full", "state")
STATE: Final = COLUMNS.index("state")
ORDER: Final = [(name, "ascending") for name in ("operation", "slot", "key", "epoch")]


def pause() -> None:
    """Let another thread have the interpreter."""
    time.sleep(0)


def table_of(rows: Sequence[Row], between: Callable[[], None] = pause) -> "Table":
    """The Arrow table of a segment with these rows. `between` is called between slices; it may raise to give
    up."""
    pa = _arrow()
    schema = _schema(pa)
    batches = []
    for start in range(0, len(rows), SLICE):
        part = rows[start : start + SLICE]
        columns = [
            _column(values, field.type) for values, field in zip(zip(*part, strict=True), schema, strict=True)
        ]
        batches.append(pa.record_batch(columns, schema=schema))
        between()
    return _sorted(pa.Table.from_batches(batches, schema))


def read_segment(data: bytes, name: str = "segment", *, verified: bool = False) -> "Table":
    """The rows of a segment as an Arrow table, sorted, as they were written. Raises Corrupt that names
    `name`. `verified`: somebody has compared the checksum of the whole file, so those of its pages say
    nothing new."""
    from pyarrow import parquet

    pa = _arrow()
    try:
        file = parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=not verified)
        table = file.read(use_threads=False)
        table.validate(full=not verified)
    # MemoryError too: a damaged length may ask for any amount.
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise Corrupt(
            f"{name} is damaged: {str(error)[:200]}; restore it from a backup, or choose an older snapshot"
        ) from error
    expected = _schema(pa)
    if [(f.name, f.type) for f in table.schema] != [(f.name, f.type) for f in expected] or any(
        c.null_count for c in table.columns
    ):
        raise Corrupt(
            f"{name} is not a segment: its columns are {table.schema.names}, a segment's are {list(COLUMNS)}"
        )
    return table.cast(expected)


class Part(NamedTuple):
    """The rows of one segment that are wanted."""

    rows: "Table"
    """An Arrow table of all columns but the states."""
    states: list[bytes]


def part_of(
    table: "Table",
    slots: Collection[Slot] | None = None,
    after: int = -1,
    between: Callable[[], None] = pause,
) -> Part:
    """The rows of a segment (`read_segment`) that are of `slots`, if given, and of epochs above `after`.

    Whoever opens many lets each table go before the next: most of what a great load costs is memory that is
    new to the process."""
    table = _chosen(_compute(), table, slots, after)
    states: list[bytes] = []
    for batch in table.select(["state"]).to_batches(max_chunksize=SLICE):
        states += batch.column(0).to_pylist()
        between()
    return Part(table.drop_columns("state"), states)


def chains_in(parts: Sequence[Part], between: Callable[[], None] = pause) -> list[Chain]:
    """The chains of all rows of some segments: those that `chain.chains_of` gives."""
    pa, compute = _arrow(), _compute()
    rows = pa.concat_tables(
        # an empty one first, for Arrow does not concatenate nothing
        [pa.Table.from_batches([], _schema(pa).remove(STATE)), *(part.rows for part in parts)]
    ).combine_chunks()
    if rows.num_rows == 0:
        return []
    # Python's bytes: sorting moves rows of numbers, never states
    states = [state for part in parts for state in part.states]
    order = compute.sort_indices(rows, sort_keys=ORDER)
    rows = rows.take(order).combine_chunks()
    stays = compute.invert(_superseded(pa, compute, rows))
    rows, order = rows.filter(stays).combine_chunks(), order.filter(stays)
    starts = compute.indices_nonzero(_firsts(pa, compute, rows)).to_pylist()
    chains: list[Chain] = []
    for first in range(0, len(starts), SLICE):
        chains += _chains(
            rows, order, states, [*starts[first : first + SLICE + 1], rows.num_rows][: SLICE + 1]
        )
        between()
    return chains


def _chosen(compute: ModuleType, table: "Table", slots: Collection[Slot] | None, after: int) -> "Table":
    if after >= 0:
        table = _filtered(
            compute,
            table,
            compute.greater(table["epoch"], _column([after], table.schema.field("epoch").type)[0]),
        )
    if slots is not None:
        wanted = _column(sorted(slots), table.schema.field("slot").type)
        table = _filtered(compute, table, compute.is_in(table["slot"], value_set=wanted))
    return table


def _filtered(compute: ModuleType, table: "Table", mask: "BooleanArray") -> "Table":
    """The table itself if all its rows stay, as they mostly do: a filter copies all states, which cost more
    than all the rest here."""
    return table if compute.all(mask, min_count=0).as_py() else table.filter(mask)


def _chains(
    rows: "Table", order: "Int64Array", states: Sequence[bytes], bounds: Sequence[int]
) -> Iterator[Chain]:
    """The chains of sorted rows, a key's from each bound to the next; `order` says where the state of each
    row is."""
    base, count = bounds[0], bounds[-1] - bounds[0]
    operation, slot, key, epoch, full = (column.to_pylist() for column in rows.slice(base, count).columns)
    its = [states[place] for place in order.slice(base, count).to_pylist()]
    for start, end in pairwise(bound - base for bound in bounds):
        yield Chain(
            operation[start], slot[start], key[start], epoch[end - 1], full[start], tuple(its[start:end])
        )


def of_operations(table: "Table", kept: Collection[int] | None) -> "Table":
    """The rows that a merge takes of a segment: those of `kept` operations, and those whose operations are
    places. None: all."""
    if kept is None:
        return table
    compute, kind = _compute(), table.schema.field("operation").type
    named = compute.is_in(table["operation"], value_set=_column(sorted(kept), kind))
    places = compute.less(table["operation"], _column([LEAST_NUMBER], kind)[0])
    return _filtered(compute, table, compute.or_(named, places))


def of_keys(table: "Table", keys: Collection[bytes]) -> "Table":
    """The rows of these keys, whatever their operations."""
    compute = _compute()
    wanted = _column(sorted(keys), table.schema.field("key").type)
    return _filtered(compute, table, compute.is_in(table["key"], value_set=wanted))


def merged(tables: Sequence["Table"]) -> "Table":
    """A table with the rows of all, without those that a newer full row of the same key supersedes. States
    are not looked at, and those that go are never copied."""
    pa, compute = _arrow(), _compute()
    table = pa.concat_tables([pa.Table.from_batches([], _schema(pa)), *tables])
    if table.num_rows == 0:
        return table
    rows = table.drop_columns("state").combine_chunks()
    order = compute.sort_indices(rows, sort_keys=ORDER)
    stays = compute.invert(_superseded(pa, compute, rows.take(order).combine_chunks()))
    # Sorting a permutation inverts it: the mask goes back to the order of `table`, and no state is moved that
    # does not stay.
    return _sorted(table.filter(stays.take(compute.sort_indices(order))))


def _sorted(table: "Table") -> "Table":
    whole = table.combine_chunks()
    return whole.take(_compute().sort_indices(whole, sort_keys=ORDER))


def slots_in(table: "Table") -> tuple[Slot, ...]:
    """The slots of a segment's rows, sorted."""
    return tuple(sorted(Slot(slot) for slot in table["slot"].unique().to_pylist()))


def _superseded(pa: ModuleType, compute: ModuleType, table: "Table") -> "BooleanArray":
    """Whether each row of a sorted table stands before a newer full row of its key."""
    slot, epoch, full = (table[c].chunk(0) for c in ("slot", "epoch", "full"))
    first = _firsts(pa, compute, table)
    ends = compute.indices_nonzero(pa.concat_arrays([first.slice(1), _column([True], pa.bool_())]))
    zero, one = _column([0, 1], pa.int64())
    # 0 for the rows of the first key, and so on
    number = compute.subtract(compute.cumulative_sum(first.cast(pa.int64())), one)
    ones = compute.equal(slot, slot).cast(pa.int64())
    # not made from a range, which would keep the interpreter to itself
    at = compute.subtract(compute.cumulative_sum(ones), one)
    # none so far: row 0 is newer than none of its key
    last_full = compute.cumulative_max(compute.if_else(full, at, zero))
    candidate = last_full.take(ends).take(number)
    return compute.and_(
        compute.equal(number.take(candidate), number), compute.greater(epoch.take(candidate), epoch)
    )


def _firsts(pa: ModuleType, compute: ModuleType, table: "Table") -> "BooleanArray":
    """Whether each row of a sorted table is the first one of its key."""
    columns = [table[name].chunk(0) for name in ("operation", "slot", "key")]
    operation, slot, key = (compute.not_equal(c.slice(1), c.slice(0, table.num_rows - 1)) for c in columns)
    return pa.concat_arrays([_column([True], pa.bool_()), compute.or_(compute.or_(operation, slot), key)])


def written(table: "Table") -> memoryview:
    """The Parquet file. Plain encoding: dictionaries and statistics cost more than they save on unique
    keys."""
    from pyarrow import parquet  # lazily: a worker's start does not wait for it

    # not a file of Python's, which would want the interpreter for every page
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
        data_page_size=PAGE_BYTES,
        write_batch_size=PAGE_ROWS,
    )
    return memoryview(sink.getvalue()).cast("B")


def _schema(pa: ModuleType) -> "Schema":
    types = (pa.int32(), pa.int32(), pa.binary(), pa.int64(), pa.bool_(), pa.binary())
    return pa.schema(
        [pa.field(name, kind, nullable=False) for name, kind in zip(COLUMNS, types, strict=True)]
    )


def _column(values: Sequence[Any], kind: "DataType") -> "Array":
    """An Arrow array of `values`, without nulls. Made by hand, for `pyarrow.array` imports pandas where that
    is installed: a second, once, in the middle of a takeover."""
    pa = _arrow()
    if kind == pa.binary():
        ends = array("i", accumulate(map(len, values), initial=0))
        return pa.Array.from_buffers(
            kind, len(values), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
        )
    if kind == pa.bool_():
        return pa.Array.from_buffers(pa.uint8(), len(values), [None, pa.py_buffer(bytes(values))]).cast(kind)
    code = {pa.int32(): "i", pa.int64(): "q"}[kind]
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(array(code, values))])


def _arrow() -> ModuleType:
    return import_module("pyarrow")


def _compute() -> ModuleType:
    return import_module("pyarrow.compute")
