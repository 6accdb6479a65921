"""A reactor within a loop, whose files are looked at together, and not in each turn, while that loop has a stream to
carry: clients that may wait a little, so that what they ask makes one pass of many longer, and not each.

Files have an epoll of their own, which is one file of the outer reactor. While the stream has passes, it is looked at
again when EVERY is over; else at once, so nobody waits on a worker that has nothing else to do.

Keeps: at most MOST files in a look, the others in the next one. Does not: have time or timers of its own.
"""

import select
from collections.abc import Callable
from typing import Final, TypeVar

from flamestream.loop.files import Files
from flamestream.model.time import Instant, Timestamp
from flamestream.ports import Reactor, Timer

T = TypeVar("T")
EVERY: Final = 2_000
"""Microseconds between two looks while the stream has passes: some eight of them where each waits for a disk."""
MOST: Final = 32
"""Files of a look: with a request each less than a millisecond."""
FEW: Final = 1
"""Passes of the stream since the last look that are none to speak of."""


class Gathering:
    """`ports.Reactor`, within another one."""

    def __init__(self, outer: Reactor, passes: Callable[[], int]) -> None:
        """`passes`: how many passes of the stream there were."""
        self._outer, self._passes = outer, passes
        self._files = Files(select.epoll())
        self._looked, self._before = outer.instant(), passes()
        """When files were looked at last, and the stream's passes until then."""
        outer.watch(self._files.fileno(), readable=self._ready)

    def _ready(self) -> None:
        """Some files are ready."""
        rest = self._looked + EVERY - self._outer.instant()
        if rest <= 0 or self._passes() - self._before <= FEW:
            self._look()
        else:
            self._outer.unwatch(self._files.fileno())  # else the loop would not sleep until then
            self._outer.later(rest / 1e6, self._late)

    def _late(self) -> None:
        self._outer.watch(self._files.fileno(), readable=self._ready)
        self._look()

    def _look(self) -> None:
        self._looked, self._before = self._outer.instant(), self._passes()
        for fd, events in self._files.poll(0, MOST):
            self._files.call_back(fd, events)

    # --- ports.Reactor --------------------------------------------------------------------------------------

    def watch(
        self,
        fd: int,
        *,
        readable: Callable[[], None] | None = None,
        writable: Callable[[], None] | None = None,
    ) -> None:
        """Call back when `fd` is ready, and looked at. Replaces an earlier watch of the same fd."""
        self._files.watch(fd, readable, writable)

    def unwatch(self, fd: int) -> None:
        """Forget `fd`. Unknown ones are ignored."""
        self._files.unwatch(fd)

    def now(self) -> Timestamp:
        """The outer reactor's."""
        return self._outer.now()

    def instant(self) -> Instant:
        """The outer reactor's."""
        return self._outer.instant()

    def later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call once, in the outer reactor."""
        return self._outer.later(seconds, call)

    def soon(self, call: Callable[[], None]) -> None:
        """Call at the next turn of the outer reactor. Safe from any thread."""
        self._outer.soon(call)

    def background(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Run `work` in a helper thread of the outer reactor, then `done` in its loop."""
        self._outer.background(work, done)
