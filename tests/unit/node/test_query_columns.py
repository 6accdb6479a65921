"""Keys and states as columns: what pyarrow reads back, or a refusal that says which."""

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import flamestream as fs
from flamestream.live.port import Page
from flamestream.model.errors import UserError
from flamestream.model.time import Time
from flamestream.node.queries.columns import stream_of, table_of

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


@fs.event
class Balance:
    left: Decimal
    since: datetime
    marks: tuple[str, ...]


def test_a_class_is_a_struct_of_its_fields_with_their_types() -> None:
    table = table_of({"key": ["ann"], "state": [Balance(Decimal("1.50"), NOON, ("a", "b"))]}, {"time": "7"})
    read = pa.ipc.open_stream(stream_of(table)).read_all()
    assert read.to_pylist() == [
        {"key": "ann", "state": {"left": Decimal("1.50"), "since": NOON, "marks": ["a", "b"]}}
    ]
    assert read.schema.metadata == {b"time": b"7"}


@pytest.mark.parametrize("states", [[1, "a"], [1 << 70], [(1, "a")]])
def test_values_of_no_one_type_are_refused(states: list[object]) -> None:
    with pytest.raises(UserError, match="'state' have no one type of Arrow"):
        table_of({"key": ["a"] * len(states), "state": states}, {})


def test_a_page_says_its_time_and_where_it_ends() -> None:
    table = Page(Time(9), (("a", 1), ("b", None)), "Yg==", "stale").to_arrow()
    assert (table.to_pydict(), table.schema.metadata) == (
        {"key": ["a", "b"], "state": [1, None]},
        {b"time": b"9", b"cursor": b"Yg=="},
    )


def test_a_page_without_rows_has_its_columns() -> None:
    assert Page(Time(9), (), "", "stale").to_arrow().column_names == ["key", "state"]
