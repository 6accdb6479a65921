"""A history in Parquet that stands in for a source gives what the source would have given."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flamestream as fs
from flamestream.connectors import sources
from flamestream.connectors.files.cut_files import ALL, Reading
from flamestream.connectors.files.formats import Mark
from flamestream.connectors.files.history import standing_in
from flamestream.connectors.files.spec import FilesSpec
from flamestream.connectors.kit.connector import Gives
from flamestream.model.errors import UserError
from flamestream.model.records import Document


@fs.payload_type
@dataclass(frozen=True, slots=True)
class PastSale:
    shop: str
    cents: int


SALES = {"shop": ["north", "south"], "cents": [1, 2]}


def records(path: Path, source: dict[str, Any]) -> list[Any]:
    spec = standing_in(str(path), sources.settings_of(source).gives())
    reading = Reading.of(FilesSpec(**spec["files"]), "s", "")
    place = reading.place()
    return [
        record.payload
        for file in place.listing(settled_only=True)
        for record in reading.form().records(place, file, Mark(0, 0))
    ][:ALL]


@pytest.mark.parametrize(
    ("columns", "source", "first"),
    [
        (SALES, {"files": {"path": "in", "format": "jsonl", "type": "PastSale"}}, PastSale("north", 1)),
        (SALES, {"files": {"path": "in", "format": "csv"}}, fs.Map({"shop": "north", "cents": 1})),
        (SALES, {"files": {"path": "in", "format": "parquet", "tuples": True}}, ("north", 1)),
        (SALES, {"files": {"path": "in", "format": "parquet", "tuples": True, "columns": ["cents"]}}, 1),
        (
            SALES,
            {"postgres": {"dsn": "", "table": "t", "key": "id", "columns": ["cents", "shop"]}},
            (1, "north"),
        ),
        (
            SALES,
            {"kafka": {"brokers": "b", "topic": "t", "value": "json"}},
            fs.Map({"shop": "north", "cents": 1}),
        ),
        (SALES, {"redis": {"url": "redis://h", "key": "k"}}, fs.Map({"shop": "north", "cents": 1})),
        ({"name": ["a.txt"], "text": ["to be"]}, {"files": {"path": "in"}}, Document("a.txt", "to be")),
        ({"line": ["to be"]}, {"files": {"path": "in", "records": "lines"}}, "to be"),
        ({"n": [7]}, {"generator": {"count": 3}}, 7),
        ({"text": ["to be"]}, {"kafka": {"brokers": "b", "topic": "t"}}, "to be"),
        ({"a": [1], "b": [2]}, {"socket": {"address": "h:1"}}, (1, 2)),
    ],
)
def test_a_row_becomes_what_the_source_gives(
    tmp_path: Path, columns: dict[str, list[Any]], source: dict[str, Any], first: Any
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    found = records(tmp_path, source)[0]
    assert (type(found), found) == (type(first), first)


def test_what_cannot_stand_in_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no Parquet file"):
        standing_in(str(tmp_path), Gives())
    (tmp_path / "a.parquet").write_text("no")
    with pytest.raises(UserError, match="it is not a Parquet file"):
        standing_in(str(tmp_path), Gives())
    pq.write_table(pa.table(SALES), tmp_path / "a.parquet")
    with pytest.raises(UserError, match="the history has no day"):
        standing_in(str(tmp_path), Gives(columns=["day", "shop"]))
