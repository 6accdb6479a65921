"""Blocking calls of one adapter, one at a time and in order, each retried while the outside is away.

A call that raises OSError (disk full, a stale mount) is tried again after a pause that doubles up to two seconds, until it succeeds or
the adapter closes: the stream holds meanwhile, and `problem` says why, so nothing is lost and `status` can show it. So it does of a call
that is not answered.

Keeps: at most one call of the adapter is in a helper thread. Does not: bound the queue (its adapter has one call in flight per action).
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from flamestream.loop.silence import Silence
from flamestream.ports import Reactor, Timer

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0
SLOW_SECONDS: Final = 3.0
"""A call that takes longer is told."""


class Serial:
    """A queue of blocking calls in front of `Reactor.background`."""

    def __init__(self, reactor: Reactor, slow_seconds: float = SLOW_SECONDS) -> None:
        self._reactor = reactor
        self._calls: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._busy = False
        self._closed = False
        self._pause = FIRST_PAUSE
        self._timer: Timer | None = None
        self._failure = ""
        self._silence = Silence(slow_seconds)
        """While the call at hand is with a helper thread."""

    @property
    def problem(self) -> str:
        """Why the call at hand is being retried, or that it is not answered; "" if all is well."""
        return self._failure or self._silence.problem

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Queue `work`; `done` gets what it returned or raised, except OSError."""
        self._calls.append((work, done))
        self._next()

    def close(self) -> None:
        """Forget what is queued. A call in a helper thread ends by itself; its `done` is not called."""
        self._closed = True
        self._calls.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _next(self) -> None:
        if self._calls and not self._busy:
            self._busy = True
            self._call()

    def _call(self) -> None:
        self._silence.begin()
        self._reactor.background(self._calls[0][0], self._done)

    def _done(self, result: Any) -> None:
        self._silence.end()
        if self._closed:
            return
        if isinstance(result, OSError):
            self._failure = str(result)
            self._timer = self._reactor.later(self._pause, self._call)
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
            return
        self._failure, self._pause = "", FIRST_PAUSE
        _, done = self._calls.popleft()
        self._busy = False
        done(result)
        self._next()
