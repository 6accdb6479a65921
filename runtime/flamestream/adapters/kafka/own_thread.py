"""A reactor whose `background` is a thread of its own: for what waits most of its time (a poll), so that it takes nobody's helper.

Keeps: calls run one at a time, in the order submitted. Does not: turn a loop; everything else is the loop's.
"""

from collections.abc import Callable
from typing import TypeVar

from flamestream.adapters.reactor import Helpers
from flamestream.model.time import Timestamp
from flamestream.ports import Reactor, Timer

T = TypeVar("T")


class OwnThread:
    """`ports.Reactor`."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._thread = Helpers(1, reactor.soon)

    def now(self) -> Timestamp:
        return self._reactor.now()

    def watch(self, fd: int, *, readable: Callable[[], None] | None = None, writable: Callable[[], None] | None = None) -> None:
        self._reactor.watch(fd, readable=readable, writable=writable)

    def unwatch(self, fd: int) -> None:
        self._reactor.unwatch(fd)

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        return self._reactor.later(seconds, call)

    def soon(self, call: Callable[[], None]) -> None:
        self._reactor.soon(call)

    def background(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        self._thread.submit(work, done)

    def end(self) -> None:
        """The thread ends after what was submitted."""
        self._thread.close()
