"""Wait for what can be observed, never for time to pass.

>>> eventually(lambda: 6 * 7, "the answer")
42

The poll interval is short and the deadline generous: a test that passes never waits longer than what it
observes takes, and one that fails says what it waited for and what it saw last.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T | None], what: str, *, within: float = 90.0) -> T:
    """The first true result of `look`. AssertionError that names `what` and the last result if there is none
    within the deadline."""
    deadline = time.monotonic() + within
    while True:
        seen = look()
        if seen:
            return seen
        assert time.monotonic() < deadline, f"not within {within:g} s: {what} (last seen: {seen!r})"
        time.sleep(0.005)
