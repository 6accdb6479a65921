"""Productions: which chains become calls, what they are called, what stays as it is, what is refused, and that the
results are the same."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flamestream as fs
from flamestream.asking import answer_here
from flamestream.model.calls.productions import SHARES, chains_of, productions_of, with_productions
from flamestream.model.errors import GraphError, UserError
from flamestream.model.payload import ErrorValue
from flamestream.model.quoted import quoted
from flamestream.model.stream import Stream
from flamestream.model.time import FrontId, Time, Timestamp, time_of
from flamestream.reference import ERRORS, interpret

Build = Callable[[Stream[Any]], Any]


@fs.event
class Click:
    user: str
    at: int


def twice(number: int) -> list[int]:
    return [number, number]


def one_more(number: int) -> int:
    return number + 1


def odd(number: int) -> bool:
    return number % 2 == 1


def spread(number: int) -> int:
    return number % 3


@fs.vectorized(takes=int, makes=int)
def halves(numbers: pa.Array) -> pa.Array:
    return pc.divide(numbers, 2)


def graph_of(build: Build, **settings: Any) -> fs.Graph:
    graph = fs.Graph("numbers", **settings)
    build(graph.source("numbers"))
    return graph


def kinds(graph: fs.Graph) -> str:
    return " ".join(vertex.kind.value for vertex in graph.vertices)


CALL = "sink source flat_map filter"


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda s: s.map(one_more).flat_map(twice).filter(odd).sink("out"), f"source {CALL} sink"),
        (lambda s: s.sink("out"), "source sink"),
        (lambda s: s.map(fs.field("at")).filter(fs.field("hot")).sink("out"), "source map filter sink"),
        (
            lambda s: s.map(one_more).map(fs.item % 7).map(one_more).sink("out"),
            f"source {CALL} map {CALL} sink",
        ),
        (lambda s: s.map(one_more).balance(spread).map(one_more).sink("out"), f"source {CALL} {CALL} sink"),
        (
            lambda s: s.map(one_more).merge(s.map(odd)).map(str).sink("out"),
            f"source {CALL} {CALL} merge {CALL} sink",
        ),
        (lambda s: s.group(2, key=odd).map(len).sink("out"), f"source grouping {CALL} sink"),
        (
            lambda s: s.reduce(key=odd, initial=int, combine=lambda a, n: a + n, fused=False).sink("out"),
            "source loop map merge grouping flat_map map map sink",
        ),
        (
            lambda s: [stream.map(odd).sink(f"{n}") for n, stream in enumerate(s.map(one_more).broadcast(2))],
            f"source {CALL} {CALL} sink {CALL} sink",
        ),
    ],
)
def test_a_chain_is_one_call_and_ends_at_a_door(build: Build, expected: str) -> None:
    assert kinds(with_productions(graph_of(build))) == expected


def test_windows_stay_and_what_is_behind_them_is_a_call() -> None:
    graph = fs.Graph("clicks")
    windows = graph.source("clicks", Click, at="at", unit="s").window(fs.tumbling("1m"), key="user")
    windows.count().map(lambda count: (count.key, count.value)).sink("counts")
    assert [len(chain) for chain in chains_of(graph)] == [1]
    clicks = [Click(user="ann", at=5), Click(user="bob", at=70), Click(user="ann", at=30)]
    assert with_productions(graph).run(clicks=clicks) == graph.run(clicks=clicks)


def test_the_graph_that_it_is_made_of_stays() -> None:
    graph = graph_of(lambda s: s.map(one_more).sink("out"))
    before = graph.identity
    assert with_productions(graph).identity != before
    assert graph.identity == before


def test_another_body_makes_no_other_graph_and_another_place_no_other_call() -> None:
    """Requests and journals are known by names, so these must stay when a function's body changes, or what is
    before it."""

    def with_function(function: Callable[[int], int], *, more: bool = False) -> fs.Graph:
        def build(stream: fs.Stream[int]) -> None:
            stream = stream.reduce(key=odd, combine=fs.count()) if more else stream
            stream.map(function).group(2, key=odd).map(len).sink("out")

        return with_productions(graph_of(build))

    def edited(number: int) -> int:
        return number - 1

    edited.__qualname__ = "one_more"
    one, other, behind = with_function(one_more), with_function(edited), with_function(one_more, more=True)
    assert one.identity == other.identity != behind.identity
    for graph in (one, other, behind):
        assert [*productions_of(graph)] == ["production:one_more()", "production:len()"]


def test_chains_that_are_called_alike_say_how_many_they_are() -> None:
    graph = with_productions(graph_of(lambda s: s.map(one_more).balance(spread).map(one_more).sink("out")))
    assert [*productions_of(graph)] == ["production:one_more #1 of 2()", "production:one_more #2 of 2()"]


def test_a_chain_is_worked_on_by_one_worker_or_shared_where_it_is_balanced() -> None:
    graph = with_productions(graph_of(lambda s: s.map(one_more).balance(spread).map(one_more).sink("out")))
    keys = [vertex.key(4) for vertex in graph.calls.values() if vertex.key is not None]
    made = [(call.settings.order, call.settings.fronts) for call in productions_of(graph).values()]
    assert list(zip(keys, made, strict=True)) == [(None, ("key", 1)), (spread(4), ("key", SHARES))]


def test_a_chain_in_a_loop_is_refused() -> None:
    graph = fs.Graph("rounds")
    back = graph.loop("again", max_iterations=3)
    turned = graph.source("numbers").merge(back).map(one_more)
    back.close(turned.flat_map(twice))
    turned.sink("out")
    with pytest.raises(GraphError, match=r"test_productions\.py:\d+: .*one_more .*stands in a loop"):
        with_productions(graph.validated())


@pytest.mark.parametrize("clock", [{"at": "at", "unit": "s"}, {"clock": "arrival"}])
def test_a_chain_before_a_window_is_refused(clock: dict[str, Any]) -> None:
    graph = fs.Graph("clicks")
    clicks = graph.source("clicks", Click, **clock).filter(odd)
    clicks.window(fs.tumbling("1m"), key="user").count().sink("counts")
    with pytest.raises(GraphError, match=r"\.odd .* stands before .*tumbling.*, which goes by event time"):
        with_productions(graph)


def test_a_window_over_a_call_may_stand_behind_a_chain() -> None:
    async def clicked(number: int) -> Click:
        return Click(user="ann", at=number)

    graph = graph_of(
        lambda s: (
            s.map(one_more)
            .call(clicked, at="at", unit="s", late="1h")
            .window(fs.tumbling("1m"), key="user")
            .count()
            .sink("out")
        )
    )
    assert [window.value for window in with_productions(graph).run(numbers=[1, 70, 2])["out"]] == [2, 1]


# --- what a production gives ---------------------------------------------------------------------------------


def failing(number: int) -> int:
    if number % 3 == 0:
        raise ValueError(f"no {number}")
    return 10 * number


def test_an_error_takes_no_other_result_with_it() -> None:
    graph = graph_of(lambda s: s.flat_map(range).map(failing).map(one_more).sink("out"))
    (production,) = productions_of(with_productions(graph)).values()
    made = production(5)
    errors = [each for each in made if isinstance(each, ErrorValue)]
    plain = interpret(graph, [(Time(4096), [5])])
    assert (
        [each for each in made if each not in errors]
        == [payload for _, payload in plain["out"]]
        == [11, 21, 41]
    )
    unlocated = [
        replace(error, source="", partition="", offset=-1, operation=-1) for _, error in plain[ERRORS]
    ]
    assert errors == unlocated


def test_an_error_names_the_function_that_raised() -> None:
    graph = graph_of(lambda s: s.map(one_more).map(failing).map(one_more).sink("out"))
    messages = []
    for each in (graph, with_productions(graph)):
        with pytest.raises(UserError) as caught:
            each.run(numbers=[2])
        messages.append(str(caught.value).partition(" (")[0])
    assert messages[0].endswith(f"test_productions.failing raised ValueError: {quoted('no 3')}")
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    ("build", "settings", "error"),
    [
        (lambda s: s.flat_map(range).sink("out"), {"max_results": 3}, "ResultLimit"),
        (lambda s: s.map(lambda n: "x" * 100).sink("out"), {"max_result_bytes": 50}, "ResultLimit"),
        (lambda s: s.map(lambda n: [n]).sink("out"), {}, "PayloadError"),
        (lambda s: s.map(lambda n: iter(int, 1)).flat_map(iter).sink("out"), {}, "PayloadError"),
    ],
)
def test_what_is_refused_in_its_place_is_an_error_here(build: Build, settings: Any, error: str) -> None:
    graph = graph_of(build, **settings)
    for each in (graph, with_productions(graph)):
        with pytest.raises(UserError, match=error):
            each.run(numbers=[4])


def test_what_is_within_the_limits_leaves_beside_what_is_not() -> None:
    """The limits are of all that a function makes of one input: it is one answer."""
    graph = with_productions(graph_of(lambda s: s.flat_map(twice).flat_map(twice).sink("out"), max_results=2))
    asked = (Time(4096), [5])
    (production,) = productions_of(graph).values()
    ((request, payload),) = interpret(graph, [asked])["production:twice -> twice()"]
    answer = answer_here(production, request, payload, fs.Call(""))
    results = interpret(graph, [asked, (time_of(Timestamp(2), FrontId(1)), [answer])])
    assert [payload for _, payload in results["out"]] == [5, 5]
    assert [error.error for _, error in results[ERRORS]] == ["ResultLimit"]


def test_what_a_graph_allows_beyond_the_usual_is_no_error() -> None:
    wide = graph_of(lambda s: s.map(lambda n: "x" * n).sink("out"), max_result_bytes=64 << 20)
    assert len(with_productions(wide).run(numbers=[33 << 20])["out"]) == 1


def test_an_input_has_one_outcome_of_a_function_that_tosses_coins() -> None:
    chance = random.Random(7)
    graph = fs.Graph("coins")
    tossed = graph.source("numbers").map(lambda n: (n, chance.random()))
    for name, stream in zip(("left", "right"), tossed.broadcast(2), strict=True):
        stream.sink(name)
    found = with_productions(graph).run(numbers=[1, 2, 3])
    assert found["left"] == found["right"]


# --- the same results ----------------------------------------------------------------------------------------

STAGES: dict[str, Callable[[Stream[Any]], Stream[Any]]] = {
    "map": lambda s: s.map(one_more),
    "flat_map": lambda s: s.flat_map(twice),
    "filter": lambda s: s.filter(odd),
    "vectorized": lambda s: s.map(halves),
    "group": lambda s: s.group(2, key=odd).map(sum),
    "reduce": lambda s: s.reduce(key=spread, initial=int, combine=lambda a, n: (7 * a + n) % 1_000_003),
    "unfused": lambda s: s.reduce(key=odd, initial=int, combine=lambda a, n: (5 * a + n) % 1009, fused=False),
    "balance": lambda s: s.balance(spread),
}
NUMBERS = st.lists(st.integers(0, 20), max_size=5)


@given(st.lists(st.sampled_from(sorted(STAGES)), max_size=6), NUMBERS, NUMBERS)
def test_results_of_one_way_are_the_same_in_the_same_order(
    stages: list[str], a: list[int], b: list[int]
) -> None:
    graph = fs.Graph("drawn")
    stream: Stream[Any] = graph.source("a").merge(graph.source("b"))
    for stage in stages:
        stream = STAGES[stage](stream)
    stream.map(one_more).sink("out")
    assert with_productions(graph).run(a=a, b=b) == graph.run(a=a, b=b)


@given(st.lists(st.sampled_from(["map", "flat_map", "filter"]), max_size=3), NUMBERS)
def test_results_of_several_ways_are_the_same_in_some_order(stages: list[str], numbers: list[int]) -> None:
    graph = fs.Graph("drawn")
    left: Stream[Any] = (source := graph.source("numbers"))
    for stage in stages:
        left = STAGES[stage](left)
    left.merge(source.filter(odd), left).map(one_more).sink("out")
    assert sorted(with_productions(graph).run(numbers=numbers)["out"]) == sorted(
        graph.run(numbers=numbers)["out"]
    )
