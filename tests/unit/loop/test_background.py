"""Queues of blocking calls: order, what is tried again, and what a close forgets."""

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flamestream.loop.background import Queue, Threads
from flamestream.loop.reactor import EpollReactor
from support import loops


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with loops.reactor() as made:
        yield made


class Hands:
    """Threads that do the next call when they are told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def background(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.calls.append((work, done))

    def turn(self) -> None:
        work, done = self.calls.pop(0)
        done(work())


def test_calls_are_made_one_at_a_time_and_in_order(loop: EpollReactor) -> None:
    queue, seen, results = Queue(loop), [], []  # type: tuple[Queue, list[Any], list[Any]]
    gate = threading.Event()

    def first() -> int:
        gate.wait()
        seen.append("first ends")
        return 1

    queue.run(first, results.append)
    queue.run(lambda: seen.append("second begins"), results.append)
    gate.set()
    loops.turn_until(loop, lambda: len(results) == 2, "an answer")
    assert seen == ["first ends", "second begins"]


def test_the_next_call_begins_behind_the_answer_to_the_one_before() -> None:
    hands, seen = Hands(), []  # type: tuple[Hands, list[str]]
    queue = Queue(hands)
    queue.run(lambda: None, lambda _: seen.append(f"answered, and {len(hands.calls)} begun"))
    queue.run(lambda: None, lambda _: None)
    hands.turn()
    assert (seen, len(hands.calls)) == (["answered, and 0 begun"], 1)


def test_without_a_clock_every_error_is_an_answer(loop: EpollReactor) -> None:
    queue, results = Queue(loop), []  # type: tuple[Queue, list[Any]]
    queue.run(lambda: os.stat("/nowhere/at/all"), results.append)
    loops.turn_until(loop, lambda: bool(results), "an answer")
    assert isinstance(results[0], FileNotFoundError)


def test_with_a_clock_what_is_away_is_called_again_and_told_meanwhile(loop: EpollReactor) -> None:
    queue, results, told = Queue(loop, loop), [], []  # type: tuple[Queue, list[Any], list[str]]
    answers: list[Any] = [OSError("away"), OSError("still away"), "there"]

    def call() -> Any:
        told.append(queue.problem)
        if isinstance(answer := answers.pop(0), OSError):
            raise answer
        return answer

    queue.run(call, results.append)
    loops.turn_until(loop, lambda: bool(results), "an answer")
    assert (results, told, queue.problem) == (["there"], ["", "away", "still away"], "")


def test_another_error_is_an_answer_with_a_clock_too(loop: EpollReactor) -> None:
    queue, results = Queue(loop, loop), []  # type: tuple[Queue, list[Any]]
    queue.run(lambda: 1 // 0, results.append)
    loops.turn_until(loop, lambda: bool(results), "an answer")
    assert isinstance(results[0], ZeroDivisionError)


def test_a_closed_queue_answers_nobody_and_begins_nothing() -> None:
    hands, seen = Hands(), []  # type: tuple[Hands, list[str]]
    queue = Queue(hands)
    queue.run(lambda: None, lambda _: seen.append("the call under way"))
    queue.run(lambda: None, lambda _: seen.append("what waited"))
    queue.close()
    hands.turn()
    assert (seen, hands.calls) == ([], [])


def test_threads_of_ones_own_are_closed_by_a_last_call(loop: EpollReactor) -> None:
    seen: list[str] = []
    threads = Threads(1, loop.soon)
    threads.background(lambda: seen.append("work"), lambda _: seen.append("answered"))
    ended = threading.Event()

    def last() -> None:
        seen.append("last")
        ended.set()

    threads.close(last)
    loops.turn_until(loop, ended.is_set, "an answer")
    assert [name for name in seen if name != "answered"] == ["work", "last"]
