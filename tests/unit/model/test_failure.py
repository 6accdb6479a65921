"""What a failed call becomes, and how it is told."""

from dataclasses import dataclass
from typing import Any

import pytest

import flamestream as fs
from flamestream.model import payload
from flamestream.model.failure import MESSAGE, NAME, failure, located, shortened, told
from flamestream.model.quoted import plain, public
from flamestream.model.vertex import name_of


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Sold:
    shop: str
    cents: int


def parsed(line: str) -> Sold:
    shop, cents = line.split(",")
    return Sold(shop, int(cents))


def failed(function: Any, given: Any) -> payload.ErrorValue:
    try:
        function(given)
    except Exception as error:  # noqa: BLE001  whatever it raises
        return failure(function, error, given)
    raise AssertionError("it did not fail")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("west", "'west'"),
        (7, "7"),
        (None, "None"),
        ((1, ("a",)), "(1, ('a',))"),
        (Sold("n", 1), "Sold(shop='n', cents=1)"),
        (fs.Vector([1, 2]), "Vector([1, 2])"),
        ("x" * 500, "'" + "x" * 200 + "'... (500 characters)"),
        (b"x" * 500, "b'" + "x" * 200 + "'... (500 bytes)"),
    ],
)
def test_a_payload_is_shown_in_short(value: Any, text: str) -> None:
    assert shortened(value) == text


@pytest.mark.parametrize(
    "value", [("x" * 300, "y" * 300), tuple(range(10_000)), (("x" * 90,) * 90,) * 90, Sold("n" * 10**6, 1)]
)
def test_a_big_payload_costs_little(value: Any) -> None:
    assert len(shortened(value)) < 350


def test_what_an_exception_says_is_bounded() -> None:
    """A text of the input's own, like that of `[].index(record)`."""
    whole = f"{'x' * 10_000_000!r} is not in list"
    assert failed([].index, "x" * 10_000_000).message == f"{whole[:MESSAGE]}... ({len(whole):,} characters)"


def test_the_name_of_an_exception_is_bounded() -> None:
    assert failure(print, type("E" * 1_000_000, (Exception,), {})(), None).error == "E" * NAME


def test_an_exception_that_raises_when_it_is_asked_is_an_error_value_too() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def function(_: object) -> None:
        raise Mute

    assert (failed(function, 1).error, failed(function, 1).message) == (
        "Mute",
        "(its __str__ raised RuntimeError)",
    )


def test_an_error_value_says_what_was_called_with_what_and_where() -> None:
    error = failed(parsed, "west")
    assert (error.function, error.error, error.payload) == (name_of(parsed), "ValueError", "'west'")
    line = parsed.__code__.co_firstlineno + 1
    assert error.traceback[-1] == f"{__name__.replace('.', '/')}.py:{line} in parsed"
    assert payload.decode(payload.encode(error)) == error


def test_a_ready_made_function_is_called_as_it_is_written() -> None:
    ready = (
        fs.field("shp"),
        fs.append("a", "b"),
        fs.count(),
        fs.total("cents"),
        fs.record(Sold, "shop", cents=fs.state),
        fs.size,
        fs.state,
    )
    assert [name_of(function) for function in ready] == [
        'fs.field("shp")', 'fs.append("a", "b")', "fs.count()", 'fs.total("cents")', "fs.record(Sold)",
        "fs.size", "fs.state",
    ]  # fmt: skip
    assert failed(fs.field("shp"), Sold("n", 1)).message == "'Sold' object has no attribute 'shp'"


def test_people_are_told_the_place_in_the_graph_the_calls_and_the_way_out() -> None:
    graph = fs.Graph("g")
    graph.source("lines").map(parsed).sink("out")
    marked = told(located(failed(parsed, "west"), "lines", ("", 2), 1), "record 2 of source 'lines'", graph)
    text = plain(marked)
    first, second, *_, third, last = text.splitlines()
    assert first.endswith(
        "parsed raised ValueError: not enough values to unpack (expected 2, "
        "got 1) (record 2 of source 'lines')"
    )
    assert (
        second.startswith("  operation 1, map of ")
        and second.endswith(", was given 'west'")
        and "test_failure.py:" in second
    )
    assert third.endswith("in parsed") and "onError: {deadLetter: SINK}" in last
    assert "parsed raised ValueError: (see the worker's log) (record 2 of source 'lines')" in public(marked)
    assert "west" not in public(marked) and "not enough values" not in public(marked)


def test_near_operations_stand_before_every_door() -> None:
    graph = fs.Graph("g")
    lines = graph.source("lines").map(parsed)  # 0, 1
    totals = lines.reduce(key=fs.field("shop"), combine=fs.total("cents"))  # 2
    lines.merge(graph.source("more")).filter(bool).sink("near")  # 3, 4, 5, 6
    totals.map(str).sink("far")  # 7, 8
    lines.balance(lambda _: 0).map(str).map(str).sink("balanced")  # 9, 10, 11
    assert graph.near == {0, 1, 2, 3, 4, 5, 6, 9}
    assert [vertex.id for vertex in graph.vertices if vertex.routed] == [2, 6, 8, 9, 11]
