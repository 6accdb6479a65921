"""Drives one adapter by hand: a real loop, what it posted, and waiting for what it must post.

Used by the contracts of producers and consumers. Waiting ends with what is waited for, or, after a generous
deadline, with an error that shows what came instead.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol, TypeVar

from flamestream.core.protocol.events import Event
from flamestream.loop.reactor import EpollReactor

E = TypeVar("E")
T = TypeVar("T")

DEADLINE_SECONDS: Final = 60.0
TICK_SECONDS: Final = 0.02


class Stoppable(Protocol):
    """The outside of a source or sink whose server can be killed."""

    def stop(self) -> None:
        """SIGKILL; back when it is dead."""
        ...

    def start(self) -> None:
        """Start it again on what it had; back when it answers."""
        ...


class _Reactor(EpollReactor):
    """Knows what is in its helper threads, so that it is closed behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way = 0
        self._threads: set[threading.Thread] = set()

    def background(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        self.under_way += 1

        def known() -> T:
            self._threads.add(threading.current_thread())
            return work()

        def back(result: T | Exception) -> None:
            self.under_way -= 1
            done(result)

        super().background(known, back)

    def close(self) -> None:
        """Behind its threads, which may still be waking it."""
        self._helpers.close()  # first: a thread that wakes a closed loop would raise
        for thread in self._threads:
            thread.join(DEADLINE_SECONDS)
        super().close()


class PortDriver:
    """`post` and `reactor` are for the adapter; `events` is what it has posted."""

    def __init__(self) -> None:
        self.reactor = _Reactor()
        self.events: list[Event] = []
        self.post: Callable[[Event], None] = self.events.append
        self.at_exit: list[Callable[[], None]] = []
        """`close` of what is driven."""

    def __enter__(self) -> "PortDriver":
        return self

    def __exit__(self, *_: object) -> None:
        for close in self.at_exit:
            close()
        self.until(lambda: self.reactor.under_way == 0, "the helper threads to be through")
        self.reactor.close()

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Turn the loop until `condition` holds."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, (
                f"waited {DEADLINE_SECONDS:g} s for {what}; posted so far: {self.events}"
            )
            timer = self.reactor.later(TICK_SECONDS, _nothing)  # so that a turn with nothing to do ends
            self.reactor.turn()
            timer.cancel()

    def take(self, kind: type[E]) -> E:
        """Wait for the first event of `kind` and remove it from `events`."""
        self.until(lambda: any(isinstance(event, kind) for event in self.events), f"a {kind.__name__}")
        found = next(event for event in self.events if isinstance(event, kind))
        self.events.remove(found)
        return found

    def settle(self, turns: int = 5) -> None:
        """Turn a few times, helper threads included, so that what must not happen has had its chance."""
        for _ in range(turns):
            came_back: list[object] = []
            self.reactor.background(lambda: None, came_back.append)
            self.until(lambda back=came_back: bool(back), "a helper thread")  # type: ignore[misc]  # bound at once


def checks_in(module: Mapping[str, Any], but: Collection[object] = ()) -> list[Callable[[Any], None]]:
    """The checks that the module of a contract has defined so far, in their order, so that none can be
    forgotten in a list."""
    own = [
        each
        for name, each in module.items()
        if name.startswith("check_") and each.__module__ == module["__name__"]
    ]
    return [check for check in own if check not in but]


def _nothing() -> None:
    """Wakes the loop."""
