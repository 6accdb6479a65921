"""Deadlines: what has so many seconds from when it begins, each the same.

So they pass in the order in which they began, and one timer is enough for all of them: it waits for the
oldest that is still there. `asyncio.wait` with a timer for each took 12 us of a try.

Keeps: what has ended does not pass. Does not: end anything (tries.py).
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Everything that has begun and not ended. `passed` is told of one that has had its `seconds`."""

    def __init__(self, seconds: float, passed: Callable[[T], None]) -> None:
        self._seconds, self._passed = seconds, passed
        self._under_way: dict[T, float] = {}
        """Until when, the oldest first."""
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, it: T) -> None:
        """It has its time from now on."""
        loop = asyncio.get_running_loop()
        self._under_way[it] = until = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(until, self._look)

    def end(self, it: T) -> bool:
        """It has ended; False if its time had passed before."""
        return self._under_way.pop(it, None) is not None

    def _look(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        now = loop.time()
        while self._under_way:
            oldest = next(iter(self._under_way))
            if (until := self._under_way[oldest]) > now:
                self._timer = loop.call_at(until, self._look)
                return
            del self._under_way[oldest]
            self._passed(oldest)
