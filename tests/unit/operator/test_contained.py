"""One job's calls in the loop that all share: what they raise is that job's, and the loop turns on."""

import os
from collections.abc import Iterator

import pytest

from flamestream.loop.reactor import EpollReactor
from flamestream_operator.coordination.contained import Contained
from support.loops import reactor, turn_until


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with reactor() as made:
        yield made


def broken() -> None:
    raise ZeroDivisionError("no such thing")


def give_up(_: object) -> None:
    broken()


def test_whatever_a_job_asks_for_cannot_end_the_loop(loop: EpollReactor) -> None:
    told: list[Exception] = []
    job = Contained(loop, told.append)
    reads, writes = os.pipe()
    os.write(writes, b"x")

    def read() -> None:
        job.unwatch(reads)
        broken()

    job.soon(broken)
    job.later(0, broken)
    job.watch(reads, readable=read)
    job.background(lambda: 1, give_up)
    job.through(loop).background(lambda: 1, give_up)
    turn_until(loop, lambda: len(told) == 5, "every call")
    assert {type(error) for error in told} == {ZeroDivisionError}


def test_what_works_is_as_without_it(loop: EpollReactor) -> None:
    told: list[object] = []
    job = Contained(loop, told.append)
    job.soon(lambda: told.append("soon"))
    job.background(lambda: "answer", told.append)
    cancelled = job.later(0, lambda: told.append("later"))
    cancelled.cancel()
    turn_until(loop, lambda: len(told) == 2, "both")
    assert told == ["soon", "answer"]
