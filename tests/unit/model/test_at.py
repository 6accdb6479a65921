"""`fs.at`: what a function may know of its item's place is the same wherever, and however often, it is asked."""

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

import flamestream as fs
from flamestream.core.dataflow.native import FASTEST
from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.core.protocol.actions import Append, Deliver
from flamestream.model import payload as codec
from flamestream.model.errors import GraphError, UserError
from flamestream.model.vertex import Kind
from flamestream.reference import interpret
from support.core.one_worker import OneWorker

NOON = datetime(2026, 11, 25, 12, 0, 0, 5, UTC)


def placed(item: Any, at: fs.At) -> Any:
    return item, at.random(), at.random(), at.uuid()


def graph_of(function: Any, name: str = "places") -> fs.Graph:
    graph = fs.Graph(name)
    graph.source("items").map(fs.at(function)).sink("out")
    return graph


def results(graph: fs.Graph, *items: Any) -> list[Any]:
    return graph.run(items=items)["out"]


def test_a_replay_draws_the_same() -> None:
    assert results(graph_of(placed), 1, 2) == results(graph_of(placed), 1, 2)


def test_every_draw_of_every_item_operation_and_graph_is_another() -> None:
    graph = fs.Graph("places")
    items = graph.source("items")
    items.map(fs.at(placed)).merge(items.map(fs.at(placed))).sink("out")
    drawn = [*graph.run(items=[1, 1])["out"], *results(graph_of(placed, "others"), 1)]
    numbers = [number for _, first, second, _ in drawn for number in (first, second)]
    assert len(set(numbers)) == 10
    assert len({text for *_, text in drawn}) == 5
    assert all(0 <= number < 1 for number in numbers)


def test_draws_by_a_name_stay_whatever_stands_before() -> None:
    def drawn(name: str, *before: Any, graph: str = "places") -> list[Any]:
        made = fs.Graph(graph)
        stream = made.source("items")
        for function in before:
            stream = stream.map(function)
        stream.map(fs.at(placed, name=name)).sink("out")
        return made.run(items=[1])["out"]

    same = drawn("dice")
    assert drawn("dice", lambda item: item) == same
    assert len({*same, *drawn("coins"), *drawn("dice", graph="others"), *drawn(""), *drawn("1")}) == 5
    assert drawn("", lambda item: item) != drawn("")


def test_draws_are_spread_evenly() -> None:
    drawn = results(graph_of(lambda _, at: at.random()), *range(2_000))
    assert abs(sum(drawn) / len(drawn) - 0.5) < 0.03
    assert min(sum(number * 10 // 1 == tenth for number in drawn) for tenth in range(10)) > 140


def test_a_uuid_is_one() -> None:
    (text,) = results(graph_of(lambda _, at: at.uuid()), 1)
    assert (uuid.UUID(text).version, uuid.UUID(text).variant) == (8, uuid.RFC_4122)


def test_its_time_is_when_the_record_arrived() -> None:
    stamped = graph_of(lambda item, at: (item, at.time))
    assert results(stamped, fs.Arrived("a", NOON)) == [("a", NOON)]


def test_where_no_clock_was_read_there_is_no_time() -> None:
    with pytest.raises(UserError, match=r"at.time: when this record arrived is not known"):
        results(graph_of(lambda _, at: at.time), 1)


def test_what_it_raises_names_the_users_function() -> None:
    def failing(item: Any, at: fs.At) -> Any:
        raise ValueError(item)

    with pytest.raises(UserError, match=r"failing raised ValueError"):
        results(graph_of(failing), 7)


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("parts", [REFERENCE, FASTEST])
def test_a_worker_gives_what_the_reference_gives(parts: Parts, debug: bool) -> None:
    graph = fs.Graph("places")
    graph.source("docs").map(fs.at(placed)).sink("out")
    alone = OneWorker(graph, parts, debug)
    alone.records(0, [1, "a"])
    (time,) = [action.entry.time for action in alone.done if isinstance(action, Append)]
    given = [
        item
        for action in alone.done
        if isinstance(action, Deliver)
        for bundle in action.bundles
        for item in codec.decode_items(bundle.items)
    ]
    assert sorted(given) == interpret(graph, [(time, [1, "a"])])["out"]


def test_it_is_for_map_alone() -> None:
    with pytest.raises(GraphError, match="AtFunction stands where a function is called"):
        fs.Graph("g").source("items").filter(fs.at(placed))  # type: ignore[call-overload]


def test_it_is_one_operation() -> None:
    assert [vertex.kind for vertex in graph_of(placed).vertices] == [Kind.SOURCE, Kind.ARRIVAL, Kind.SINK]
