"""A breaker opens when tries in a row say that a service is down, and not when requests fail for themselves."""

import errno
import socket
from urllib.error import HTTPError, URLError

import pytest

from flamestream.node.calls.breaker import FAILURES, NOBODY_THERE, Breaker


def wrapped(error: Exception, by: Exception, *, hidden: bool = False) -> Exception:
    by.__context__, by.__suppress_context__ = error, hidden
    return by


REFUSED = ConnectionRefusedError("port 80")
NOT_FOUND = HTTPError("http://here", 404, "Not Found", {}, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "error",
    [
        REFUSED, OSError(errno.EHOSTUNREACH, "no route"), socket.gaierror("no such name"),
        wrapped(REFUSED, URLError("refused")), ExceptionGroup("several", [REFUSED]),
        wrapped(REFUSED, URLError("refused"), hidden=True),  # by `from None`, as httpcore2 does
    ],
)  # fmt: skip
def test_that_nobody_is_there_is_no_requests_fault(error: Exception) -> None:
    breaker = Breaker(())
    for number in range(NOBODY_THERE):
        assert not breaker.is_open(), number
        breaker.tried("the same", error)
    assert breaker.is_open()


@pytest.mark.parametrize("error", [TimeoutError("late"), wrapped(TimeoutError(), ValueError("of a client"))])
def test_a_time_out_may_be_one(error: Exception) -> None:
    alone, several = Breaker(()), Breaker(())
    for number in range(10 * FAILURES):
        alone.tried("the same", error)
        several.tried(f"request {number}", error)
        assert several.is_open() == (number + 1 >= FAILURES)
    assert not alone.is_open()


@pytest.mark.parametrize("error", [NOT_FOUND, FileNotFoundError("x"), PermissionError("x"), ValueError("x")])
def test_another_error_is_an_answer(error: Exception) -> None:
    breaker = Breaker(())
    for number in range(10 * FAILURES):
        breaker.tried(f"request {number}", error)
    assert not breaker.is_open()


def test_a_call_may_name_others_or_none() -> None:
    named, none = Breaker((HTTPError,)), Breaker(None)
    for number in range(FAILURES):
        named.tried(f"request {number}", NOT_FOUND)
        none.tried(f"request {number}", REFUSED)
    assert (named.is_open(), none.is_open()) == (True, False)


def test_anything_else_closes_it() -> None:
    breaker = Breaker(())
    for outcome, opened in ((REFUSED, True), (NOT_FOUND, False), (REFUSED, True), ("an answer", False)):
        for _ in range(NOBODY_THERE):
            breaker.tried("a", outcome)
        assert breaker.is_open() is opened
