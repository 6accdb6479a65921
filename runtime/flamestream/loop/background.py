"""Blocking calls beside the loop: `Threads` make them, and a `Queue` in front of threads keeps their order.

Most of a process share its reactor's few threads. Who asks a server that may not answer has a thread of its
own, `Threads(1, ...)`: there a call that hangs holds up only what talks to that server, and neither the
journal nor the snapshots.

A Queue that is given a reactor tries again: a call that raises OSError (disk full, a stale mount, a server
away) is made again after a growing pause, until it succeeds or the queue closes. The stream holds meanwhile,
and `problem` says why, so nothing is lost and `status` can show it. So it does of a call that is not
answered.

Keeps: threads and what waits for them are bounded; of a queue one call at a time is under way, in the order
asked. Does not: end a call that hangs (threads are daemons, and end with the process), or bound a queue
(whoever asks has few calls in flight).
"""

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from flamestream.loop.silence import Silence
from flamestream.machine.processors import anywhere
from flamestream.model.backoff import Backoff
from flamestream.model.errors import Bug
from flamestream.ports import Background, Reactor, Timer

T = TypeVar("T")
Call = Callable[[], None]

MAX_BACKGROUND: Final = 4096
"""Calls that may wait for a thread."""
AGAIN: Final = Backoff(0.05, 2.0)
SLOW_SECONDS: Final = 3.0
"""A queue's call that takes longer shows as its `problem`."""


class Threads:
    """`ports.Background`: a few daemon threads, started as needed."""

    def __init__(self, limit: int, back: Callable[[Call], None]) -> None:
        """`back`: the way into the loop, `Reactor.soon`."""
        self._limit = limit
        self._back = back
        self._work: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._started = 0
        # counted in the loop's thread alone, so there is no lock
        self._pending = 0

    def background(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Run `work` in a thread, then `done` in the loop. Called in the loop's thread."""
        if self._pending >= MAX_BACKGROUND:
            raise Bug(
                f"{self._pending} calls wait for a helper thread: "
                "whoever submits them must wait for the earlier ones"
            )
        self._pending += 1
        # every thread may be busy: another one, while there may be more
        if self._pending > self._started < self._limit:
            self._started += 1
            threading.Thread(target=self._serve, name=f"helper-{self._started}", daemon=True).start()
        self._work.put(lambda: self._run(work, done))

    def close(self, last: Callable[[], object] | None = None) -> None:
        """Every thread ends after what it is at. `last` is called before that, in one of them; nobody waits
        for it."""
        if last is not None:
            self.background(last, lambda _: None)
        # one for each: a thread that takes it takes nothing more
        for _ in range(self._started):
            self._work.put(None)

    def _serve(self) -> None:
        # a thread inherits the processors of whoever starts it, and a loop may keep to one (decision 046)
        anywhere()
        while (call := self._work.get()) is not None:
            call()

    def _run(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        result: T | Exception
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - whatever it raises is the answer, and `done` judges it
            result = error
        except BaseException as error:  # noqa: BLE001 - no answer (SystemExit): it ends the loop, not this thread alone
            fatal = error
            self._back(lambda: _raise(fatal))
            return
        self._back(lambda: self._deliver(result, done))

    def _deliver(self, result: T | Exception, done: Callable[[T | Exception], None]) -> None:
        self._pending -= 1
        done(result)


class Queue:
    """Blocking calls, one at a time, in order."""

    def __init__(
        self, threads: Background, again: Reactor | None = None, slow_seconds: float = SLOW_SECONDS
    ) -> None:
        """`again`: by whose clock a call that raised OSError is made again; without it that is its answer."""
        self._threads, self._again = threads, again
        self._calls: deque[tuple[Callable[[], object], Callable[[Any], None]]] = deque()
        self._busy = self._closed = False
        self._failures = 0
        self._failure = ""
        self._timer: Timer | None = None
        self._silence = Silence(slow_seconds)
        """Measures how long the call at hand has been in a thread."""

    @property
    def problem(self) -> str:
        """The reason why the call at hand is made again, or that it is not answered; "" if all is well."""
        return self._failure or self._silence.problem

    def run(self, work: Callable[[], object], done: Callable[[Any], None]) -> None:
        """Call `work` behind what waits; `done` gets what it returned or raised, in the loop."""
        self._calls.append((work, done))
        self._next()

    def close(self) -> None:
        """Forget what waits. A call in a thread ends by itself; its `done` is not called."""
        self._closed = True
        self._calls.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _next(self) -> None:
        if self._calls and not self._busy:
            self._busy = True
            self._call()

    def _call(self) -> None:
        """Make the first call, for the first time or again: it stays in its place until it has an answer, so
        the order holds."""
        self._silence.begin()
        self._threads.background(self._calls[0][0], self._done)

    def _done(self, result: object) -> None:
        self._silence.end()
        if self._closed:
            return
        if self._again is not None and isinstance(result, OSError):
            self._failures, self._failure = self._failures + 1, str(result)
            # `_busy` stays: what is asked for meanwhile waits behind this call
            self._timer = self._again.later(AGAIN.after(self._failures), self._call)
            return
        self._failures, self._failure = 0, ""
        _, done = self._calls.popleft()
        self._busy = False
        done(result)  # before the next call begins: it may look at what this one has left behind
        self._next()


def _raise(error: BaseException) -> NoReturn:
    raise error
