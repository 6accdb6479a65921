"""A source cut into pieces and windows beside the source itself."""

import pickle
from typing import Any

import pytest

from flamestream.connectors.files.cut_files import ALL, Reading, in_pieces
from flamestream.connectors.files.formats import Mark
from flamestream.connectors.files.pieces import Stamps
from flamestream.connectors.files.spec import FilesSpec
from flamestream.connectors.files.windows import Planner, RecordWindow
from flamestream.connectors.recorded import RecordedSource
from flamestream.core.protocol.settings import FrontSettings
from flamestream.model.ids import SourceName
from flamestream.model.meta import meta_of
from flamestream.model.time import END, START, FrontId, Time

FRONT = FrontId(1)


def metas(runs: Any) -> list[tuple[bytes, Any]]:
    return [
        (meta_of(time, first + place), record)
        for time, first, records in runs
        for place, record in enumerate(records)
    ]


def itself(spec: dict[str, Any], length: int, step: int = 1, behind: Time = START) -> list[tuple[bytes, Any]]:
    front = FrontSettings(FRONT, SourceName("s"), True, length, step=step)
    source = RecordedSource("job", front, spec, behind=behind)
    return metas((time, 0, records) for time, records in source.below(END))


def same_in_pieces(fields: dict[str, Any], length: int, size: int) -> None:
    """`size`: of a piece, in bytes of files and in rows of Parquet."""
    stamps, expected = Stamps(FRONT, length), itself({"files": fields}, length)
    reading = Reading.of(FilesSpec(**fields), "s", "")
    found = reading.place().listing(settled_only=False)
    counts = [reading.skip(file, Mark(), ALL) for file in found]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("flamestream.connectors.files.cut_files.PIECE_BYTES", size)
        pieces = in_pieces(stamps, found, counts, reading, size)
    assert [item for piece in pieces for item in metas(pickle.loads(pickle.dumps(piece)).runs())] == expected
    assert windowed(Planner({FRONT: RecordWindow(stamps, found, reading)}, 2)) == expected


def windowed(planner: Planner) -> list[tuple[bytes, Any]]:
    items, cut = [], planner.begin()
    while (following := planner.next(cut)) != cut:
        items += metas(planner.pieces(cut, following.time)[FRONT][0].runs())
        cut = following
    return items
