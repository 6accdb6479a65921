"""An item gets the version of its own time, whatever comes before or behind it."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flamestream as fs
from flamestream.model.errors import GraphError
from flamestream.model.windows.latest import Latest, Versions
from flamestream.model.windows.program import Now
from support.event_time import judged, results


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Order:
    currency: str
    at: int
    number: int = 0


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Rate:
    currency: str
    at: int
    number: int = 0


def priced(how: str, items: list[Any], late: str = "0s", *, ended: bool = True) -> dict[str, list[Any]]:
    graph = fs.Graph("priced")
    orders, rates = (graph.source(name, at="at", unit="s", late=late) for name in ("orders", "rates"))
    pairs = orders.join_latest(rates, on="currency", how=how)
    pairs.sink("out")
    pairs.late.sink("late")
    return results(
        graph, [("orders" if isinstance(item, Order) else "rates", item) for item in items], ended=ended
    )


def test_an_order_gets_the_rate_of_its_time() -> None:
    rates = [Rate("usd", at) for at in (0, 10, 20)]
    items = [*rates, Order("usd", 15), Order("usd", 20), Order("usd", 9)]
    found = priced("inner", [items[0], items[3], *items[1:3], items[4]])
    assert [(order.at, rate.at) for order, rate in found["out"]] == [(15, 10), (20, 20)]


def test_it_waits_for_a_rate_of_its_own_time() -> None:
    items = [Rate("usd", 0), Order("usd", 10), Rate("usd", 10)]
    assert priced("inner", items, ended=False)["out"] == []
    assert priced("inner", items)["out"] == [(Order("usd", 10), Rate("usd", 10))]


def test_of_two_rates_of_one_time_the_last_holds() -> None:
    assert priced("inner", [Rate("usd", 0, 1), Rate("usd", 0, 2), Order("usd", 1)])["out"][0][1].number == 2


def test_left_keeps_an_order_without_a_rate() -> None:
    items = [Order("usd", 5), Rate("usd", 6), Order("eur", 5)]
    assert priced("inner", items)["out"] == []
    assert priced("left", items)["out"] == [(Order("usd", 5), None), (Order("eur", 5), None)]


def test_a_version_that_no_order_can_ask_for_goes_and_the_newest_below_the_mark_stays() -> None:
    program, state = Latest(outer=False, written=""), None
    for time in (0, 10, 20, 30):
        state, _ = program.on_item(
            "usd", state, f"rate {time}", Now(time, mark=15, side=1) if time > 14 else Now(time, None, side=1)
        )
    assert state == Versions((), ((10, "rate 10"), (20, "rate 20"), (30, "rate 30")))


def test_another_word_for_how_is_refused() -> None:
    with pytest.raises(GraphError, match="how='full' is none of inner, left"):
        priced("full", [])


ITEM = st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(0, 40))


@given(st.lists(ITEM, max_size=30), st.integers(0, 8))
def test_it_is_what_a_loop_finds_that_knows_all(drawn: list[tuple[bool, str, int]], late: int) -> None:
    items = [
        (Order if is_order else Rate)(key, at, number) for number, (is_order, key, at) in enumerate(drawn)
    ]
    found = priced("left", items, f"{late}s")
    named = [("orders" if isinstance(item, Order) else "rates", item, item.at) for item in items]
    in_time, too_late = list[Any](), list[Any]()
    for item, time, mark in judged(named, ["orders", "rates"], late, 1):
        (too_late if mark is not None and time < mark else in_time).append(item)
    rates = [item for item in in_time if isinstance(item, Rate)]
    plain = []
    for order in (item for item in in_time if isinstance(item, Order)):
        able = [rate for rate in rates if rate.currency == order.currency and rate.at <= order.at]
        plain.append((order, max(able, key=lambda rate: (rate.at, rate.number), default=None)))
    assert sorted(map(repr, found["out"])) == sorted(map(repr, plain))
    assert found["late"] == too_late


def test_an_order_is_priced_once_the_mark_is_behind_its_time_and_not_before() -> None:
    state, results = Latest(outer=False, written="").on_time(
        "usd", Versions(((0, "o"), (1, "p")), ((0, "r"),)), 1
    )
    assert (state, results) == (Versions(((1, "p"),), ((0, "r"),)), [("o", "r")])
