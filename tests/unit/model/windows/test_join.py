"""Items of two streams meet when their times are near each other, once; what meets nobody leaves with
None."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flamestream as fs
from flamestream.model.errors import GraphError
from flamestream.model.windows.join import LEFT, RIGHT, Join, Waiting
from flamestream.reference import ERRORS
from support.event_time import judged, results


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Left:
    user: str
    at: int
    number: int = 0


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Right:
    name: str
    at: int
    number: int = 0


ON = ("user", "name")
NEAR = ("-5s", "10s")


def streams(late: str = "0s") -> Any:
    graph = fs.Graph("pairs")
    return graph.source("left", at="at", unit="s", late=late), graph.source(
        "right", at="at", unit="s", late=late
    )


def entering(*items: Left | Right) -> list[tuple[str, Any]]:
    return [("left" if isinstance(item, Left) else "right", item) for item in items]


def met(how: str, *items: Left | Right) -> list[Any]:
    left, right = streams()
    left.join(right, on=ON, within=NEAR, how=how).sink("out")
    return [tuple(each and each.at for each in pair) for pair in results(left.graph, entering(*items))["out"]]


@pytest.mark.parametrize(("at", "meets"), [(4, False), (5, True), (20, True), (21, False)])
def test_both_bounds_are_of_the_others_time_less_ones_own_and_belong_to_it(at: int, meets: bool) -> None:
    assert met("inner", Right("a", at), Left("a", 10)) == ([(10, at)] if meets else [])


def test_other_keys_do_not_meet() -> None:
    assert met("inner", Left("a", 10), Right("b", 10)) == []


def test_an_item_meets_what_is_there_in_the_order_of_times() -> None:
    assert met("inner", Right("a", 14), Right("a", 12), Left("a", 13)) == [(13, 12), (13, 14)]


def test_left_keeps_what_met_none_on_the_left_alone_and_full_on_both() -> None:
    items = (Left("a", 10), Right("a", 40), Left("a", 60), Right("a", 61))
    assert met("left", *items) == [(10, None), (60, 61)]
    assert met("full", *items) == [(10, None), (60, 61), (None, 40)]


def test_what_met_none_leaves_as_soon_as_it_can_meet_none() -> None:
    left, right = streams()
    left.join(right, on=ON, within=NEAR, how="left").sink("out")
    items: list[Left | Right] = [Left("a", 10), Right("b", 20), Left("b", 20)]
    assert results(left.graph, entering(*items), ended=False)["out"] == [(items[2], items[1])]
    items += [Right("b", 21), Left("b", 21)]
    assert (Left("a", 10), None) in results(left.graph, entering(*items), ended=False)["out"]


def test_an_item_waits_until_the_mark_is_behind_its_last_moment() -> None:
    program, state = Join(-5, 10, (LEFT, RIGHT), ""), Waiting(((0, "l", False),), ((0, "r", False),))
    assert program.due("k", state) == 6
    state, results = program.on_time("a", state, 6)
    assert (state.left, results, program.due("k", state)) == (((0, "l", False),), [(None, "r")], 11)
    assert program.on_time("a", Waiting(((0, "l", False), (1, "m", False)), ()), 11) == (
        Waiting(((1, "m", False),), ()),
        [("l", None)],
    )


def test_an_item_older_than_the_mark_is_late_and_meets_none() -> None:
    left, right = streams()
    pairs = left.join(right, on=ON, within=NEAR)
    pairs.sink("out")
    pairs.late.sink("late")
    late = Left("a", 29)
    found = results(left.graph, entering(Left("b", 30), Right("a", 30), late, Left("a", 30)))
    assert (found["late"], [pair[0].at for pair in found["out"]]) == ([late], [30])


def test_without_a_bound_whatever_has_come_is_met_if_that_is_said() -> None:
    left, right = streams()
    left.join(right, on=ON, unbounded=True, how="full").sink("out")
    items = (Left("a", 0), Left("b", 0), Right("b", 10**6), Right("a", 10**9), Left("a", 5))
    assert [(x and x.at, y and y.at) for x, y in results(left.graph, entering(*items))["out"]] == [
        (0, 10**6),
        (0, 10**9),
        (5, 10**9),
    ]


def test_what_a_join_gives_is_in_event_time_and_none_of_it_late() -> None:
    left, right = streams()
    windows = left.join(right, on=ON, within=NEAR, how="full").window(
        fs.tumbling("10s"), key=lambda pair: None
    )
    counts = windows.count()
    counts.sink("out")
    counts.late.sink("late")
    items = (Left("a", 10), Right("a", 40), Left("a", 60), Right("a", 61), Left("c", 200), Right("c", 300))
    found = results(left.graph, entering(*items))
    assert [(each.start, each.value) for each in found["out"]] == [
        (20, 1),
        (40, 1),
        (60, 1),
        (210, 1),
        (300, 1),
    ]
    assert found["late"] == []


def test_a_stream_meets_itself() -> None:
    left, _ = streams()
    graph = fs.Graph("self")
    left = graph.source("left", at="at", unit="s")
    left.join(left, on="user", within=("1s", "5s")).sink("out")
    items = [Left("a", 0), Left("a", 3), Left("a", 9)]
    assert results(graph, entering(*items))["out"] == [(items[0], items[1])]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({}, "needs a bound"),
        ({"within": NEAR, "unbounded": True}, "needs a bound"),
        ({"within": ("5s", "-5s")}, "holds no time"),
        ({"within": "5s"}, "two durations are wanted"),
        ({"within": ("5s", "5x")}, "a duration is a timedelta"),
        ({"within": NEAR, "how": "outer"}, "is none of inner, left, full"),
    ],
)
def test_what_cannot_be_is_told_when_the_graph_is_built(said: dict[str, Any], message: str) -> None:
    left, right = streams()
    with pytest.raises(GraphError, match=message):
        left.join(right, on=ON, **said)


def test_times_of_different_units_are_refused() -> None:
    left, _ = streams()
    other = left.graph.source("other", at="at", unit="ms")
    with pytest.raises(GraphError, match="different units"):
        left.join(other, on="user", within=NEAR)


@pytest.mark.parametrize("join", [
    lambda a, b: a.join(b, on="user", within=NEAR), lambda a, b: a.join_latest(b, on="user"), lambda a,
    b: a.join_table(b, on="user"),
])  # fmt: skip
def test_streams_of_two_graphs_are_refused(join: Any) -> None:
    with pytest.raises(GraphError, match="of two graphs, 'pairs' and 'pairs'"):
        join(streams()[0], streams()[1])


def raising(_: Any) -> int:
    raise ValueError("no")


@pytest.mark.parametrize("on", [raising, ("user", raising)], ids=["both", "right"])
def test_an_error_names_the_users_own_key(on: Any) -> None:
    left, right = streams()
    left.join(right, on=on, within=NEAR).sink("out")
    assert results(left.graph, entering(Right("a", 1)))[ERRORS][0].function == f"{__name__}.raising"


ITEM = st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(0, 50))


@given(st.lists(ITEM, max_size=30), st.integers(0, 8), st.sampled_from([(-5, 10), (0, 0), (-7, -2), (3, 6)]))
def test_a_join_is_that_of_two_loops(
    drawn: list[tuple[bool, str, int]], late: int, bounds: tuple[int, int]
) -> None:
    low, high = bounds
    left, right = streams(f"{late}s")
    pairs = left.join(right, on=ON, within=(f"{low}s", f"{high}s"), how="full")
    pairs.sink("out")
    pairs.late.sink("late")
    items = [(Left if is_left else Right)(key, at, number) for number, (is_left, key, at) in enumerate(drawn)]
    found = results(left.graph, entering(*items))

    in_time, too_late = list[Any](), list[Any]()
    for item, time, mark in judged(
        [(source, item, item.at) for source, item in entering(*items)], ["left", "right"], late, 1
    ):
        (too_late if mark is not None and time < mark else in_time).append(item)
    lefts = [each for each in in_time if isinstance(each, Left)]
    rights = [each for each in in_time if isinstance(each, Right)]
    near = [(a, b) for a in lefts for b in rights if a.user == b.name and low <= b.at - a.at <= high]
    alone = [(a, None) for a in lefts if not any(a is x for x, _ in near)] + [
        (None, b) for b in rights if not any(b is y for _, y in near)
    ]
    assert sorted(map(repr, found["out"])) == sorted(map(repr, [*near, *alone]))
    assert found["late"] == too_late
