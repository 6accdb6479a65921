"""A lane: blocking calls of one kind, one at a time, in order, in threads of somebody else.

Keeps: the next call begins when the one before has answered, whatever it answered. Does not: bound how many wait (whoever asks does), or
have threads.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Background(Protocol):
    """Where blocking calls go: a reactor, or helper threads of its own."""

    def background(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None: ...


class Lane:
    """Blocking calls, one at a time, in order."""

    def __init__(self, threads: Background) -> None:
        self._threads = threads
        self._waiting: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._busy = False

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Queue `work`; `done` gets what it returned or raised."""
        self._waiting.append((work, done))
        self._next()

    def _next(self) -> None:
        if self._waiting and not self._busy:
            self._busy = True
            work, done = self._waiting.popleft()
            self._threads.background(work, lambda result: self._done(result, done))

    def _done(self, result: Any, done: Callable[[Any], None]) -> None:
        self._busy = False
        self._next()
        done(result)
