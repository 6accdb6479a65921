"""Tries: from a request of one call to what its function gave: at its pace, within its time, again if it failed,
together with others where it takes a list.

    request -> breaker -> (batch) -> pace -> function -> results
                 ^ closed: at once; open: one request at a time, with pauses

Each try has its timeout. One that passes it is cancelled and left: whatever the function does about that, the
next try begins. While the breaker is open, tries are not counted (!): an outage of any length loses nothing.

Keeps: a call that is made once at most is tried once. Does not: know a worker (process.py).
"""

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any, Final

from flamestream.asking import Stopped, asked
from flamestream.job.egress import NotAllowed
from flamestream.model.backoff import Backoff
from flamestream.model.calls.call import Call, CallFunction
from flamestream.model.calls.clients import NO_CLIENTS, ClientMisused, Clients
from flamestream.node.calls.batches import Batches, OfBatch
from flamestream.node.calls.breaker import Breaker, chain
from flamestream.node.calls.pace import Pace

PAUSES: Final = Backoff(0.1, 10.0)
"""Seconds between two tries, of which each pause is a random part of half to all."""
FOR_GOOD: Final = (NotAllowed, ClientMisused)
"""What no other try could mend, wherever in an exception it is."""

Left = Callable[["asyncio.Task[Any] | Future[Any]"], None]


@dataclass(slots=True)
class _Requested:
    """A request that is being tried."""

    item: Any
    id: str
    attempt: int = 0
    counted: int = 0
    """Tries that count."""
    alone: bool = False
    """It is in no batch any more."""
    probed: bool = False
    """Its last try was one of an open breaker."""


class Tries:
    """The tries of one call's requests. `threads` run functions that are none of asyncio's."""

    def __init__(
        self, function: CallFunction[..., Any], threads: Executor, left: Left, said: Callable[[str], None],
        clients: Clients = NO_CLIENTS,
    ) -> None:  # fmt: skip
        """`left` is told of what has passed its time and has not ended. `said` is told of trouble, and with an
        empty text that it is over. `clients`: what tries ask with."""
        self._function, self._settings, self._threads = function, function.settings, threads
        self._left, self._said, self._clients = left, said, clients
        self._pace = Pace(self._settings.rate) if self._settings.rate else None
        self._batches = Batches(self._settings, self._within_time) if self._settings.batch > 1 else None
        self._breaker = Breaker(self._settings.breaker)
        self._probing = asyncio.Lock()
        """Held by the request that is tried while the breaker is open; those that wait are let in in turn."""

    async def outcome(self, item: Any, request: str) -> Any:
        """Try a request until it is answered: what the last try gave or raised."""
        settings, asked_for = self._settings, _Requested(item, request)
        while True:
            outcome = await self._one(asked_for)
            of_all = isinstance(outcome, OfBatch)
            outcome = outcome.error if isinstance(outcome, OfBatch) else outcome
            if not isinstance(outcome, Exception):
                return outcome
            refused = next((each for each in chain(outcome) if isinstance(each, FOR_GOOD)), None)
            if settings.tries == 1:
                return refused or outcome
            if refused is not None or not isinstance(outcome, settings.retry_on):
                if not of_all:
                    return refused or outcome
                asked_for.alone = True  # whose fault it is, is not known yet
                continue
            if self._breaker.is_open() and self._breaker.opens_on(outcome):
                continue  # its service is down, which is none of its tries
            asked_for.counted += not asked_for.probed
            if asked_for.counted >= settings.tries:
                return outcome
            await _pause(asked_for.counted)

    async def _one(self, asked_for: _Requested) -> Any:
        """The outcome of one more try."""
        asked_for.attempt += 1
        asked_for.probed = False
        if self._breaker.is_open():
            async with self._probing:
                if self._breaker.is_open():
                    asked_for.probed = True
                    await _pause(self._breaker.probes + 1)
                    return await self._tried(asked_for)
        return await self._tried(asked_for)

    async def _tried(self, asked_for: _Requested) -> Any:
        keys = set[str]() if self._batches is None else None
        call = Call(asked_for.id, asked_for.attempt, self._clients, keys)
        if self._batches is not None:
            outcome = await self._batches.outcome(asked_for.item, call, alone=asked_for.alone)
        else:
            outcome = await self._within_time(asked_for.item, call)
        before = self._breaker.trouble
        self._breaker.tried(call.id, outcome.error if isinstance(outcome, OfBatch) else outcome)
        if self._breaker.trouble != before:
            self._said(self._breaker.trouble)
        return outcome

    async def _within_time(self, item: Any, call: Any) -> Any:
        """Call the function, within its time: what it gives or raises. Item and call may be lists, for a
        batch."""
        if self._pace is not None:
            await asyncio.sleep(self._pace.turn(asyncio.get_running_loop().time()))
        seconds = self._settings.timeout / 1e6
        threads: list[Future[Any]] = []

        def submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
            threads.append(self._threads.submit(function, *arguments))
            return threads[0]

        task = asyncio.create_task(asked(self._function, item, call, submit))
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if done:
            return Stopped("it cancelled itself") if task.cancelled() else task.result()
        task.cancel()
        # Not awaited: a function that ignores being cancelled, or a thread, would hold the request for ever.
        self._left(next((each for each in threads if not each.done()), task))
        return TimeoutError(f"no answer within {seconds:g} s")


async def _pause(failures: int) -> None:
    await asyncio.sleep(PAUSES.after(failures) * random.uniform(0.5, 1.0))
