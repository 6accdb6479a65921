"""Formats of files sources: what becomes of rows that are bad, of damaged files, and how much memory a big
file takes."""

import datetime
import decimal
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flamestream.connectors.files.spec import FilesSpec, reader
from flamestream.connectors.kit.producer import Reader
from flamestream.connectors.sources import describe
from flamestream.model.collections import Map, Vector
from flamestream.model.errors import Corrupt, ManifestError, UserError
from flamestream.model.ids import Offset, Partition
from flamestream.model.payload import ErrorValue, payload_type

PLENTY = 1 << 40


@payload_type
@dataclass(frozen=True, slots=True)
class Order:
    id: int
    amount: float | None
    tags: Vector[str] = Vector()  # noqa: RUF009  # a Vector never changes


ORDER = f"{__name__}:Order"
"""Other tests of this process have an Order too."""


def read(folder: Path, skip: int = 0, **settings: object) -> list[object]:
    """All records behind `skip`."""
    spec = FilesSpec(path=str(folder), **settings)  # type: ignore[arg-type]
    source = reader(spec, "docs", "spec.sources.docs")
    source.seek({Partition(""): Offset(skip)})
    found: list[object] = []
    while not source.ended:
        for chunk in source.next(100, PLENTY):
            assert chunk.first == skip + len(found)
            found += chunk.payloads
    return found


def take_all(source: Reader, given: list[object]) -> None:
    """Read until it ends or raises."""
    while not source.ended:
        given += [payload for chunk in source.next(512, PLENTY) for payload in chunk.payloads]


def errors(found: list[object]) -> list[object]:
    return [f"{one.error}: {one.message}" if isinstance(one, ErrorValue) else one for one in found]


def test_json_lines_become_maps_or_instances_and_bad_ones_are_named_with_file_and_row(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(
        '{"id": 1, "amount": 2, "tags": ["x"]}\n\n{"id": 1\n{"id": "1", "amount": null}\n[1, {"k": null}]\n'
    )
    typed = errors(read(tmp_path, format="jsonl", type=ORDER))
    assert typed[0] == Order(1, 2.0, Vector(["x"]))
    assert [str(one).partition(":")[0] for one in typed[1:]] == ["BadRow"] * 3
    assert str(typed[1]).startswith("BadRow: a: row 2 (at byte 39): ")
    assert "Expected `int`, got `str` - at `$.id`" in str(typed[2])
    untyped = errors(read(tmp_path, format="jsonl"))
    assert untyped[0] == Map({"id": 1, "amount": 2, "tags": ("x",)})
    assert untyped[3] == (1, Map({"k": None}))


def test_csv_values_become_what_the_class_says(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('\ufeffid;amount;note\n1;2.5;"say ""hi"";"\n2;;\nx;1;\n3;4\n4;1;"open\n')
    found = errors(read(tmp_path, format="csv", delimiter=";", type=ORDER, columns=["id", "amount"]))
    assert found[:2] == [Order(1, 2.5), Order(2, None)]
    assert "row 3" in str(found[2])
    assert "2 values where 3 columns are" in str(found[3])
    assert "multiline: true" in str(found[4])
    assert read(tmp_path, format="csv", delimiter=";")[0] == Map(
        {"id": "1", "amount": "2.5", "note": 'say "hi";'}
    )


def test_csv_with_newlines_in_quotes_and_without_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('1,"two\nlines"\n2,"x"\n')
    settings: dict[str, Any] = {
        "format": "csv",
        "header": False,
        "columns": ["n", "text"],
        "multiline": True,
    }
    rows = [Map({"n": "1", "text": "two\nlines"}), Map({"n": "2", "text": "x"})]
    assert read(tmp_path, **settings) == rows
    assert read(tmp_path, skip=1, **settings) == rows[1:]


def test_a_csv_header_with_a_newline_in_quotes_is_the_header_also_where_reading_goes_on(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.csv").write_text('n,"two\nwords"\n1,x\n2,y\n')
    rows = [Map({"n": "1", "two\nwords": "x"}), Map({"n": "2", "two\nwords": "y"})]
    assert read(tmp_path, format="csv", multiline=True) == rows
    assert read(tmp_path, skip=1, format="csv", multiline=True) == rows[1:]


def test_parquet_values_become_payloads(tmp_path: Path) -> None:
    day, noon = datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.UTC)
    row = {
        "day": day,
        "at": noon,
        "price": decimal.Decimal("1.50"),
        "raw": b"\x00",
        "list": [1, None],
        "inner": {"a": [{"b": 2}]},
    }
    table = pa.Table.from_pylist([row])
    table = table.append_column("ns", pa.array([1_000_000_001], pa.timestamp("ns")))
    pq.write_table(table, tmp_path / "a.parquet")
    (found,) = read(tmp_path, format="parquet")
    wanted = {
        "day": "2026-01-02",
        "at": int(noon.timestamp() * 1e6),
        "price": "1.50",
        "raw": b"\x00",
        "list": (1, None),
    }
    assert found == Map({**wanted, "inner": Map({"a": (Map({"b": 2}),)}), "ns": 1_000_000})
    assert read(tmp_path, format="parquet", columns=["day"]) == [Map({"day": "2026-01-02"})]
    with pytest.raises(UserError, match=r"no column dya; it has day, at"):
        read(tmp_path, format="parquet", columns=["dya"])


def test_rows_of_parquet_that_do_not_fit_the_class_are_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, None], "amount": [1.5, 2.5]}), tmp_path / "a.parquet")
    good, bad = errors(read(tmp_path, format="parquet", type=ORDER))
    assert good == Order(1, 1.5)
    assert str(bad).startswith("BadRow: a.parquet: row 2: Expected `int`, got `null`")


def test_damaged_files_are_items_and_the_next_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no parquet")
    pq.write_table(
        pa.table({"n": range(3000)}),
        tmp_path / "b.parquet",
        row_group_size=1000,
        compression="none",
        use_dictionary=False,
    )
    data = bytearray((tmp_path / "b.parquet").read_bytes())
    start = pq.ParquetFile(tmp_path / "b.parquet").metadata.row_group(1).column(0).data_page_offset
    data[start : start + 40] = b"\xff" * 40
    (tmp_path / "b.parquet").write_bytes(data)
    found = read(tmp_path, format="parquet")
    assert len(found) == 3001
    assert "a.parquet: it is not a whole Parquet file" in str(errors(found)[0])
    assert found[1:1001] == [Map({"n": n}) for n in range(1000)]
    assert all(isinstance(one, ErrorValue) for one in found[1001:2001])
    assert found[2001:] == [Map({"n": n}) for n in range(2000, 3000)]
    assert read(tmp_path, skip=1500, format="parquet") == found[1500:]


def test_a_packed_file_that_ends_too_early_is_an_item(tmp_path: Path) -> None:
    packed = gzip.compress("".join(f"line {n}\n" for n in range(10_000)).encode())
    (tmp_path / "a.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "b").write_text("after\n")
    *lines, damage, after = read(tmp_path, records="lines")
    assert lines == [f"line {n}" for n in range(len(lines))]
    assert f"a.gz: it cannot be unpacked behind row {len(lines)}" in str(damage)
    assert after == "after"
    assert read(tmp_path, skip=len(lines), records="lines") == [damage, after]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_memory_is_bounded_by_a_batch_and_not_by_the_file(form: str, tmp_path: Path) -> None:
    text = "x" * 1000
    table = pa.table({"n": pa.array(range(60_000)), "text": pa.array([text + str(n) for n in range(60_000)])})
    if form == "parquet":
        pq.write_table(
            table,
            tmp_path / "a",
            row_group_size=60_000,
            use_dictionary=False,
            compression="none",
            data_page_size=1 << 16,
        )
    else:
        (tmp_path / "a").write_text("".join(f'{{"n": {n}, "text": "{text}"}}\n' for n in range(60_000)))
    assert (tmp_path / "a").stat().st_size > 50 << 20
    source = reader(FilesSpec(path=str(tmp_path), format=form), "docs", "w")  # type: ignore[arg-type]
    source.seek({})
    before, most, count = pa.total_allocated_bytes(), 0, 0
    while not source.ended:
        chunks = source.next(512, 1 << 20)
        assert sum(sum(chunk.sizes) for chunk in chunks) < 2 << 20
        count += sum(len(chunk.payloads) for chunk in chunks)
        most = max(most, pa.total_allocated_bytes() - before)
    assert count == 60_000
    assert most < 16 << 20


@pytest.mark.parametrize(
    "change", [lambda file: file.write_text("line 0\nline"), Path.unlink], ids=["changes", "vanishes"]
)
def test_a_file_that_changes_while_it_is_read_is_an_error_that_says_so(
    change: Callable[[Path], object], tmp_path: Path
) -> None:
    file = tmp_path / "a"
    file.write_text("".join(f"line {n}\n" for n in range(100_000)))
    source = reader(FilesSpec(path=str(tmp_path), records="lines"), "docs", "w")
    source.seek({})
    source.next(10, PLENTY)
    change(file)
    given: list[object] = []
    with pytest.raises(Corrupt, match=f"{file}: it (has changed|is gone) since (it|the source) was listed"):
        take_all(source, given)
    assert set(given) <= {f"line {n}" for n in range(100_000)}, "no line that was cut in two"


def test_a_list_of_names_gives_the_order(tmp_path: Path) -> None:
    for name in ("a", "b", "sub/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name + "\n")
    (tmp_path / "list.txt").write_text("# newest first\nsub/c\n\na\n")
    assert read(tmp_path, records="lines", manifest="list.txt") == ["sub/c", "a"]
    (tmp_path / "list.txt").write_text("a\nz\n")
    with pytest.raises(UserError, match="lists 'z', which is not there"):
        read(tmp_path, records="lines", manifest="list.txt")


def test_followed_whole_files_keep_the_order_of_discovery(tmp_path: Path) -> None:
    """A name that sorts before one already read changes nothing; a newcomer begins where the journal ends."""
    settings = FilesSpec(path=str(tmp_path), format="parquet", follow=True)

    def write(name: str, *numbers: int) -> None:
        pq.write_table(pa.table({"n": list(numbers)}), tmp_path / f".{name}")
        (tmp_path / f".{name}").rename(tmp_path / name)

    write("m.parquet", 1, 2)
    source = reader(settings, "docs", "w")
    source.seek({})
    assert [(chunk.partition, len(chunk.payloads)) for chunk in source.next(100, PLENTY)] == [
        ("1 m.parquet", 2)
    ]
    write("a.parquet", 3, 4, 5)
    write("z.parquet", 6)
    assert [chunk.partition for chunk in source.next(100, PLENTY)] == ["2 a.parquet", "3 z.parquet"]
    write("0.parquet", 7)
    fresh = reader(settings, "docs", "w")
    fresh.seek({Partition("1 m.parquet"): Offset(2), Partition("2 a.parquet"): Offset(1)})
    found = [(chunk.partition, [row["n"] for row in chunk.payloads]) for chunk in fresh.next(100, PLENTY)]  # type: ignore[index]
    assert found == [("2 a.parquet", [4, 5]), ("3 0.parquet", [7]), ("4 z.parquet", [6])]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "xml"}, "Invalid enum value 'xml'"),
        ({"format": "csv", "records": "lines"}, "`records` is for format: text"),
        ({"type": "Order"}, "`type` is for rows"),
        ({"format": "jsonl", "columns": ["a"]}, "`columns` is for csv and parquet"),
        ({"format": "csv", "header": False}, "needs the names of the `columns`"),
        ({"format": "csv", "delimiter": "ab"}, "`delimiter` is one character"),
        ({"path": "gs://x/y"}, "unknown scheme"),
        ({"path": None, "paths": ["x", "s3://b/p"]}, "folders and S3 cannot be mixed"),
        ({"manifest": "l", "pattern": "*.x"}, "needs no `pattern`"),
        ({"format": "jsonl", "encoding": "utf-16"}, "cannot be told apart"),
    ],
)
def test_settings_that_do_not_fit_are_errors(settings: dict[str, object], message: str) -> None:
    fields = {key: value for key, value in {"path": "in", **settings}.items() if value is not None}
    with pytest.raises(ManifestError) as caught:
        describe({"files": fields}, "spec.sources.docs")
    assert str(caught.value).startswith("spec.sources.docs.files")
    assert message in str(caught.value)


def test_a_class_that_is_not_there_is_named() -> None:
    with pytest.raises(
        ManifestError, match=r"spec.sources.docs.files.type: 'Odrer': no class .*test_sources_formats:Order"
    ):
        reader(FilesSpec(path="x", format="jsonl", type="Odrer"), "docs", "spec.sources.docs")
