"""Batches: requests of one call that are made together, by a function that takes a list.

A batch goes when it is full, or when its first request has lingered. A request that failed twice goes alone,
and one whose batch raised what no other try could mend, so that one that fails every batch fails by itself.

Keeps: an outcome for each request; no more batches at once than the call's concurrency. Does not: try again
(tries.py).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from flamestream.asking import each_of
from flamestream.model.calls.call import Call, CallSettings

LAST_TOGETHER: Final = 2
"""Tries of a request that are made with others."""

Then = Callable[[Any], None]
"""Is told an outcome: what a function gave, or the exception that it raised."""
Make = Callable[[Sequence[Any], Sequence[Call], Then], None]
_Entry = tuple[Any, Call, Then]


class OfBatch(Exception):
    """An error of a function for several requests at once: it may be the fault of one of them."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class Batches:
    """Batches of one call's requests; `make` calls its function with items and calls, within its time, and
    tells the outcome."""

    def __init__(self, settings: CallSettings, make: Make) -> None:
        self._most, self._linger, self._make = settings.batch, settings.linger / 1e6, make
        self._gathered: list[_Entry] = []
        self._leaves: asyncio.TimerHandle | None = None
        self._free = settings.concurrency
        """How many more may run."""
        self._waiting: deque[list[_Entry]] = deque()
        """Batches that have left and do not run yet."""

    def ask(self, item: Any, call: Call, then: Then, *, alone: bool = False) -> None:
        """Tell `then` what the function gave or raised for an item."""
        if alone or call.attempt > LAST_TOGETHER:
            self._begin([(item, call, then)])
            return
        self._gathered.append((item, call, then))
        if len(self._gathered) >= self._most:
            self._leave()
        elif len(self._gathered) == 1:
            self._leaves = asyncio.get_running_loop().call_later(self._linger, self._leave)

    def _leave(self) -> None:
        if self._leaves is not None:
            self._leaves.cancel()
        gathered, self._gathered = self._gathered, []
        self._begin(gathered)

    def _begin(self, batch: list[_Entry]) -> None:
        if not self._free:
            self._waiting.append(batch)
            return
        self._free -= 1
        items, calls, thens = zip(*batch, strict=True)
        self._make(list(items), list(calls), partial(self._ended, thens))

    def _ended(self, thens: Sequence[Then], outcome: Any) -> None:
        self._free += 1
        if self._waiting:
            self._begin(self._waiting.popleft())
        if isinstance(outcome, Exception) and len(thens) > 1:
            outcome = OfBatch(outcome)
        for then, each in zip(thens, each_of(outcome, len(thens)), strict=True):
            then(each)
