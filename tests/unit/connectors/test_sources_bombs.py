"""Files that are small and stand for much: reading them takes no more memory than records may have, and the
error names file and limit."""

import gzip
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flamestream.connectors.files import parquet
from flamestream.connectors.files.spec import FilesSpec, reader
from flamestream.connectors.kafka.formats import decoder_of
from flamestream.connectors.kit.producer import MAX_RECORD
from flamestream.model.payload import ErrorValue

MIB = 1 << 20


def read(folder: Path, most: int = 10_000, **settings: Any) -> Iterator[object]:
    """Its records, a few at a time, as a job without much credit asks for them."""
    source = reader(FilesSpec(path=str(folder), **settings), "docs", "spec.sources.docs")
    source.seek({})
    while not source.ended and most > 0:
        for chunk in source.next(512, MIB):
            most -= len(chunk.payloads)
            yield from chunk.payloads


@contextmanager
def within(most: int) -> Iterator[None]:
    """Of Python's objects and Arrow's buffers, whatever is kept of them."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert peak < most, f"Python took {peak / MIB:.0f} MiB"
    assert (pool.max_memory() or 0) < most, f"Arrow took {(pool.max_memory() or 0) / MIB:.0f} MiB"


def texts(path: Path, size: int, rows: int = 1000) -> None:
    """Rows that all point at one text."""
    column = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * size])
    pq.write_table(pa.table({"text": column, "number": range(rows)}), path, store_schema=False)


@pytest.mark.parametrize("settings", [{}, {"tuples": True}, {"columns": ["text"], "tuples": True}], ids=str)
def test_rows_that_point_at_one_text_are_written_out_a_few_at_a_time(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """The attack: 20 kB that become 400 MB."""
    texts(tmp_path / "a.parquet", 400_000)
    assert (tmp_path / "a.parquet").stat().st_size < 100_000
    with within(100 * MIB):
        found = 0
        for record in read(tmp_path, format="parquet", **settings):
            assert not isinstance(record, ErrorValue)
            found += 1
    assert found == 1000


def test_a_row_beyond_the_limit_is_an_error_item_and_its_neighbours_are_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "x" * (MAX_RECORD + 1), "b"]}), tmp_path / "a.parquet")
    first, error, last = read(tmp_path, format="parquet", tuples=True, columns=["text"])
    assert (first, last) == ("a", "b")
    assert isinstance(error, ErrorValue)
    assert (error.error, error.message) == (
        "RecordTooLong",
        f"a.parquet: row 2 has more than {MAX_RECORD} bytes",
    )


def in_a_row(values: Any) -> Any:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


ROWS: dict[str, tuple[Callable[[], Any], str]] = {
    "zeros in a row": (lambda: in_a_row(pa.repeat(pa.scalar(0, pa.int8()), 40 * MIB)), "unpacks from"),
    "fewer zeros in a row": (
        lambda: in_a_row(pa.repeat(pa.scalar(0, pa.int8()), 3 * MIB)),
        f"row 1 has more than {MAX_RECORD} bytes",
    ),
    "texts in a row": (
        lambda: in_a_row(pa.array(["x" * 200_000] * 100)),
        f"row 1 has more than {MAX_RECORD} bytes",
    ),
    "a text": (lambda: pa.array(["x" * 24 * MIB]), "unpacks from"),
}


@pytest.mark.parametrize("attack", ROWS)
def test_a_row_that_stands_for_much_is_an_error_item(
    tmp_path: Path, attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if attack == "a text":
        monkeypatch.setattr(parquet, "MAX_UNPACKED", 20 * MIB)  # a test does not write 256 MiB
    make, said = ROWS[attack]
    pq.write_table(pa.table({"it": make()}), tmp_path / "a.parquet", compression="zstd")
    assert (tmp_path / "a.parquet").stat().st_size < 300_000
    with within(60 * MIB):
        (error,) = read(tmp_path, format="parquet")
    assert isinstance(error, ErrorValue)
    assert error.message.startswith("a.parquet: row 1 ") and said in error.message


def test_a_column_that_is_left_out_may_stand_for_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MAX_UNPACKED", 20 * MIB)
    pq.write_table(
        pa.table({"it": ["x" * 24 * MIB], "number": [7]}), tmp_path / "a.parquet", compression="zstd"
    )
    assert list(read(tmp_path, format="parquet", tuples=True, columns=["number"])) == [7]


@pytest.mark.parametrize(
    "values",
    [pa.list_(pa.string()), pa.map_(pa.string(), pa.string()), pa.struct([("a", pa.string())])],
    ids=str,
)
def test_nested_texts_that_rows_point_at_are_what_they_were(tmp_path: Path, values: Any) -> None:
    one = "x" * 30_000
    row = {"list": [one, None, "b"], "map": [("k", one), ("l", None)], "struct": {"a": one}}[
        str(values).partition("<")[0]
    ]
    pq.write_table(pa.table({"it": pa.array([row, None] * 600, values)}), tmp_path / "a.parquet")
    found = list(read(tmp_path, format="parquet", tuples=True))
    assert len(found) == 1200 and len(set(map(repr, found))) == 2


@pytest.mark.parametrize("form", [{"records": "lines"}, {"format": "jsonl"}, {"format": "csv"}, {}], ids=str)
def test_a_line_without_end_in_a_packed_file_is_an_error_item(tmp_path: Path, form: dict[str, Any]) -> None:
    with gzip.open(tmp_path / "a.gz", "wb") as file:
        for _ in range(80):
            file.write(b"x" * MIB)
    assert (tmp_path / "a.gz").stat().st_size < 300_000
    with within(70 * MIB):
        found = list(read(tmp_path, **form))
    assert all(isinstance(one, ErrorValue) for one in found) and len(found) <= 1


def test_json_of_many_values_is_an_error_item_before_any_is_made(tmp_path: Path) -> None:
    """16 MiB of it would become half a gigabyte."""
    (tmp_path / "a").write_bytes(b"[" + b"[]," * (4 * MIB) + b"1]\n[1]\n")
    with within(100 * MIB):
        error, fine = read(tmp_path, format="jsonl")
    assert isinstance(error, ErrorValue)
    assert (
        error.message.startswith("a: row 1 (at byte 0): it has up to")
        and "more than 1000000" in error.message
    )
    assert fine == (1,)


def test_json_of_many_values_in_kafka_is_refused_too() -> None:
    with pytest.raises(ValueError, match="more than 1000000"):
        decoder_of("json")(b"[" + b"[]," * MIB + b"1]")


def test_a_csv_row_of_many_columns_is_an_error_item(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a,b\n" + b"," * (8 * MIB) + b"\n1,2\n")
    with within(100 * MIB):
        error, fine = read(tmp_path, format="csv")
    assert isinstance(error, ErrorValue) and "a: row 1" in error.message
    assert not isinstance(fine, ErrorValue)
