"""Pieces and windows give the records and times that the source itself gives, wherever they are cut."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flamestream.adapters.sources.documents import Documents
from flamestream.adapters.sources.files import Found
from flamestream.adapters.sources.lines import Lines as LinesFormat
from flamestream.adapters.sources.lines import Text
from flamestream.adapters.sources.listing import LocalFiles, Place, listing, matcher
from flamestream.adapters.sources.pieces import Files, Lines, Stamps, files_in_groups, numbers_in_pieces, parts_of
from flamestream.adapters.sources.recorded import RecordedSource
from flamestream.adapters.sources.windows import FileWindow, LineWindow, NumberWindow, Planner
from flamestream.core.settings import FrontSettings
from flamestream.model.ids import SourceName
from flamestream.model.meta import meta_of
from flamestream.model.time import END, FrontId

TEXTS = st.lists(st.text(alphabet="ab\n\r\x80", max_size=12), min_size=1, max_size=4)
FRONT = FrontId(1)


def metas(runs: Any) -> list[tuple[bytes, Any]]:
    return [(meta_of(time, first + place), record) for time, first, records in runs for place, record in enumerate(records)]


def itself(spec: dict[str, Any], length: int) -> list[tuple[bytes, Any]]:
    front = FrontSettings(FRONT, SourceName("s"), True, length)
    return metas((time, 0, records) for time, records in RecordedSource("job", front, spec).below(END))


def written(folder: Path, texts: list[str]) -> list[Found]:
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_bytes(text.encode("latin-1"))
    return listing([Place(str(folder), "")], matcher("**/*"), settled_only=False)


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
    assert windowed(Planner({FRONT: LineWindow(stamps, found, *read)}, 2)) == expected


@given(TEXTS, st.integers(1, 3), st.integers(1, 2000))
def test_files_are_the_same_wherever_the_list_is_cut(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], length: int, size: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "files"
    found, stamps = written(folder, texts), Stamps(FRONT, length)
    read = LocalFiles([Place(str(folder), "")], "**/*"), Documents("s", "utf-8")
    expected = itself({"files": {"path": str(folder)}}, length)
    first, cut = 0, []
    for group in files_in_groups(found, size):
        cut += metas(Files(stamps, first, group, *read).runs())
        first += len(group)
    assert cut == expected
    assert windowed(Planner({FRONT: FileWindow(stamps, found, *read)}, 1)) == expected


@given(st.integers(0, 40), st.integers(1, 7), st.integers(1, 9))
def test_numbers_are_the_same_wherever_they_are_cut(count: int, length: int, size: int) -> None:
    stamps, expected = Stamps(FRONT, length), itself({"generator": {"count": count}}, length)
    assert [item for piece in numbers_in_pieces(stamps, count, None, size) for item in metas(piece.runs())] == expected
    assert windowed(Planner({FRONT: NumberWindow(stamps, count, None, None)}, 3)) == expected


def test_sources_are_cut_at_one_time_together() -> None:
    fronts = {FrontId(0): 30, FrontId(2): 7}
    planner = Planner({front: NumberWindow(Stamps(front, 2), count, None, None) for front, count in fronts.items()}, 4)
    cut, newest = planner.begin(), b""
    while (following := planner.next(cut)) != cut:
        items = sorted(item for piece, _ in planner.pieces(cut, following.time).values() for item in metas(piece.runs()))
        assert items and items[0][0] > newest
        cut, newest = following, items[-1][0]
    assert cut.time == planner.end() and [position[0] for position in cut.positions.values()] == [30, 7]


def windowed(planner: Planner) -> list[tuple[bytes, Any]]:
    items, cut = [], planner.begin()
    while (following := planner.next(cut)) != cut:
        items += metas(planner.pieces(cut, following.time)[FRONT][0].runs())
        cut = following
    return items
