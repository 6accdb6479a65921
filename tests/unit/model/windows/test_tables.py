"""The join of two tables says what was and what is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flamestream as fs
from flamestream.model.errors import GraphError
from support.event_time import results

Row = tuple[int, str]


def changes(how: str, *items: tuple[str, Row]) -> list[Any]:
    graph = fs.Graph("tables")
    left, right = graph.source("left"), graph.source("right")
    left.join_table(right, on=lambda row: row[0], how=how).sink("out")
    return results(graph, items, ended=False)["out"]


A, B, X = (1, "a"), (1, "b"), (1, "x")


def test_a_change_says_the_pair_before_and_after() -> None:
    found = changes("inner", ("left", A), ("right", X), ("left", B))
    assert found == [fs.Changed(None, (A, X)), fs.Changed((A, X), (B, X))]


def test_left_has_rows_without_a_partner_too() -> None:
    assert changes("left", ("left", A), ("right", X)) == [
        fs.Changed(None, (A, None)),
        fs.Changed((A, None), (A, X)),
    ]
    assert changes("left", ("right", X)) == []
    assert changes("full", ("right", X)) == [fs.Changed(None, (None, X))]


def test_another_word_for_how_is_refused() -> None:
    with pytest.raises(GraphError, match="is none of inner, left, full"):
        changes("outer")


@pytest.mark.parametrize("how", ["inner", "left", "full"])
@given(
    items=st.lists(
        st.tuples(st.sampled_from(["left", "right"]), st.tuples(st.integers(0, 2), st.sampled_from("abc"))),
        max_size=20,
    )
)
def test_what_changes_add_up_to_is_the_join(how: str, items: list[tuple[str, Row]]) -> None:
    table = list[Any]()
    for change in changes(how, *items):
        if change.before is not None:
            table.remove(change.before)
        if change.after is not None:
            table.append(change.after)
    left, right = ({row[0]: row for source, row in items if source == name} for name in ("left", "right"))
    kept = {"inner": left.keys() & right, "left": left.keys(), "full": left.keys() | right}[how]
    assert sorted(map(repr, table)) == sorted(repr((left.get(key), right.get(key))) for key in kept)
