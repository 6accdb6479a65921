"""Batches: requests of one call that are made together, by a function that takes a list.

A batch goes when it is full, or when its first request has lingered. A request that failed twice goes alone, and
one whose batch raised what no other try could mend, so that one that fails every batch fails by itself.

Keeps: an outcome for each request; no more batches at once than the call's concurrency. Does not: try again
(tries.py).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from flamestream.asking import each_of
from flamestream.model.calls.call import Call, CallSettings

LAST_TOGETHER: Final = 2
"""Tries of a request that are made with others."""

Make = Callable[[Sequence[Any], Sequence[Call]], Awaitable[Any]]


class OfBatch(Exception):
    """An error of a function for several requests at once: it may be the fault of one of them."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class Batches:
    """Batches of one call's requests; `make` calls its function with items and calls, within its time."""

    def __init__(self, settings: CallSettings, make: Make) -> None:
        self._most, self._linger, self._make = settings.batch, settings.linger / 1e6, make
        self._running = asyncio.Semaphore(settings.concurrency)
        self._gathered: list[tuple[Any, Call, asyncio.Future[Any]]] = []
        self._leaves: asyncio.TimerHandle | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def outcome(self, item: Any, call: Call, *, alone: bool = False) -> Any:
        """Outcome of an item in a batch: what the function gave or raised for it."""
        loop = asyncio.get_running_loop()
        entry = item, call, loop.create_future()
        if alone or call.attempt > LAST_TOGETHER:
            self._begin([entry])
            return await entry[2]
        self._gathered.append(entry)
        if len(self._gathered) >= self._most:
            self._leave()
        elif len(self._gathered) == 1:
            self._leaves = loop.call_later(self._linger, self._leave)
        return await entry[2]

    def _leave(self) -> None:
        if self._leaves is not None:
            self._leaves.cancel()
        gathered, self._gathered = self._gathered, []
        self._begin(gathered)

    def _begin(self, batch: list[tuple[Any, Call, asyncio.Future[Any]]]) -> None:
        task = asyncio.get_running_loop().create_task(self._run(batch))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _run(self, batch: list[tuple[Any, Call, asyncio.Future[Any]]]) -> None:
        items, calls, futures = zip(*batch, strict=True)
        try:
            async with self._running:
                outcome = await self._make(list(items), list(calls))
        except BaseException as error:
            for future in futures:
                future.set_exception(error)
            raise
        if isinstance(outcome, Exception) and len(items) > 1:
            outcome = OfBatch(outcome)
        for future, each in zip(futures, each_of(outcome, len(items)), strict=True):
            future.set_result(each)
