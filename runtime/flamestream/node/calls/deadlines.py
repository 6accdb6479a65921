"""Deadlines: what has so many seconds from when it begins, each the same.

So they pass in the order in which they began, and one timer is enough for all of them: it waits for the oldest
that is still there. A timer for each would cost more than all else that is done for a try.

Keeps: what has ended does not pass. Does not: end anything (tries.py).
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Deadlines(Generic[K, V]):
    """Keys that have begun and not ended, each with its value. `passed` is told of one that has had its time."""

    def __init__(self, seconds: float, passed: Callable[[K, V], None]) -> None:
        self._seconds, self._passed = seconds, passed
        self._under_way: dict[K, tuple[float, V]] = {}
        """Until when, the oldest first."""
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, key: K, value: V) -> None:
        """It has its time from now on."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._seconds
        self._under_way[key] = until, value
        if self._timer is None:
            self._timer = loop.call_at(until, self._look)

    def end(self, key: K) -> V | None:
        """It has ended: its value; None if its time had passed before."""
        found = self._under_way.pop(key, None)
        return None if found is None else found[1]

    def _look(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        now = loop.time()
        while self._under_way:
            key = next(iter(self._under_way))
            until, value = self._under_way[key]
            if until > now:
                self._timer = loop.call_at(until, self._look)
                return
            del self._under_way[key]
            self._passed(key, value)
