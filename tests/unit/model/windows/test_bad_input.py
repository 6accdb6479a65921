"""Bad input to programs in event time: each costs its own item or is told when the graph is built, and
nothing else."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

import flamestream as fs
from flamestream.model.errors import GraphError
from flamestream.model.windows.windows import Windows
from flamestream.reference import ERRORS
from support.event_time import results

YEAR = 365 * 24 * 3600


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Event:
    key: Any
    at: Any
    number: int = 0


def counted(events: list[Any], late: str = "10s", max_ahead: str | None = None) -> dict[str, list[Any]]:
    graph = fs.Graph("bad")
    counts = (
        graph.source("events", at="at", unit="s", late=late, max_ahead=max_ahead)
        .window(fs.tumbling("10s"), key="key")
        .count()
    )
    counts.sink("out")
    counts.late.sink("late")
    return results(graph, [("events", event) for event in events])


def windows(found: dict[str, list[Any]]) -> list[tuple[int, int]]:
    return [(each.start, each.value) for each in found["out"]]


@pytest.mark.parametrize("at", [None, "noon", 3.5, True])
def test_a_time_that_is_none_is_an_error_of_its_item(at: Any) -> None:
    found = counted([Event("a", 1), Event("a", at), Event("a", 2)])
    assert windows(found) == [(0, 2)]
    assert f'fs.field("at") gave the event time {at!r}' in found[ERRORS][0].message


def test_a_record_without_the_field_is_an_error_of_its_item() -> None:
    found = counted([Event("a", 1), ("a", 1), Event("a", 2)])
    assert windows(found) == [(0, 2)]
    assert len(found[ERRORS]) == 1


def test_a_time_a_year_back_is_late() -> None:
    found = counted([Event("a", YEAR), Event("a", 0), Event("a", YEAR + 1)])
    assert ([value for _, value in windows(found)], [event.at for event in found["late"]]) == ([2], [0])


def test_a_time_a_century_ahead_moves_nothing_where_max_ahead_says_so() -> None:
    found = counted([Event("a", 1), Event("a", 100 * YEAR), Event("a", 2)], max_ahead="1d")
    assert (windows(found), found["late"]) == ([(0, 2)], [])
    assert "max_ahead" in found[ERRORS][0].message


def test_a_window_that_ends_behind_the_year_9999_is_told_with_what_to_do() -> None:
    last = datetime(9999, 12, 31, 23, 59, 55, tzinfo=UTC)
    graph = fs.Graph("last")
    graph.source("events", at="at", late="10s").window(fs.tumbling("10s"), key="key").count().sink("out")
    found = results(graph, [("events", Event("a", last.replace(year=9998))), ("events", Event("a", last))])
    assert [each.value for each in found["out"]] == [1]
    (error,) = found[ERRORS]
    assert "outside of the years 1 to 9999" in error.message and "`unit`" in error.message


def test_ten_thousand_windows_of_one_key_are_open_at_once() -> None:
    found = counted([Event("a", 10 * number) for number in reversed(range(10_000))], late="2d")
    assert windows(found) == [(10 * number, 1) for number in range(10_000)]


def test_a_key_that_never_ends_leaves_nothing_behind_of_what_is_over() -> None:
    from flamestream.model.windows.expiry import Expiry
    from flamestream.model.windows.program import Now

    program = Expiry(int, lambda count, _: count + 1, None, 10, "")
    state: Any = None
    for time in range(0, 10_000, 5):
        if state is not None and (due := program.due("a", state)) is not None and due <= time:
            state, _ = program.on_time("a", state, due)
        state, (count,) = program.on_item("a", state, None, Now(time, time))
    assert (count, state.alarm - state.last <= 11) == (2_000, True)


@pytest.mark.parametrize("value", [{}, [1], object()])
def test_a_key_that_is_no_payload_is_an_error_of_its_item(value: Any) -> None:
    graph = fs.Graph("bad")
    graph.source("events", at="at", unit="s").window(
        fs.tumbling("10s"), key=lambda event: value
    ).count().sink("out")
    found = results(graph, [("events", Event("a", 1))])
    assert (found["out"], found[ERRORS][0].error) == ([], "PayloadError")


def test_a_fold_whose_accumulator_is_no_payload_is_an_error_of_its_item() -> None:
    graph = fs.Graph("bad")
    graph.source("events", at="at", unit="s").window(fs.tumbling("10s"), key="key").fold(
        initial=list, combine=lambda seen, event: [*seen, event]
    ).sink("out")
    found = results(graph, [("events", Event("a", 1))])
    assert (found["out"], found[ERRORS][0].error) == ([], "PayloadError")


@pytest.mark.parametrize("size", ["", "1", "1 fortnight", "-1m", "0.0000001s", 60])
def test_a_length_that_is_none_is_told_when_the_graph_is_built(size: Any) -> None:
    for shape in (fs.tumbling, fs.session):
        with pytest.raises(GraphError):
            shape(size)


FOLDS: dict[str, Callable[[Windows[Any, Any], Any], Any]] = {
    "total": lambda windows, value: windows.total(value),
    "mean": lambda windows, value: windows.mean(value),
    "min": lambda windows, value: windows.min(value),
    "distinct_count": lambda windows, value: windows.distinct_count(value),
    "top": lambda windows, value: windows.top(1, by=value),
}


def error_of(name: str, value: Any) -> Any:
    graph = fs.Graph("values")
    windows_of = graph.source("events", at="at", unit="s").window(fs.tumbling("10s"), key="key")
    FOLDS[name](windows_of, value).sink("out")
    return results(graph, [("events", Event("a", 1, 1)), ("events", Event("a", 2, 2))])[ERRORS][-1]


def of_no_value(event: Event) -> Any:
    raise KeyError(event.number)


@pytest.mark.parametrize("name", FOLDS)
def test_a_value_that_cannot_be_had_is_blamed_on_its_own_function(name: str) -> None:
    error = error_of(name, of_no_value)
    assert (error.function, error.error, error.message) == (f"{__name__}.of_no_value", "KeyError", "2")


def none_first(event: Event) -> Any:
    return None if event.number == 1 else event.number


@pytest.mark.parametrize("name", ["min", "top"])
def test_values_that_cannot_be_compared_are_told_with_their_window(name: str) -> None:
    error = error_of(name, none_first)
    assert error.function.startswith(f"window(tumbling('10s')).{name}(") and error.error == "TypeError"
