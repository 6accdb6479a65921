"""A real reactor, turned by hand until something can be seen."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flamestream.loop.reactor import EpollReactor


@contextmanager
def reactor() -> Iterator[EpollReactor]:
    """A reactor that is closed behind the test."""
    loop = EpollReactor()
    try:
        yield loop
    finally:
        loop.close()


def turn_until(loop: EpollReactor, seen: Callable[[], object], what: str, *, within: float = 90.0) -> None:
    """Turn `loop` until `seen()` is true."""
    deadline = time.monotonic() + within
    while not seen():
        assert time.monotonic() < deadline, f"not within {within:g} s: {what}"
        guard = loop.later(0.05, lambda: None)
        loop.turn()
        guard.cancel()
