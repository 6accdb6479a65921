"""What remembers keys for a while: dedup and reduce with a ttl."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flamestream as fs
from flamestream.model.errors import GraphError
from flamestream.model.windows.expiry import Expiry, Kept
from flamestream.model.windows.program import Now
from flamestream.reference import ERRORS
from support.event_time import judged, results


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Click:
    id: str
    at: int
    number: int = 0


def run(build: Any, clicks: list[Click], late: str = "0s") -> tuple[list[Any], list[Click]]:
    graph = fs.Graph("forgetting")
    out = build(graph.source("clicks", at="at", unit="s", late=late))
    out.sink("out")
    out.late.sink("late")
    found = results(graph, [("clicks", click) for click in clicks])
    assert found[ERRORS] == []
    return found["out"], found["late"]


def at(*times: int) -> list[Click]:
    return [Click("a", time, number) for number, time in enumerate(times)]


def unrepeated(stream: Any) -> Any:
    return stream.dedup("id", within="10s")


def numbers(stream: Any) -> Any:
    return stream.reduce(
        key="id", initial=tuple, combine=lambda seen, click: (*seen, click.number), ttl="10s"
    )


def test_dedup_lets_the_first_of_a_key_pass_and_what_is_further_from_it() -> None:
    assert [click.at for click in run(unrepeated, at(0, 5, 10, 10, 11, 12, 22))[0]] == [0, 11, 22]


def test_dedup_looks_to_both_sides_where_items_come_out_of_order() -> None:
    assert [click.at for click in run(unrepeated, at(20, 12, 9, 31, 25), "1m")[0]] == [20, 9, 31]


def test_what_dedup_cannot_judge_any_more_is_late() -> None:
    assert [click.number for click in run(unrepeated, at(20, 19, 40, 35))[1]] == [1, 3]


def test_a_key_that_was_silent_for_longer_than_its_ttl_begins_anew() -> None:
    assert run(numbers, at(0, 10, 21, 22))[0] == [(0,), (0, 1), (2,), (2, 3)]


def test_a_key_is_remembered_as_long_as_it_is_touched() -> None:
    assert run(numbers, at(*range(0, 50, 10)))[0][-1] == (0, 1, 2, 3, 4)


def test_an_older_item_counts_where_its_key_is_remembered_and_is_late_where_it_is_not() -> None:
    out, late = run(numbers, [Click("a", 20, 0), Click("a", 5, 1), Click("b", 40, 2), Click("a", 39, 3)])
    assert (out, [click.number for click in late]) == ([(0,), (0, 1), (2,)], [3])


def test_a_touch_moves_no_alarm_and_the_alarm_asks_again() -> None:
    program = Expiry(int, lambda count, _: count + 1, None, 10, "")
    state, _ = program.on_item("a", None, None, Now(0, None))
    touched, _ = program.on_item("a", state, None, Now(7, None))
    assert (program.due("k", state), program.due("k", touched)) == (11, 11)
    assert program.on_time("a", touched, 11) == (Kept(2, 7, 18), ())
    assert program.on_time("a", Kept(2, 7, 18), 18) == (None, ())


def test_a_ready_made_fold_can_have_a_ttl() -> None:
    counts, *_ = run(
        lambda stream: stream.reduce(key=fs.field("id"), combine=fs.count(), ttl="10s"), at(0, 3, 20)
    )
    assert counts == [1, 2, 1]


@pytest.mark.parametrize("ttl", ["0s", "-1s", "soon"])
def test_a_ttl_that_is_none_is_refused(ttl: str) -> None:
    with pytest.raises(GraphError, match="ttl="):
        run(lambda stream: stream.reduce(key="id", initial=int, combine=lambda a, _: a, ttl=ttl), [])


ITEMS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=30)


@given(ITEMS, st.integers(0, 12))
def test_both_are_what_a_loop_finds_that_forgets_nothing(items: list[tuple[str, int]], late: int) -> None:
    clicks = [Click(key, time, number) for number, (key, time) in enumerate(items)]
    passed, folded = dict[str, list[int]](), list[tuple[int, ...]]()
    kept, first, old, unknown = (
        dict[str, tuple[tuple[int, ...], int]](),
        list[Click](),
        list[Click](),
        list[Click](),
    )
    for click, time, mark in judged([("clicks", click, click.at) for click in clicks], ["clicks"], late, 1):
        is_old = mark is not None and time < mark
        if is_old:
            old.append(click)
        elif not any(abs(time - before) <= 10 for before in passed.setdefault(click.id, [])):
            passed[click.id].append(time)
            first.append(click)
        seen, last = kept.get(click.id, ((), -1000))
        if is_old and mark is not None and last + 10 < mark:
            unknown.append(click)
            continue
        seen = (*seen, click.number) if time <= last + 10 else (click.number,)
        kept[click.id] = seen, max(last, time)
        folded.append(seen)
    assert run(unrepeated, clicks, f"{late}s") == (first, old)
    assert run(numbers, clicks, f"{late}s") == (folded, unknown)
