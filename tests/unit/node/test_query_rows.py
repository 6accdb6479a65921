"""States are found by their names: of tables, and of whatever operation keeps one by key."""

from typing import Any

import pytest

import flamestream as fs
from flamestream.model.errors import ManifestError
from flamestream.model.payloads.codec import encode
from flamestream.model.vertex import Kind
from flamestream.node.queries.rows import Kept

Pair = tuple[str, int]


def graph() -> fs.Graph:
    """Every operation with a state, by its own name; and a table that was called otherwise."""
    made = fs.Graph("g")
    a: fs.Stream[Pair] = made.source("a", at=lambda pair: pair[1], unit="s")
    b: fs.Stream[Pair] = made.source("b", at=lambda pair: pair[1], unit="s")
    first = lambda pair: pair[0]  # noqa: E731
    results: list[Any] = [
        a.reduce(name="reduce", key=first, combine=fs.count()),
        a.group(2, name="group", key=first),
        a.top(2, name="top", key=first, by=lambda pair: pair[1]),
        a.distinct_count(name="distinct", key=first, value=lambda pair: pair[1]),
        a.window(fs.tumbling("10s"), name="window", key=first).count(),
        a.join(b, name="join", on=first, within=("-5s", "5s")),
        a.join_latest(b, name="latest", on=first),
        a.join_table(b, name="table", on=first),
    ]
    for number, result in enumerate(results):
        result.sink(f"sink{number}")
    a.upsert(made.table("rows", initial=int, was="before"), key=first, value=lambda pair: pair[1])
    return made


@pytest.mark.parametrize(
    "name", ["reduce", "group", "top", "distinct", "window", "join", "latest", "table", "rows"]
)
def test_every_state_of_a_key_is_found_by_its_name(name: str) -> None:
    made = graph()
    row = Kept(made).row(name, "ann")
    assert row.encoded == encode(("before", "ann") if name == "rows" else "ann")
    assert made.vertices[row.vertex].kind in (Kind.GROUPING, Kind.REDUCE)


def test_what_is_not_there_is_told_with_what_is() -> None:
    with pytest.raises(ManifestError, match="keeps nothing named 'row': it has 'rows', 'reduce'"):
        Kept(graph()).row("row", "ann")
