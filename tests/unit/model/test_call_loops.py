"""Loops that lead through calls go round as often as they say, whatever stands in them."""

from collections.abc import Callable
from typing import Any

import pytest

import flamestream as fs
from flamestream.model.calls.call import Answer, Intent, Results
from flamestream.model.calls.loops import Round, Rounds, heads_of
from flamestream.model.calls.productions import with_productions
from flamestream.model.graph import Graph
from flamestream.model.meta import child, meta_of
from flamestream.model.time import FrontId, Timestamp, time_of
from flamestream.testing import outputs

MOST = 3


def counted(number: int) -> int:
    return number + 1


def once(again: fs.Stream[int]) -> fs.Stream[int]:
    return again.call(counted)


def twice(again: fs.Stream[int]) -> fs.Stream[int]:
    return again.call(counted).call(counted, name="more").map(lambda number: number - 1)


def across_keys(again: fs.Stream[int]) -> fs.Stream[int]:
    newest = again.reduce(key=lambda number: 0, initial=int, combine=lambda last, number: number)
    return newest.call(counted)


def behind_another(again: fs.Stream[int]) -> fs.Stream[int]:
    """A call that is in no loop does not count."""
    return once(again)


def graph_of(in_loop: Callable[[Any], Any]) -> Graph:
    """Counts up to ten, by one each round."""
    graph = Graph("loops")
    numbers = graph.source("numbers", int)
    if in_loop is behind_another:
        numbers = numbers.call(lambda number: number, name="before").call(lambda number: number, name="this")
    again = graph.loop("again", max_iterations=MOST)
    made = in_loop(numbers.merge(again))
    again.close(made.filter(lambda number: number < 10))
    made.filter(lambda number: number >= 10).sink("out")
    return graph.validated()


LOOPS = pytest.mark.parametrize("in_loop", [once, twice, across_keys, behind_another])


@LOOPS
def test_an_item_may_go_round_so_often_and_no_more(in_loop: Callable[[Any], Any]) -> None:
    graph = graph_of(in_loop)
    assert outputs(graph, ("numbers", 9 - MOST)) == {"out": [10]}
    [error] = outputs(graph, ("numbers", 9 - MOST - 1))["errors"]
    assert (error.error, error.message) == ("LoopLimit", "loop 'again' goes round more than 3 times")


@LOOPS
def test_so_it_is_where_functions_are_productions(in_loop: Callable[[Any], Any]) -> None:
    graph = with_productions(graph_of(in_loop))
    assert outputs(graph, ("numbers", 9 - MOST)) == {"out": [10]}
    [error] = outputs(graph, ("numbers", 9 - MOST - 1))["errors"]
    assert error.error == "LoopLimit"


def test_the_outside_is_not_asked_once_more_than_that() -> None:
    asked = list[int]()

    def noted(number: int) -> int:
        asked.append(number)
        return number + 1

    outputs(graph_of(lambda again: again.call(noted)), ("numbers", -100))
    assert len(asked) == 1 + MOST


def test_each_of_what_an_answer_becomes_has_rounds_of_its_own() -> None:
    graph = graph_of(lambda again: again.call(lambda number: [number + 1, number + 2], name="both"))
    found = outputs(graph, ("numbers", 5))
    assert sorted(found["out"]) == [10] * 7 + [11] * 4
    assert len(found["errors"]) == 1, "5 + 1 + 1 + 1 + 1"


def test_a_call_in_no_loop_enters_as_it_always_did() -> None:
    graph = graph_of(behind_another)
    assert set(heads_of(graph)) == {"counted()"}
    before, counts = FrontId(1), FrontId(3)
    rounds = Rounds(graph, {FrontId(n): source.name for n, source in enumerate(graph.sources)})
    answers = [
        Answer(meta_of(time_of(Timestamp(7), before), 5), b""),
        Answer(meta_of(time_of(Timestamp(8), before), 6), b""),
    ]
    assert [*rounds.runs(before, answers)] == [answers]
    assert [*rounds.runs(counts, answers)] == [[Round(), answers[0]], [Round(), answers[1]]]


def test_an_answer_stands_behind_as_many_rounds_as_answers_that_it_came_of() -> None:
    graph = graph_of(once)
    front = FrontId(1)
    rounds = Rounds(graph, {FrontId(0): "numbers", front: "counted()"})
    request = child(meta_of(time_of(Timestamp(9), front), 2), 77)
    answer, intent = Answer(request, b""), Intent(request, b"")
    assert [*rounds.runs(front, [intent, answer])] == [[intent], [Round(), Round(), Round(), answer]]
    assert rounds.of(request) == 2
    assert Results(counted)(Round()) == ()
