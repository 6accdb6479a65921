"""The queue of objects to reconcile: each at most once in it, at most once at a time in work, and again later
if it failed.

Keeps: an object that changes while it is in work comes again; a failing one pauses longer each time, up to a
minute. Does not: know what an object is.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from flamestream.model.backoff import Backoff
from flamestream_operator import metrics

K = TypeVar("K", bound=Hashable)
WIDTH: Final = 8
"""Objects in work at once: a launch waits for thirty answers of the API server, one after the other."""
AGAIN: Final = Backoff(0.5, 60.0)

log = logging.getLogger(__name__)


class WorkQueue(Generic[K]):
    """`work(key)` gives the seconds until the next look, or None."""

    def __init__(self, work: Callable[[K], Awaitable[float | None]], kind: str) -> None:
        self._work, self._kind = work, kind
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: dict[K, float] = {}
        """Since when."""
        self._busy: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._left: list[set[K]] = []
        """Objects that somebody waits for."""
        self._looked = asyncio.Event()

    def add(self, key: K) -> None:
        """Reconcile an object soon. Only in the loop's thread."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._busy:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = asyncio.get_running_loop().time()
            self._ready.put_nowait(key)
            metrics.queue_depth.inc()

    def add_later(self, key: K, seconds: float) -> None:
        """Reconcile an object in a while, unless something happens before."""
        if key in self._waiting or key in self._again:
            return
        known = self._timers.pop(key, None)
        if known is not None:
            known.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self.add, key)

    async def served(self) -> None:
        """Until each object that waits now, or is in work, has been looked at to the end."""
        left = {*self._waiting, *self._busy}
        self._left.append(left)
        try:
            while left:
                self._looked.clear()
                await self._looked.wait()
        finally:  # also for who has waited long enough
            self._left.remove(left)

    async def run(self) -> None:
        """Serve the queue for ever, several objects at once."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WIDTH):
                tasks.create_task(self._serve())

    async def _serve(self) -> None:
        while True:
            key = await self._ready.get()
            loop = asyncio.get_running_loop()
            metrics.queue_depth.dec()
            # No await from here to `busy`: a change that fell in between would be served beside this one.
            metrics.queue_seconds.observe(loop.time() - self._waiting.pop(key))
            self._busy.add(key)
            try:
                with metrics.reconcile_seconds.labels(self._kind).time():
                    pause = await self._work(key)
                self._failures.pop(key, None)
            except Exception:  # noqa: BLE001  # one object's trouble is not the operator's, whatever it is
                pause = self._failed(key)
            self._busy.discard(key)
            for left in self._left:
                left.discard(key)
            self._looked.set()
            if key in self._again:  # it changed while it was in work
                self._again.discard(key)
                self.add(key)
            elif pause is not None:
                self.add_later(key, pause)

    def _failed(self, key: K) -> float:
        count = self._failures[key] = self._failures.get(key, 0) + 1
        pause = AGAIN.after(count)
        metrics.reconcile_errors.labels(self._kind).inc()
        log.exception("reconciliation failed", extra={"key": str(key), "kind": self._kind, "again_in": pause})
        return pause
