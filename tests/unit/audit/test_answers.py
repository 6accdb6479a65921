"""An audit of answers: a whole run has no finding, and each way to damage one has its own."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import flamestream as fs
from flamestream.audit.answers import unpaired
from flamestream.model.calls.call import Answer, hash_of
from flamestream.model.payload import encode
from flamestream.model.time import START, FrontId, Time, Timestamp, time_of
from flamestream.reference import Run, interpret

Runs = list[tuple[str, Run]]


async def asked(order: int) -> int:
    await asyncio.sleep(0)
    return 3 * order


def graph() -> fs.Graph:
    made = fs.Graph("prices")
    made.source("orders").call(asked).sink("out")
    return made


def time(number: int, front: int) -> Time:
    return time_of(Timestamp(number), FrontId(front))


def whole() -> Runs:
    """Three orders and their answers."""
    runs: Runs = [("orders", (time(number, 0), [number])) for number in (1, 2, 3)]
    requests = interpret(graph(), [run for _, run in runs])["asked()"]
    answers = [Answer(meta, hash_of(encode(order)), (3 * order,)) for meta, order in requests]
    return runs + [("asked()", (time(4 + number, 1), [answer])) for number, answer in enumerate(answers)]


def findings(runs: Runs, *, completed: bool = True, cut: Time = START) -> list[tuple[str, int]]:
    results = interpret(graph(), [run for _, run in runs])
    (found,) = unpaired(graph(), runs, results, cut, completed=completed).values()
    return [(finding.kind, finding.count) for finding in found]


def without_answer(runs: Runs) -> Runs:
    return runs[:-1]


def answered_twice(runs: Runs) -> Runs:
    return [*runs, ("asked()", (time(9, 1), runs[-1][1][1]))]


def of_another_request(runs: Runs) -> Runs:
    foreign = Answer(b"\x00" * 9, b"", (7,))
    return [*runs, ("asked()", (time(9, 1), [foreign]))]


def asked_something_else(runs: Runs) -> Runs:
    answer: Any = runs[-1][1][1][0]
    other = Answer(answer.request, hash_of(encode(99)), answer.results)
    return [*runs[:-1], ("asked()", (runs[-1][1][0], [other]))]


def test_a_whole_run_has_no_finding() -> None:
    assert findings(whole()) == []


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (without_answer, [("missing", 1)]),
        (answered_twice, [("unexpected", 1)]),
        (of_another_request, [("unexpected", 1)]),
        (asked_something_else, [("unexpected", 1)]),
    ],
)
def test_a_damaged_one_has(damage: Callable[[Runs], Runs], found: list[tuple[str, int]]) -> None:
    assert findings(damage(whole())) == found


def test_a_job_that_goes_on_may_have_requests_without_an_answer() -> None:
    assert findings(without_answer(whole()), completed=False) == []


def test_what_was_asked_before_a_savepoint_is_in_that() -> None:
    assert findings(of_another_request(whole()), cut=time(1, 0)) == []
