"""Pieces and windows give the records and times that the source itself gives, wherever they are cut."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamestream.connectors.files.lines import Lines as LinesFormat
from flamestream.connectors.files.lines import Text
from flamestream.connectors.files.listing import LocalFiles, Place
from flamestream.connectors.files.pieces import Lines, Stamps, numbers_in_pieces, parts_of
from flamestream.connectors.files.places import Found
from flamestream.connectors.files.windows import NumberWindow, Planner
from flamestream.model.time import ROOM, START, FrontId, Time, last_below
from support.pieces import FRONT, itself, metas, same_in_pieces, windowed

TEXTS = st.lists(st.text(alphabet="ab\n\r\x80", max_size=12), min_size=1, max_size=4)


def written(folder: Path, texts: list[str], *, packed: bool = False) -> list[Found]:
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    for number, text in enumerate(texts):
        data = text.encode("latin-1")
        (folder / f"{number}.txt{'.gz' if packed else ''}").write_bytes(
            gzip.compress(data) if packed else data
        )
    return LocalFiles([Place(str(folder), "")], "**/*").listing(settled_only=False)


@given(TEXTS, st.integers(1, 5), st.integers(1, 7))
def test_lines_are_the_same_wherever_files_are_cut(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], length: int, size: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "lines"
    found, stamps = written(folder, texts), Stamps(FRONT, length)
    read = LocalFiles([Place(str(folder), "")], "**/*"), LinesFormat("s", Text("utf-8"))
    expected = itself({"files": {"path": str(folder), "records": "lines"}}, length)
    first, cut = 0, []
    for group in parts_of(found, size):
        cut += metas(Lines(stamps, first, group, *read).runs())
        first += sum(part.count() for part in group)
    assert cut == expected and first == len(expected)


PLAIN: dict[str, Any] = {"records": "lines"}
ROWS: list[dict[str, Any]] = [
    {},
    PLAIN,
    {"format": "jsonl"},
    {"format": "csv", "header": False, "columns": ["x"]},
    {"format": "csv", "multiline": True},
]


@given(TEXTS, st.sampled_from(ROWS), st.booleans(), st.integers(1, 3), st.integers(1, 2000))
def test_files_are_the_same_wherever_the_list_is_cut(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str],
    fields: dict[str, Any],
    packed: bool,
    length: int,
    size: int,
) -> None:
    folder = tmp_path_factory.getbasetemp() / "files"
    written(folder, texts, packed=packed)
    same_in_pieces({"path": str(folder), **fields}, length, size)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=3), st.booleans(), st.integers(1, 4), st.integers(1, 5)
)
def test_rows_of_parquet_are_the_same_wherever_a_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], tuples: bool, length: int, rows: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "parquet"
    written(folder, [])
    for number, size in enumerate(sizes):
        table = pa.table(
            {"n": pa.array(range(size), pa.int64()), "word": pa.array(list("abcdefghi")[:size], pa.string())}
        )
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=3)
    (folder / "damaged.parquet").write_bytes(b"PAR1 no more")
    same_in_pieces({"path": str(folder), "format": "parquet", "tuples": tuples}, length, rows)


@given(
    st.integers(0, 40), st.integers(1, 7), st.integers(1, 9), st.sampled_from([1, ROOM]),
    st.sampled_from([START, last_below(Time(5 << 12), FRONT)]),
)  # fmt: skip
def test_numbers_are_the_same_wherever_they_are_cut(
    count: int, length: int, size: int, step: int, behind: Time
) -> None:
    """And also where they come behind a history."""
    stamps = Stamps(FRONT, length, step, behind)
    expected = itself({"generator": {"count": count}}, length, step, behind)
    assert [
        item for piece in numbers_in_pieces(stamps, count, None, size) for item in metas(piece.runs())
    ] == expected
    assert windowed(Planner({FRONT: NumberWindow(stamps, count, None, None)}, 3 * step)) == expected


def test_sources_are_cut_at_one_time_together() -> None:
    fronts = {FrontId(0): 30, FrontId(2): 7}
    planner = Planner(
        {front: NumberWindow(Stamps(front, 2), count, None, None) for front, count in fronts.items()}, 4
    )
    cut, newest = planner.begin(), b""
    while (following := planner.next(cut)) != cut:
        items = sorted(
            item for piece, _ in planner.pieces(cut, following.time).values() for item in metas(piece.runs())
        )
        assert items and items[0][0] > newest
        cut, newest = following, items[-1][0]
    assert cut.time == planner.end() and [position[0] for position in cut.positions.values()] == [30, 7]
