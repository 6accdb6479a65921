"""Whoever watches a row is given each change once and in order, whatever moments its answers are of; or is told that it
came too late."""

from collections.abc import Iterator
from itertools import count, islice, repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flamestream as fs
from flamestream.live import kept_changes
from flamestream.live.kept_changes import watched
from flamestream.live.port import Answer, Key
from flamestream.model.errors import GraphError, UserError
from flamestream.model.tables.kept_changes import SLOT, KeptChange, slot_of
from flamestream.model.time import Time
from flamestream.node.queries.committed import NOTHING


def at_once(key: Key, known: Any, at_least: Time) -> None:
    """Nobody has to wait."""
    assert key == ("t.changed", "a") and (known is NOTHING or known > 0)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_changes, "PATIENCE", 0.0)


class Row:
    """What a job with so many slots says of a row, by the definition of a slot. Each answer is of a later moment."""

    def __init__(self, slots: int, numbers: Iterator[int]) -> None:
        self._slots, self._numbers, self._times = slots, numbers, count(1)

    def __call__(self, keys: list[Key], at_least: Time) -> Answer:
        slot: Any = keys[1][1]
        number, time = next(self._numbers), Time(next(self._times))
        assert at_least < time, "an answer is asked to have what the one before had"
        numbers = [each for each in range(1, number + 1) if slot_of(each, self._slots) == slot[1]][-SLOT:]
        its = tuple(KeptChange(each, self._slots, "a", each - 1, each, False) for each in numbers)
        return Answer(time, (number or NOTHING, its or NOTHING), "stale")


def rising(steps: list[int]) -> Iterator[int]:
    """0, then sums of the steps; the last one again and again."""
    number = 0
    yield number
    for step in steps:
        number += step
        yield number
    while True:
        yield number


@given(st.integers(1, 4), st.lists(st.integers(0, 2 * SLOT), min_size=3), st.data())
def test_every_change_is_given_once_and_in_order_from_any_place_on(
    slots: int, steps: list[int], data: Any
) -> None:
    total = sum(steps)
    place = data.draw(st.integers(max(0, total - slots * SLOT), total))
    row = Row(slots, repeat(total))
    found = list(islice(watched(row, at_once, "t", "a", str(place)), total - place))
    assert [(change.id, change.after) for change in found] == [
        (str(n), n) for n in range(place + 1, total + 1)
    ]


@given(st.integers(1, 4), st.lists(st.integers(0, SLOT // 2), max_size=40))
def test_so_it_is_while_they_come(slots: int, steps: list[int]) -> None:
    row, total = Row(slots, rising(steps)), sum(steps)
    ids = [int(change.id) for change in islice(watched(row, at_once, "t", "a", "0"), total)]
    assert ids == list(range(1, total + 1))


@given(st.integers(1, 4), st.integers(1, 6 * SLOT))
def test_who_names_no_place_begins_with_the_oldest_that_is_kept_for_sure(slots: int, total: int) -> None:
    first = next(watched(Row(slots, repeat(total)), at_once, "t", "a", ""))
    assert int(first.id) == max(0, total - slots * SLOT) + 1


def test_what_is_not_kept_any_more_is_never_left_out_in_silence() -> None:
    with pytest.raises(UserError, match=r"change 4 of t\['a'\] is not kept any more"):
        next(watched(Row(2, repeat(2 * SLOT + 4)), at_once, "t", "a", "3"))


@pytest.mark.parametrize(("last", "slots"), [(1, 1), (SLOT, 1), (SLOT + 1, 2), (1000, 16)])
def test_a_graph_keeps_as_many_changes_as_it_says(last: int, slots: int) -> None:
    graph = fs.Graph("bank")
    accounts = graph.table("accounts", initial=int)
    put = graph.source("in").upsert(accounts, key=lambda pair: pair[0], value=lambda pair: pair[1])
    put.committed.sink("out", key=fs.item)
    accounts.keep_changes(last)
    names = graph.validated().kept
    assert {"accounts", "accounts.changed", "accounts.changes"} <= set(names)
    kept = graph.vertices[names["accounts.changes"]]
    change = KeptChange(SLOT * (slots - 1) + 1, slots, "a", 0, 1, False)
    assert kept.key is not None and kept.key(change) == ("a", slots - 1)


@pytest.mark.parametrize("last", [0, 63_001])
def test_no_more_than_a_stated_number_is_kept(last: int) -> None:
    graph = fs.Graph("bank")
    accounts = graph.table("accounts", initial=int)
    graph.source("in").upsert(accounts, key=fs.item, value=fs.item)
    with pytest.raises(GraphError, match="1 to 63000 changes of a row are kept"):
        accounts.keep_changes(last)
