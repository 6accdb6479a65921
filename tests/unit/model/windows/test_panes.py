"""Windows of a fixed length give what a loop over dictionaries gives, and every aggregate what plain Python
does."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flamestream as fs
from flamestream.model.errors import GraphError
from flamestream.reference import ERRORS
from support.event_time import judged, results


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Sale:
    shop: str
    at: int
    price: Any
    number: int = 0


def sales(late: str = "0s") -> Any:
    graph = fs.Graph("sales")
    return graph, graph.source("sales", at="at", unit="s", late=late)


def sold(*prices: Any) -> list[tuple[str, Sale]]:
    return [("sales", Sale("a", at, price, at)) for at, price in enumerate(prices)]


def by_number(sale: Sale) -> int:
    return sale.number


ASKED = [
    ("count", lambda w: w.count(), (3, 1, 3), 3),
    ("total", lambda w: w.total("price"), (3, 1, 3), 7),
    ("min", lambda w: w.min("price"), (3, 1, 2), 1),
    ("max", lambda w: w.max(lambda sale: sale.price), (3, 1, 2), 3),
    ("mean", lambda w: w.mean("price"), (3, 1, 2), 2.0),
    ("distinct_count", lambda w: w.distinct_count("price"), (3, 1, 3, True), 3),
    ("collect", lambda w: w.collect(), (3, 1), (Sale("a", 0, 3, 0), Sale("a", 1, 1, 1))),
    ("top", lambda w: w.top(2, by="price"), (3, 1, 3, 2), (Sale("a", 0, 3, 0), Sale("a", 2, 3, 2))),
    ("fold", lambda w: w.fold(initial=str, combine=lambda a, sale: f"{a}{sale.price}", emit=len), (3, 10), 3),
]


@pytest.mark.parametrize("shape", [fs.tumbling("1m"), fs.session("1m")], ids=["tumbling", "session"])
@pytest.mark.parametrize(
    ("ask", "prices", "value"), [each[1:] for each in ASKED], ids=[each[0] for each in ASKED]
)
def test_an_aggregate_gives_what_its_name_says(
    shape: Any, ask: Any, prices: tuple[Any, ...], value: Any
) -> None:
    graph, stream = sales()
    ask(stream.window(shape, key="shop")).sink("out")
    assert [(each.key, each.value) for each in results(graph, sold(*prices))["out"]] == [("a", value)]


@pytest.mark.parametrize("shape", [fs.tumbling("1m"), fs.session("1m")], ids=["tumbling", "session"])
def test_nan_is_the_least_or_the_greatest_of_nothing_else(shape: Any) -> None:
    graph, stream = sales()
    windows = stream.window(shape, key="shop")
    windows.min("price").sink("min")
    windows.max("price").sink("max")
    windows.top(1, by="price").sink("top")
    found = results(graph, sold(math.nan, 2.0, math.nan, 1.0))
    assert [found[sink][0].value for sink in ("max", "top")] == [2.0, (Sale("a", 1, 2.0, 1),)]
    assert math.isnan(found["min"][0].value) is False


def test_a_nan_is_a_key_like_any_other() -> None:
    graph, stream = sales()
    stream.window(fs.tumbling("1m"), key="price").count().sink("out")
    (found,) = results(graph, sold(math.nan, math.nan))["out"]
    assert (found.value, math.isnan(found.key)) == (2, True)


def test_top_by_size_gives_the_keys_with_the_most_items_and_equal_ones_in_their_order() -> None:
    graph, stream = sales()
    stream.window(fs.tumbling("10s"), key="shop").top(2, by=fs.size).sink("out")
    records = [("sales", Sale(shop, at, 1)) for at, shop in enumerate("cbacd")] + [
        ("sales", Sale("d", 12, 1))
    ]
    assert results(graph, records)["out"] == [
        fs.Windowed(None, 0, 10, (("c", 2), ("a", 1))),
        fs.Windowed(None, 10, 20, (("d", 1),)),
    ]


def test_each_change_is_a_result_at_once_if_asked_for() -> None:
    graph, stream = sales()
    stream.window(fs.tumbling("10s"), key="shop").total("price", results="each").sink("out")
    assert [each.value for each in results(graph, sold(1, 2, 3), ended=False)["out"]] == [1, 3, 6]


def test_a_window_over_windows_gets_what_these_gave_at_the_same_mark() -> None:
    graph, stream = sales()
    counts = stream.window(fs.tumbling("10s"), key="shop").count()
    again = counts.window(fs.tumbling("10s"), key=lambda windowed: None).total("value")
    again.sink("out")
    again.late.sink("late")
    records = [("sales", Sale(shop, at, 1)) for at, shop in enumerate("abcabcabcabcabc")]
    found = results(graph, records)
    assert ([(each.start, each.value) for each in found["out"]], found["late"]) == ([(0, 10), (10, 5)], [])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.window(fs.tumbling("0s"), key="shop"), "must be at least 1 us"),
        (lambda s: s.window(fs.sliding("10s", every="11s"), key="shop"), "every is at most the size"),
        (lambda s: s.window(fs.tumbling("1m"), key="shop").count(results="all"), "neither"),
        (lambda s: s.window(fs.tumbling("1m"), key="shop").top(0, by="price"), "at least one item"),
        (lambda s: s.window(fs.session("1m"), key="shop").top(3, by=fs.size), "sessions have none in common"),
        (lambda s: s.graph.source("other").window(fs.tumbling("1m"), key="shop").count(), "needs event time"),
    ],
)
def test_what_cannot_be_is_told_when_the_graph_is_built(build: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        build(sales()[1])


def raising(*_: Any) -> int:
    raise ValueError("no")


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.window(fs.tumbling("1m"), key=raising).count(),
        lambda s: s.window(fs.tumbling("1m"), key="shop").total(raising),
        lambda s: s.window(fs.tumbling("1m"), key="shop").fold(initial=raising, combine=lambda a, _: a),
        lambda s: s.window(fs.session("1m"), key="shop").fold(initial=int, combine=raising),
        lambda s: s.window(fs.session("1m"), key="shop").fold(
            initial=int, combine=lambda a, _: a, emit=raising
        ),
        lambda s: s.window(fs.session("1m"), key="shop").top(2, by=raising, results="each"),
    ],
    ids=["key", "value", "initial", "combine", "emit", "by"],
)
def test_an_error_names_the_users_own_function(ask: Any) -> None:
    graph, stream = sales()
    ask(stream).sink("out")
    (error,) = results(graph, sold(1))[ERRORS]
    assert f"{__name__}.raising" in f"{error.function} {error.message}"


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(-20, 90)), max_size=30),
    st.integers(0, 12), st.sampled_from([(10, 10), (20, 5), (7, 3)]), st.integers(0, 4),
)  # fmt: skip
def test_windows_are_those_of_a_plain_loop(
    items: list[tuple[str, int]], late: int, shape: tuple[int, int], offset: int
) -> None:
    size, every = shape
    graph, stream = sales(f"{late}s")
    counts = stream.window(fs.sliding(f"{size}s", every=f"{every}s", offset=f"{offset}s"), key="shop").count()
    counts.sink("counts")
    counts.late.sink("late")
    records = [Sale(shop, at, 1, number) for number, (shop, at) in enumerate(items)]
    found = results(graph, [("sales", sale) for sale in records])

    plain, too_late = Counter[tuple[str, int]](), list[Sale]()
    for sale, time, mark in judged([("sales", sale, sale.at) for sale in records], ["sales"], late, 1):
        starts = [
            start
            for start in range(-100, 100)
            if (start - offset) % every == 0 and start <= time < start + size
        ]
        open_ones = [start for start in starts if mark is None or start + size > mark]
        plain.update((sale.shop, start) for start in open_ones)
        too_late += [] if open_ones else [sale]
    assert {(each.key, each.start): each.value for each in found["counts"]} == plain
    assert all(each.end == each.start + size for each in found["counts"])
    assert found["late"] == too_late
