"""A loop that all jobs share, as one of them sees it: what its own calls raise ends that job's coordination,
never the loop.

Keeps: whatever a call of this job's raises is given to `broken`, in the loop. Does not: hold anything up, or
change when something is called.
"""

from collections.abc import Callable
from typing import TypeVar

from flamestream.model.time import Instant, Timestamp
from flamestream.ports import Background, Reactor, Timer

T = TypeVar("T")
Call = Callable[[], None]
Broken = Callable[[Exception], None]


class Contained:
    """`ports.Reactor` on another one."""

    def __init__(self, reactor: Reactor, broken: Broken) -> None:
        self._reactor, self._broken = reactor, broken

    def now(self) -> Timestamp:
        """Microseconds since 1970."""
        return self._reactor.now()

    def instant(self) -> Instant:
        """Microseconds of a clock that nobody sets."""
        return self._reactor.instant()

    def watch(self, fd: int, *, readable: Call | None = None, writable: Call | None = None) -> None:
        """Call back whenever `fd` is ready."""
        self._reactor.watch(
            fd, readable=readable and self._kept(readable), writable=writable and self._kept(writable)
        )

    def unwatch(self, fd: int) -> None:
        """Forget `fd`."""
        self._reactor.unwatch(fd)

    def later(self, seconds: float, call: Call) -> Timer:
        """Call once, in the loop."""
        return self._reactor.later(seconds, self._kept(call))

    def soon(self, call: Call) -> None:
        """Call at the next turn of the loop."""
        self._reactor.soon(self._kept(call))

    def background(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Run `work` in a helper thread, then `done` in the loop."""
        self.through(self._reactor).background(work, done)

    def through(self, threads: Background) -> Background:
        """Other threads, whose answers are contained as well."""
        return _Answers(threads, self._kept)

    def _kept(self, call: Call) -> Call:
        def kept() -> None:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - `broken` judges it; the loop is not this job's to end (!)
                self._broken(error)

        return kept


class _Answers:
    """`Background` on another one."""

    def __init__(self, threads: Background, kept: Callable[[Call], Call]) -> None:
        self._threads, self._kept = threads, kept

    def background(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Run `work` in a thread, then `done` in the loop."""
        self._threads.background(work, lambda answer: self._kept(lambda: done(answer))())
