"""A workload's lines come from its seed alone, and have the skew and the refusals that its name says."""

from collections import Counter
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from bank.workloads import ABORTS, BASKETS, TOO_MUCH, WORKLOADS, ZIPF, lines

MANY = 20_000


def drawn(name: str, count: int = MANY) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in lines(WORKLOADS[name], count)]


@pytest.mark.parametrize("name", WORKLOADS)
def test_fewer_lines_are_the_first_of_more_and_are_numbered(name: str) -> None:
    few, more = list(lines(WORKLOADS[name], 50)), list(lines(WORKLOADS[name], 60))
    assert few == more[:50]
    assert [msgspec.json.decode(line)["id"] for line in more] == list(range(60))


@pytest.mark.parametrize("name", [name for name, its in WORKLOADS.items() if its.graph == "bank"])
def test_a_transfer_is_between_two_accounts(name: str) -> None:
    assert all(each["source"] != each["target"] for each in drawn(name))


def test_a_hot_account_is_in_every_transfer_and_pays_as_often_as_it_is_paid() -> None:
    its = drawn("one hot account")
    assert all(0 in (each["source"], each["target"]) for each in its)
    assert sum(each["source"] == 0 for each in its) == MANY / 2


def test_four_accounts_are_four() -> None:
    assert {each["source"] for each in drawn("four accounts")} == {0, 1, 2, 3}


def test_the_greater_the_exponent_the_oftener_comes_the_commonest_account() -> None:
    most = [max(Counter(each["source"] for each in drawn(f"zipf {zipf}")).values()) for zipf in ZIPF]
    assert all(after > before for before, after in pairwise(most))
    # of a million accounts by Zipf's 0.99 the first has one in 15.3
    assert most[-1] == pytest.approx(MANY / 15.3, rel=0.1)


@pytest.mark.parametrize("share", ABORTS)
def test_such_a_share_asks_for_more_than_any_account_has(share: float) -> None:
    refused = sum(each["amount"] == TOO_MUCH for each in drawn(f"aborts {share:.0%}"))
    assert refused == pytest.approx(share * MANY, rel=0.1)


def test_every_basket_is_filled_with_2_to_8_different_things_before_the_first_order() -> None:
    its = drawn("orders", BASKETS + 100)
    filled = {each["basket"]: each["things"] for each in its[:BASKETS]}
    assert set(map(len, filled.values())) == set(range(2, 9)) and len(filled) == BASKETS
    assert all(len(set(things)) == len(things) for things in filled.values())
    assert all(each["basket"] in filled and "things" not in each for each in its[BASKETS:])


def test_a_new_order_has_5_to_15_different_things_and_one_in_a_hundred_an_unknown_one() -> None:
    orders = [each["lines"] for each in drawn("tpcc") if "lines" in each]
    assert len(orders) == MANY / 2 and {len(its) for its in orders} == set(range(5, 16))
    assert all(len({thing for thing, _, _ in its}) == len(its) for its in orders)
    assert sum(its[-1][0] == 0 for its in orders) == pytest.approx(len(orders) / 100, rel=0.3)
