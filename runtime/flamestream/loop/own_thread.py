"""A reactor whose background work has a thread of its own.

A server that does not answer holds the thread that asked it. In the process's few helper threads that would hold up the journal and the
snapshots as well; here it holds up only what talks to that server.

Keeps: one call at a time, in the order asked. Does not: end a call that hangs (its thread is a daemon and ends with the process).
"""

from collections.abc import Callable
from typing import TypeVar

from flamestream.loop.reactor import Helpers
from flamestream.model.time import Instant, Timestamp
from flamestream.ports import Reactor, Timer

T = TypeVar("T")


class OwnThread:
    """`ports.Reactor`: everything but `background` is the given one's."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._helpers = Helpers(1, reactor.soon)

    def now(self) -> Timestamp:
        """Microseconds since 1970."""
        return self._reactor.now()

    def instant(self) -> Instant:
        """Microseconds of a clock that nobody sets."""
        return self._reactor.instant()

    def watch(self, fd: int, *, readable: Callable[[], None] | None = None, writable: Callable[[], None] | None = None) -> None:
        """Call back whenever `fd` is ready."""
        self._reactor.watch(fd, readable=readable, writable=writable)

    def unwatch(self, fd: int) -> None:
        """Forget `fd`."""
        self._reactor.unwatch(fd)

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call once, in this loop."""
        return self._reactor.later(seconds, call)

    def soon(self, call: Callable[[], None]) -> None:
        """Call at the next turn of this loop."""
        self._reactor.soon(call)

    def background(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Run `work` in this adapter's thread, then `done` in the loop."""
        self._helpers.submit(work, done)

    def close(self) -> None:
        """The thread ends after what it is at."""
        self._helpers.close()
