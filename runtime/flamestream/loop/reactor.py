"""The one loop of a process, on epoll: sockets, timers, and the way back from helper threads.

A turn is: wait until something is ready or due, run every callback that is, then call the pass hook once. So
everything that arrived together is handled together (natural batching), and nothing waits for a timer on the
data path. A callback may be called without need (its fd was closed and its number used again in the same
turn), so callbacks of sockets must bear "would block".

`soon` may be called from helper threads and from signal handlers. It need not wake the loop while the loop is
awake: `_awake` is cleared before the queue is looked at for the last time, so a call that sees it set has
been queued early enough to be seen.

Keeps: an exception of a callback ends the loop and is raised by `run` (a bug is never swallowed); timers that
are due run in the order of their deadlines. Does not: know what the callbacks are about. Source: ours.
"""

import heapq
import os
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from flamestream.loop.background import Threads
from flamestream.loop.files import Call, Files
from flamestream.model.time import Instant, Timestamp

T = TypeVar("T")

MAX_HELPERS: Final = 4


class LoopTimer:
    """A call that is due later. Once called or cancelled it holds on to nothing."""

    __slots__ = ("_reactor", "call")

    def __init__(self, reactor: "EpollReactor", call: Call) -> None:
        self._reactor = reactor
        self.call: Call | None = call

    def cancel(self) -> None:
        """Don't call. Harmless when it was called already."""
        if self.call is not None:
            self.call = None
            self._reactor.timer_cancelled()


class EpollReactor:
    """`ports.Reactor`, and `run` around it."""

    def __init__(self, helpers: int = MAX_HELPERS) -> None:
        self._files = Files(select.epoll())
        self._timers: list[tuple[float, int, LoopTimer]] = []
        self._timers_made = 0
        self._timers_cancelled = 0
        self._calls: deque[Call] = deque()
        self._awake = True
        self._stopped = False
        self._waited_ns = 0
        self._helpers = Threads(helpers, self.soon)
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.watch(self._wakeup, readable=self._woken)

    # --- ports.Reactor --------------------------------------------------------------------------------------

    def now(self) -> Timestamp:
        """Microseconds since 1970."""
        return Timestamp(time.time_ns() // 1000)

    def instant(self) -> Instant:
        """Microseconds of a clock that nobody sets."""
        return Instant(time.monotonic_ns() // 1000)

    @property
    def waited_us(self) -> int:
        """Microseconds in which the loop had nothing to do, since it began."""
        return self._waited_ns // 1000

    def watch(self, fd: int, *, readable: Call | None = None, writable: Call | None = None) -> None:
        """Call back whenever `fd` is ready. Replaces an earlier watch of the same fd; with neither it is
        unwatched."""
        self._files.watch(fd, readable, writable)

    def unwatch(self, fd: int) -> None:
        """Forget `fd`; call it before closing. Unknown ones are ignored."""
        self._files.unwatch(fd)

    def later(self, seconds: float, call: Call) -> LoopTimer:
        """Call once, `seconds` from now."""
        timer = LoopTimer(self, call)
        self._timers_made += 1
        # the number decides ties: timers do not compare
        heapq.heappush(self._timers, (time.monotonic() + seconds, self._timers_made, timer))
        return timer

    def soon(self, call: Call) -> None:
        """Call at the next turn. Safe from any thread and from signal handlers."""
        # No lock: a deque's append is atomic in CPython, and a signal handler could wait for none.
        self._calls.append(call)
        if not self._awake:
            os.eventfd_write(self._wakeup, 1)

    def background(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Run `work` in a helper thread, then `done` in this loop."""
        self._helpers.background(work, done)

    # --- the loop -------------------------------------------------------------------------------------------

    def run(self, pass_: Call) -> None:
        """Turn until `stop` is called. Whatever a callback or `pass_` raises is raised here."""
        while not self._stopped:
            self.turn()
            pass_()

    def turn(self) -> None:
        """Wait for what is next and call it: calls of `soon` first, then timers, then files that are
        ready."""
        # (!) before the queue is looked at: a call that comes behind that look finds it cleared, and wakes us
        self._awake = False
        timeout = self._timeout()
        began = time.monotonic_ns()
        ready = self._files.poll(timeout)
        self._waited_ns += time.monotonic_ns() - began
        self._awake = True
        # those that are there now: calls that make calls must not starve sockets
        for _ in range(len(self._calls)):
            self._calls.popleft()()
        if self._timers:
            self._run_due_timers()
        for fd, events in ready:
            self._files.call_back(fd, events)

    def stop(self) -> None:
        """End `run` behind the pass of this turn. Safe from any thread and from signal handlers."""
        self._stopped = True
        self.soon(lambda: None)  # wakes the loop

    def close(self) -> None:
        """Let go of the kernel's objects. Helper threads end by themselves; they are daemons, so a hanging
        one holds up nobody."""
        self._helpers.close()
        self._awake = True
        self._files.close()

    def __del__(self) -> None:
        """Closes the wake-up; `close` does not, for a helper that is late may write to it, and its number
        could be another file's then."""
        os.close(self._wakeup)

    def timer_cancelled(self) -> None:
        """Count it, and rebuild the heap once most of it is dead: cancelled timers must not pile up until
        they are due."""
        self._timers_cancelled += 1
        if self._timers_cancelled > 64 and self._timers_cancelled * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if entry[2].call is not None]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    def _timeout(self) -> float:
        """Seconds until something is due; -1 for ever."""
        if self._calls:
            return 0
        # epoll counts milliseconds, and CPython rounds up to them: it does not turn in vain before one is due
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else -1

    def _run_due_timers(self) -> None:
        now = time.monotonic()  # one reading: timers that these set wait for the next turn
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            call, timer.call = timer.call, None
            if call is None:
                self._timers_cancelled = max(0, self._timers_cancelled - 1)
            else:
                call()

    def _woken(self) -> None:
        os.eventfd_read(self._wakeup)
