"""A user's own program keeps a state, is called at times, and is blamed for what it raises."""

from dataclasses import dataclass
from typing import Any

import pytest

import flamestream as fs
from flamestream.model.errors import GraphError
from flamestream.reference import ERRORS
from support.event_time import results


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Visit:
    user: str
    at: int


def run(times: list[int], late: str = "0s", **functions: Any) -> dict[str, list[Any]]:
    graph = fs.Graph("own")
    graph.source("visits", at="at", unit="s", late=late).process(key="user", **functions).sink("out")
    return results(graph, [("visits", Visit("ann", time)) for time in times])


def seen(state: Any, visit: Visit, now: Any) -> Any:
    return visit.at, [("seen", now.time, now.mark, now.late)]


def gone(state: int, time: int) -> Any:
    return None, [("gone", state, time)]


def in_ten(state: int) -> int:
    return state + 10


def raising(*_: Any) -> Any:
    raise ValueError("no")


def test_it_is_told_times_as_items_say_them_and_whether_an_item_is_late() -> None:
    assert run([3, 5, 4], on_item=seen)["out"] == [
        ("seen", 3, None, False),
        ("seen", 5, 3, False),
        ("seen", 4, 5, True),
    ]


def test_it_is_called_at_the_time_it_asks_for_and_a_state_of_none_is_forgotten() -> None:
    found = run([0, 4], on_item=seen, on_time=gone, due=in_ten)["out"]
    assert [each for each in found if each[0] == "gone"] == [("gone", 4, 14)]


def test_a_time_that_has_been_is_called_at_once() -> None:
    found = run([50, 3], on_item=seen, on_time=gone, due=in_ten)["out"]
    assert found[1:] == [("seen", 3, 50, True), ("gone", 3, 13)]


@pytest.mark.parametrize("bad", ["on_item", "due"])
def test_an_error_at_an_item_names_the_users_function(bad: str) -> None:
    functions: dict[str, Any] = {"on_item": seen, "on_time": gone, "due": in_ten, bad: raising}
    assert run([0], **functions)[ERRORS][0].function == f"{__name__}.raising"


def test_an_error_at_a_time_names_the_users_function_and_is_of_its_key_alone() -> None:
    def only_bob(state: Any, time: int) -> Any:
        return gone(state, time) if state != 1 else raising()

    graph = fs.Graph("own")
    visits = graph.source("visits", at="at", unit="s")
    visits.process(key=lambda _: None, on_item=seen, on_time=only_bob, due=in_ten).sink("out")
    found = results(graph, [("visits", Visit("ann", 1)), ("visits", Visit("bob", 2))])
    assert found[ERRORS] == []
    one_key = fs.Graph("own")
    visits = one_key.source("visits", at="at", unit="s", late="1h")
    visits.process(key="user", on_item=seen, on_time=only_bob, due=in_ten).sink("out")
    found = results(one_key, [("visits", Visit(f"{number}", min(number, 2))) for number in range(1, 300)])
    assert [("only_bob" in error.function, error.error) for error in found[ERRORS]] == [(True, "ValueError")]
    assert sum(each[0] == "gone" for each in found["out"]) == 298


def nested(levels: int) -> Any:
    return (nested(levels - 1),) if levels else "deep"


@pytest.mark.parametrize("answer", [(nested(63), ()), (None, [nested(63)])], ids=["state", "result"])
def test_what_is_too_deep_for_where_it_is_kept_is_an_error_of_its_key_alone(answer: Any) -> None:
    def too_deep_once(state: Any, time: int) -> Any:
        return answer if state == 1 else gone(state, time)

    def due(state: Any) -> int | None:
        return None if type(state) is tuple else in_ten(state)

    graph = fs.Graph("own")
    visits = graph.source("visits", at="at", unit="s", late="1h")
    visits.process(key="user", on_item=seen, on_time=too_deep_once, due=due).sink("out")
    found = results(graph, [("visits", Visit(f"{number}", min(number, 2))) for number in range(1, 300)])
    assert [(error.error, "64 levels" in error.message) for error in found[ERRORS]] == [
        ("PayloadError", True)
    ]
    assert sum(each[0] == "gone" for each in found["out"]) == 298


@pytest.mark.parametrize("answer", [None, 5, (1, 2, 3), (1, "results"), (1, None)])
def test_an_answer_of_another_form_is_told_with_the_form(answer: Any) -> None:
    (error,) = run([0], on_item=lambda state, item, now: answer)[ERRORS]
    assert "must return (state, results)" in error.message


def test_a_next_time_that_is_no_time_names_due() -> None:
    (error,) = run([0], on_item=seen, on_time=gone, due=lambda state: "soon")[ERRORS]
    assert "<lambda> gave the event time 'soon'" in error.message


def test_to_ask_again_for_a_time_that_was_just_called_is_an_error() -> None:
    (error,) = run([0], on_item=seen, on_time=lambda state, time: (state, ()), due=in_ten)[ERRORS]
    assert "a next time is a later one" in error.message


@pytest.mark.parametrize("functions", [{"on_time": gone}, {"due": in_ten}])
def test_on_time_and_due_go_together(functions: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match="on_time and due go together"):
        run([], on_item=seen, **functions)
