"""Tries: from a request of one call to what its function gave: at its pace, within its time, again if it failed,
together with others where it takes a list.

    request -> breaker -> pace -> (batch) -> function -> results
                 ^ closed: at once; open: one request at a time, with pauses

Each try has its timeout. One that passes it is cancelled and left: whatever the function does about that, the
next try begins. While the breaker is open, tries are not counted (!): an outage of any length loses nothing.

Keeps: a call that is made once at most is tried once. Does not: know a worker (process.py).
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

from flamestream.asking import asked
from flamestream.model.backoff import Backoff
from flamestream.model.call import Call, CallFunction, NotAllowed
from flamestream.node.calls.batches import Batches
from flamestream.node.calls.breaker import Breaker
from flamestream.node.calls.pace import Pace

PAUSES: Final = Backoff(0.1, 10.0)
"""Seconds between two tries, of which each pause is a random part of half to all."""


class Tries:
    """Of one call. `left` is told of tasks that passed their time and have not ended."""

    def __init__(
        self, function: CallFunction[..., Any], left: Callable[[asyncio.Task[Any]], None],
        said: Callable[[str], None],
    ) -> None:  # fmt: skip
        """`said` is told of trouble, and with an empty text that it is over."""
        self._function, self._settings, self._left, self._said = function, function.settings, left, said
        self._pace = Pace(self._settings.rate) if self._settings.rate else None
        self._batches = Batches(self._settings, self._within_time) if self._settings.batch > 1 else None
        self._breaker = Breaker(self._settings.breaker)
        self._probing = asyncio.Lock()
        """Held by the request that is tried while the breaker is open; those that wait are let in in turn."""

    async def outcome(self, item: Any, request: str) -> Any:
        """What the last try gave or raised."""
        settings, attempt, counted = self._settings, 1, 0
        while True:
            outcome, is_probe = await self._one(item, Call(request, attempt))
            final = isinstance(outcome, NotAllowed) or not isinstance(outcome, settings.retry_on)
            if final or settings.tries == 1:
                return outcome
            attempt += 1
            if self._breaker.is_open() and self._breaker.opens_on(outcome):
                continue  # its service is down, which is none of its tries
            counted += not is_probe
            if counted >= settings.tries:
                return outcome
            await _pause(counted)

    async def _one(self, item: Any, call: Call) -> tuple[Any, bool]:
        """The outcome of a try, and whether it was one of an open breaker."""
        if not self._breaker.is_open():
            return await self._tried(item, call), False
        async with self._probing:
            if self._breaker.is_open():
                await _pause(self._breaker.probes + 1)
                return await self._tried(item, call), True
        return await self._tried(item, call), False

    async def _tried(self, item: Any, call: Call) -> Any:
        if self._pace is not None:
            await asyncio.sleep(self._pace.turn(asyncio.get_running_loop().time()))
        if self._batches is not None:
            outcome = await self._batches.outcome(item, call)
        else:
            outcome = await self._within_time(item, call)
        before = self._breaker.trouble
        self._breaker.tried(call.id, outcome)
        if self._breaker.trouble != before:
            self._said(self._breaker.trouble)
        return outcome

    async def _within_time(self, item: Any, call: Any) -> Any:
        """What the function gives or raises; item and call may be lists, for a batch."""
        seconds = self._settings.timeout / 1e6
        task = asyncio.create_task(asked(self._function, item, call))
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if done:
            return task.result()
        task.cancel()
        # Not awaited: a function that ignores being cancelled, or a thread, would hold the request for ever.
        self._left(task)
        return TimeoutError(f"no answer within {seconds:g} s")


async def _pause(failures: int) -> None:
    await asyncio.sleep(PAUSES.after(failures) * random.uniform(0.5, 1.0))
