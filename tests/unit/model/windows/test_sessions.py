"""Sessions end when a key is silent, and become one where an item bridges them."""

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import flamestream as fs
from flamestream.model.windows.panes import Windowed
from support.event_time import judged, results


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Click:
    user: str
    at: int
    number: int


def clicks_at(*times: int) -> list[tuple[str, Click]]:
    return [("clicks", Click("ann", time, number)) for number, time in enumerate(times)]


def sessions(late: str = "0s") -> Any:
    graph = fs.Graph("sessions")
    return graph, graph.source("clicks", at="at", unit="s", late=late).window(fs.session("10s"), key="user")


def values(sink: list[Windowed[Any, Any]]) -> list[tuple[int, int, Any]]:
    return [(each.start, each.end, each.value) for each in sink]


def test_a_session_lasts_from_its_first_item_to_the_gap_behind_its_last() -> None:
    graph, windows = sessions()
    windows.count().sink("out")
    assert values(results(graph, clicks_at(3, 9, 40))["out"]) == [(3, 19, 2), (40, 50, 1)]


def test_an_item_exactly_the_gap_later_begins_a_new_one() -> None:
    graph, windows = sessions()
    windows.count().sink("out")
    assert values(results(graph, clicks_at(0, 10))["out"]) == [(0, 10, 1), (10, 20, 1)]


def test_an_item_between_two_makes_them_one() -> None:
    graph, windows = sessions(late="1m")
    windows.count().sink("out")
    assert values(results(graph, clicks_at(0, 15, 8))["out"]) == [(0, 25, 3)]


def test_a_fold_without_merge_gets_the_items_of_all_in_the_order_in_which_they_came() -> None:
    graph, windows = sessions(late="1m")
    windows.fold(initial=tuple, combine=lambda seen, click: (*seen, click.number)).sink("out")
    assert values(results(graph, clicks_at(0, 15, 16, 17, 1, 8))["out"]) == [(0, 27, (0, 1, 2, 3, 4, 5))]


def test_an_item_is_late_when_its_own_time_has_passed_and_it_meets_no_open_session() -> None:
    graph, windows = sessions()
    counts = windows.count()
    counts.sink("out")
    counts.late.sink("late")
    found = results(graph, clicks_at(0, 9, 18, 30, 5, 45, 5))
    assert values(found["out"]) == [(0, 28, 3), (30, 40, 1), (45, 55, 1)]
    assert [click.number for click in found["late"]] == [4, 6]


def test_an_old_item_that_meets_an_open_session_is_not_late() -> None:
    graph, windows = sessions()
    windows.count().sink("out")
    assert values(results(graph, clicks_at(20, 29, 12))["out"]) == [(12, 39, 3)]


def test_each_change_of_a_session_is_a_result_at_once_if_asked_for() -> None:
    graph, windows = sessions()
    windows.count(results="each").sink("out")
    assert values(results(graph, clicks_at(0, 4, 20))["out"]) == [(0, 10, 1), (0, 14, 2), (20, 30, 1)]


Plain = dict[tuple[str, int, int], tuple[int, ...]]


def plain_sessions(clicks: list[Click], gap: int, late: int) -> tuple[Plain, list[int]]:
    """Sessions as sets of items that are sorted and cut anew at each item."""
    open_items, closed, too_late = (
        dict[str, list[Click]](),
        dict[tuple[str, int, int], tuple[int, ...]](),
        list[int](),
    )

    def cut(user: str) -> list[list[Click]]:
        groups = list[list[Click]]()
        for click in sorted(open_items.get(user, []), key=lambda each: each.at):
            if groups and click.at < groups[-1][-1].at + gap:
                groups[-1].append(click)
            else:
                groups.append([click])
        return groups

    def close(mark: float) -> None:
        for user in open_items:
            for group in cut(user):
                if (end := group[-1].at + gap) <= mark:
                    closed[user, group[0].at, end] = tuple(sorted(click.number for click in group))
                    open_items[user] = [click for click in open_items[user] if click not in group]

    for click, time, mark in judged([("clicks", each, each.at) for each in clicks], ["clicks"], late, 1):
        close(-1e9 if mark is None else mark)
        meets = any(group[0].at < time + gap and time < group[-1].at + gap for group in cut(click.user))
        if mark is not None and time + gap <= mark and not meets:
            too_late.append(click.number)
        else:
            open_items.setdefault(click.user, []).append(click)
    close(1e9)
    return closed, too_late


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 60)), max_size=30), st.integers(0, 12))
def test_sessions_are_those_of_a_plain_loop(items: list[tuple[str, int]], late: int) -> None:
    graph, windows = sessions(f"{late}s")
    numbers = windows.fold(initial=tuple, combine=lambda seen, click: (*seen, click.number))
    numbers.sink("numbers")
    numbers.late.sink("late")
    windows.count().sink("counts")
    clicks = [Click(user, time, number) for number, (user, time) in enumerate(items)]
    found = results(graph, [("clicks", click) for click in clicks])
    closed, too_late = plain_sessions(clicks, 10, late)
    numbers_of, counts_of = (
        {(each.key, each.start, each.end): each.value for each in found[sink]}
        for sink in ("numbers", "counts")
    )
    assert numbers_of == closed
    assert counts_of == {at: len(numbers) for at, numbers in closed.items()}
    assert [click.number for click in found["late"]] == too_late
