"""Segments: what was written is read, damage is never other rows, and merging keeps the state of every
key."""

import contextlib
import importlib.util
import io
import os
import random
import subprocess
import sys
from operator import itemgetter

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flamestream.core.protocol.chain import Row, chains_of
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Epoch, Slot
from flamestream.store.segment import (
    SLICE,
    chains_in,
    merged,
    part_of,
    read_segment,
    slots_in,
    table_of,
    written,
)
from support.segment_rows import decode_segment, encode_segment

ROWS = st.builds(
    Row,
    operation=st.integers(0, 2),
    slot=st.integers(0, 3).map(Slot),
    key=st.binary(max_size=2),
    epoch=st.integers(0, 5).map(Epoch),
    full=st.booleans(),
    state=st.binary(max_size=20),
)


def of_one_version(rows: list[Row]) -> list[Row]:
    """A key has one slot and one row an epoch."""
    return list(
        {
            (r.operation, r.key, r.epoch): Row(r.operation, Slot(len(r.key)), r.key, r.epoch, r.full, r.state)
            for r in rows
        }.values()
    )


def some(count: int, seed: int = 1) -> list[Row]:
    draw = random.Random(seed)
    return [
        Row(i % 3, Slot(i % 7), i.to_bytes(4, "big"), Epoch(i % 5), i % 2 == 0, draw.randbytes(i % 50))
        for i in range(count)
    ]


def order(row: Row) -> tuple[int, int, bytes, int]:
    return row.operation, row.slot, row.key, row.epoch


@given(st.lists(ROWS, max_size=30).map(of_one_version))
def test_rows_come_back_sorted(rows: list[Row]) -> None:
    assert decode_segment(encode_segment(rows)) == sorted(rows, key=order)


def test_more_rows_than_a_slice_come_back() -> None:
    rows = some(3 * SLICE + 1)
    assert decode_segment(encode_segment(rows)) == sorted(rows, key=order)
    assert slots_in(table_of(rows)) == tuple(range(7))


@given(
    st.lists(ROWS, max_size=40).map(of_one_version),
    st.integers(1, 4),
    st.sets(st.integers(0, 3)),
    st.integers(-1, 5),
)
def test_chains_are_those_of_the_rows(rows: list[Row], parts: int, slots: set[int], after: int) -> None:
    wanted = {Slot(slot) for slot in slots}
    opened = [part_of(read_segment(encode_segment(rows[i::parts])), wanted, after) for i in range(parts)]
    chosen = [row for row in rows if row.slot in slots and row.epoch > after]
    assert chains_in(opened) == sorted(chains_of(chosen), key=itemgetter(0, 1, 2))


@given(st.lists(ROWS, max_size=40).map(of_one_version), st.integers(0, 5))
def test_a_snapshot_is_an_older_one_and_what_came_since(rows: list[Row], epoch: int) -> None:
    older = {(c.operation, c.key): c for c in chains_of(row for row in rows if row.epoch <= epoch)}
    newer = {
        (c.operation, c.key): c.behind(older.get((c.operation, c.key)))
        for c in chains_of(row for row in rows if row.epoch > epoch)
    }
    assert older | newer == {(c.operation, c.key): c for c in chains_of(rows)}


def test_more_chains_than_a_slice_are_found() -> None:
    rows = some(3 * SLICE + 1)
    assert chains_in([part_of(read_segment(encode_segment(rows)))]) == sorted(
        chains_of(rows), key=itemgetter(0, 1, 2)
    )


@given(st.lists(ROWS, max_size=30).map(of_one_version), st.randoms(use_true_random=False))
def test_the_same_rows_in_any_order_give_the_same_bytes(rows: list[Row], draw: random.Random) -> None:
    other = rows.copy()
    draw.shuffle(other)
    assert encode_segment(rows) == encode_segment(other)


@given(st.lists(ROWS, max_size=40).map(of_one_version), st.integers(1, 4))
def test_merging_drops_what_a_newer_full_row_supersedes_and_nothing_else(rows: list[Row], parts: int) -> None:
    found = decode_segment(bytes(written(merged([table_of(rows[i::parts]) for i in range(parts)]))))
    newest_full = {(r.operation, r.key): r.epoch for r in sorted(rows, key=order) if r.full}
    assert found == sorted(
        (r for r in rows if r.epoch >= newest_full.get((r.operation, r.key), -1)), key=order
    )


@given(st.lists(ROWS, max_size=40).map(of_one_version), st.integers(1, 4))
def test_what_was_kept_and_what_was_read_again_merge_to_the_same_bytes(rows: list[Row], parts: int) -> None:
    kept = [table_of(rows[i::parts]) for i in range(parts)]
    assert written(merged(kept)) == written(merged([read_segment(bytes(written(table))) for table in kept]))


@settings(max_examples=300)
@given(st.integers(0, 10**6), st.integers(0, 7))
def test_a_flipped_bit_is_corrupt_or_harmless_but_never_other_rows(place: int, bit: int) -> None:
    data = bytearray(encode_segment(some(20)))
    data[place % len(data)] ^= 1 << bit
    with contextlib.suppress(Corrupt):
        assert decode_segment(bytes(data)) == sorted(some(20), key=order)


def test_a_segment_cut_short_is_corrupt() -> None:
    data = encode_segment(some(20))
    for length in range(len(data)):
        with pytest.raises(Corrupt, match="part-7"):
            decode_segment(data[:length], "part-7")


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"other": [1]}),
        pa.table({"operation": [1], "slot": [1], "key": [b""], "epoch": [1], "full": [True]}),
        pa.table(
            {"operation": [1], "slot": [1], "key": ["text"], "epoch": [1], "full": [True], "state": [b""]}
        ),
        pa.table(
            {"operation": [None], "slot": [1], "key": [b""], "epoch": [1], "full": [True], "state": [b""]}
        ),
    ],
)
def test_a_foreign_parquet_file_is_corrupt(table: pa.Table) -> None:
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file)
    with pytest.raises(Corrupt, match=r"foreign\.parquet is not a segment"):
        decode_segment(file.getvalue(), "foreign.parquet")


def test_other_readers_of_parquet_see_the_columns(tmp_path: object) -> None:
    path = f"{tmp_path}/one.parquet"
    with open(path, "wb") as file:
        file.write(encode_segment(some(30)))
    found = pyarrow.dataset.dataset(path).to_table(filter=pyarrow.dataset.field("slot") == 3)
    assert found.column_names == ["operation", "slot", "key", "epoch", "full", "state"]
    assert sorted(found["state"].to_pylist()) == sorted(r.state for r in some(30) if r.slot == 3)


def test_whoever_encodes_may_be_told_to_give_up() -> None:
    def give_up() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        table_of(some(1), give_up)
    with pytest.raises(InterruptedError):
        part_of(read_segment(encode_segment(some(1))), between=give_up)


def test_nothing_of_it_imports_pandas() -> None:
    """Which takes a second where it is installed, and would take it in the middle of a recovery."""
    program = """if True:
        import sys
        from flamestream.store.segment import chains_in, merged, part_of, read_segment, slots_in, table_of, written
        from flamestream.core.protocol.chain import Row
        data = written(table_of([Row(1, slot, b"k%d" % slot, 3, slot > 2, b"s") for slot in range(5)]))
        assert len(chains_in([part_of(read_segment(data), [1, 2], after=2)])) == 2
        assert merged([read_segment(data), read_segment(data)]).num_rows == 10
        assert slots_in(read_segment(data)) == (0, 1, 2, 3, 4)
        assert "pandas" not in sys.modules
    """
    assert importlib.util.find_spec("pandas"), "the test means nothing without it"
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
