"""What graphs in event time say: too early rather than at each record, and of the user's functions."""

from datetime import datetime
from typing import Any

import pytest

import flamestream as fs
from flamestream.model.errors import GraphError
from flamestream.reference import ERRORS
from support.event_time import results


@fs.event
class Click:
    user: str
    at: int
    when: datetime


def windows(name: str = "clicks") -> Any:
    return fs.Graph("late").source(name, at=itself, unit="s").window(fs.tumbling("10s"), key=one).count()


def itself(record: Any) -> Any:
    return record


def one(_: Any) -> int:
    return 1


def test_a_graph_may_end_with_late_items_alone() -> None:
    counts = windows()
    counts.late.sink("late")
    assert counts.graph.run(clicks=[1, 50, 2]) == {"late": [2]}


def test_so_it_may_with_those_of_a_ranking() -> None:
    stream = fs.Graph("late").source("clicks", at=itself, unit="s")
    stream.window(fs.tumbling("10s"), key=one).top(1, by=fs.size).late.sink("late")
    assert stream.graph.run(clicks=[1, 50, 2]) == {"late": [2]}


def test_results_that_nobody_uses_are_refused_by_what_the_user_wrote() -> None:
    counts = windows()
    counts.graph.source("others").sink("out")
    with pytest.raises(
        GraphError,
        match=r"test_said_early.py:\d+: filter window\(tumbling\('10s'\)\)\.count\(\) in graph 'late' leads nowhere",
    ):
        counts.graph.validated()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"at": "at"},
            'fs.field\\("at"\\) is of int, and without unit= event times are of datetime: say unit="us", '
            '"ms" or "s"',
        ),
        (
            {"at": "when", "unit": "s"},
            "is of datetime, and with unit='s' event times are of int: leave out unit=",
        ),
        (
            {"at": "user"},
            "is of str, and without unit= event times are of datetime: say at= with a datetime or an int",
        ),
    ],
)
def test_a_unit_that_does_not_fit_the_class_is_refused_when_the_graph_is_built(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        fs.Graph("units").source("clicks", Click, **settings)


def test_units_that_fit_or_cannot_be_known_are_taken() -> None:
    for settings in ({"at": "at", "unit": "s"}, {"at": "when"}, {"at": itself, "unit": "s"}, {"at": itself}):
        fs.Graph("units").source("clicks", Click, **settings)


def failing(state: Any, time: Any) -> Any:
    raise KeyError(f"at {time}")


def test_what_is_raised_at_a_time_is_of_the_users_function() -> None:
    graph = fs.Graph("own")
    clicks = graph.source("clicks", at=itself, unit="s")
    clicks.process(
        key=one, on_item=lambda _, item, now: (item, ()), on_time=failing, due=lambda state: state + 1
    ).sink("out")
    (error,) = results(graph, [("clicks", 1)])[ERRORS]
    assert (error.function, error.error, error.message) == (f"{__name__}.failing", "KeyError", "'at 2'")


def test_what_a_fold_raises_when_its_window_closes_is_of_the_users_function() -> None:
    stream = fs.Graph("fold").source("clicks", at=itself, unit="s")
    stream.window(fs.tumbling("10s"), key=one).fold(initial=int, combine=max, emit=emitted).sink("out")
    (error,) = results(stream.graph, [("clicks", 1), ("clicks", 50)], ended=False)[ERRORS]
    assert (error.function, error.error) == (f"{__name__}.emitted", "ZeroDivisionError")


def emitted(greatest: int) -> float:
    return greatest / 0
