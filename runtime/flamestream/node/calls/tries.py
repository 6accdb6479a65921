"""Tries: from a request of one call to what its function gave: at its pace, within its time, again if it
failed, together with others where it takes a list.

    request -> breaker -> (batch) -> pace -> function -> results
                 ^ closed: at once; open: one request at a time, with pauses

Each try has its timeout. One that passes it is cancelled and left: whatever the function does about that, the
next try begins. While the breaker is open, neither tries nor time are counted (!): an outage of any length
loses nothing.

Keeps: a call that is made once at most is tried once. Does not: know a worker (process.py).
"""

import asyncio
import logging
import math
import os
import random
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn

from flamestream.asking import Stopped, asked
from flamestream.job.egress import NotAllowed
from flamestream.model.backoff import Backoff
from flamestream.model.calls.call import Call, CallFunction
from flamestream.model.calls.clients import NO_CLIENTS, ClientMisused, Clients
from flamestream.node.calls.batches import Batches, OfBatch, Then
from flamestream.node.calls.breaker import Breaker, chain
from flamestream.node.calls.deadlines import Deadlines
from flamestream.node.calls.pace import Pace
from flamestream.node.calls.up_time import UpTime

log = logging.getLogger(__name__)

PAUSES: Final = Backoff(0.1, 10.0)
"""Seconds between two tries, of which each pause is a random part of half to all."""
FOR_GOOD: Final = (NotAllowed, ClientMisused)
"""Exceptions that no other try could mend, wherever in an exception they are."""

Left = Callable[["asyncio.Task[Any] | Future[Any]"], None]


@dataclass(slots=True, eq=False)
class _Running:
    """A try that has begun."""

    then: Then
    task: "asyncio.Task[None] | None" = None
    """Where its function is awaited."""
    thread: Future[Any] | None = None
    """Where it runs, if it is plain."""


@dataclass(slots=True)
class _Requested:
    """A request that is being tried."""

    item: Any
    id: str
    attempt: int = 0
    counted: int = 0
    """Tries that count."""
    since: float | None = None
    """When its first try began, of a call that gives up."""
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
        """`left` is told of what has passed its time and has not ended. `said` is told of trouble, and with
        an empty text that it is over. `clients`: what tries ask with."""
        self._function, self._settings, self._threads = function, function.settings, threads
        self._left, self._said, self._clients = left, said, clients
        self._pace = Pace(self._settings.rate) if self._settings.rate else None
        self._batches = Batches(self._settings, self._make) if self._settings.batch > 1 else None
        self._breaker = Breaker(self._settings.breaker)
        self._up = UpTime()
        self._began: dict[str, float] = {}
        """When the tries under way began, by request, where the call gives up."""
        self._probing = asyncio.Lock()
        """Held by the request that is tried while the breaker is open; those that wait are let in in turn."""
        self._running: Deadlines[_Running] = Deadlines(self._settings.timeout / 1e6, self._passed)
        self._trying: set[asyncio.Task[None]] = set()
        """Requests whose first try was not the last, or was not made at once."""

    def ask(self, item: Any, request: str, then: Then) -> None:
        """Tell `then` what the last try gave or raised."""
        requested = _Requested(item, request)
        if self._breaker.is_open():
            self._spawn(requested, then, None)
        else:  # what nearly every request comes to: one try, and no task but that of its function
            self._try(requested, partial(self._first, requested, then))

    async def outcome(self, item: Any, request: str) -> Any:
        """Outcome of a request: what the last try gave or raised."""
        outcome = asyncio.get_running_loop().create_future()
        self.ask(item, request, partial(_set, outcome))
        return await outcome

    def _first(self, requested: _Requested, then: Then, outcome: Any) -> None:
        """The first try has ended."""
        if isinstance(outcome, Exception):
            self._spawn(requested, then, outcome)
        else:
            then(outcome)

    def _spawn(self, requested: _Requested, then: Then, first: Exception | None) -> None:
        task = asyncio.get_running_loop().create_task(self._to_the_last(requested, then, first))
        self._trying.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: "asyncio.Task[None]") -> None:
        self._trying.discard(task)
        end_if_failed(task)

    async def _to_the_last(self, requested: _Requested, then: Then, first: Exception | None) -> None:
        then(await self._last(requested, first))

    async def _last(self, requested: _Requested, first: Exception | None) -> Any:
        """Outcome of the tries from the next one on. `first`: what the first one raised, if it was made."""
        settings = self._settings
        while True:
            outcome, first = (await self._one(requested) if first is None else first), None
            of_all = isinstance(outcome, OfBatch)
            outcome = outcome.error if isinstance(outcome, OfBatch) else outcome
            if not isinstance(outcome, Exception):
                return outcome
            refused = next((each for each in chain(outcome) if isinstance(each, FOR_GOOD)), None)
            if settings.most_tries == 1:
                return refused or outcome
            if refused is not None or not isinstance(outcome, settings.retry_on):
                if not of_all:
                    return refused or outcome
                requested.alone = True  # whose fault it is, is not known yet
                continue
            if self._breaker.is_open() and self._breaker.opens_on(outcome):
                continue  # its service is down, which is none of its tries
            requested.counted += not requested.probed
            if requested.counted >= settings.most_tries or (left := self._left_of(requested)) <= 0:
                return outcome
            await _pause(requested.counted, left)

    def _left_of(self, requested: _Requested) -> float:
        """Seconds before it is given up."""
        if requested.since is None:
            return math.inf
        return self._settings.give_up_after / 1e6 - (self._now() - requested.since)

    def _now(self) -> float:
        return self._up.at(asyncio.get_running_loop().time())

    async def _one(self, requested: _Requested) -> Any:
        """The outcome of one more try."""
        requested.probed = False
        if self._breaker.is_open():
            async with self._probing:
                if self._breaker.is_open():
                    requested.probed = True
                    await _pause(self._breaker.probes + 1)
                    return await self._tried(requested)
        return await self._tried(requested)

    async def _tried(self, requested: _Requested) -> Any:
        outcome = asyncio.get_running_loop().create_future()
        self._try(requested, partial(_set, outcome))
        return await outcome

    # --- one try --------------------------------------------------------------------------------------------

    def _try(self, requested: _Requested, then: Then) -> None:
        """Tell `then` what one more try gave or raised."""
        requested.attempt += 1
        heard = partial(self._heard, requested, then)
        if self._batches is None:
            call = Call(requested.id, requested.attempt, self._clients, set())
            self._make(requested.item, call, heard)
        else:
            call = Call(requested.id, requested.attempt, self._clients, None)
            self._batches.ask(requested.item, call, heard, alone=requested.alone)

    def _heard(self, requested: _Requested, then: Then, outcome: Any) -> None:
        """A try has ended: what does it say of the service?"""
        began = self._began.pop(requested.id, None)
        requested.since = began if requested.since is None else requested.since
        before = self._breaker.trouble
        self._breaker.tried(requested.id, outcome.error if isinstance(outcome, OfBatch) else outcome)
        if self._breaker.trouble != before:
            now = asyncio.get_running_loop().time()
            (self._up.set_down if self._breaker.is_open() else self._up.set_up)(now)
            self._said(self._breaker.trouble)
        then(outcome)

    def _make(self, item: Any, call: Any, then: Then) -> None:
        """Call the function, at its pace and within its time; item and call may be lists, for a batch."""
        loop = asyncio.get_running_loop()
        wait = 0.0 if self._pace is None else self._pace.turn(loop.time())
        if wait:
            loop.call_later(wait, self._begin, item, call, then)
        else:
            self._begin(item, call, then)

    def _begin(self, item: Any, call: Any, then: Then) -> None:
        running = _Running(then)
        self._running.begin(running)
        if self._settings.give_up_after:  # not when it was asked: with a rate its turn may come much later
            for each in call if isinstance(call, list) else [call]:
                self._began[each.id] = self._now()
        running.task = asyncio.get_running_loop().create_task(self._run(running, item, call))

    async def _run(self, running: _Running, item: Any, call: Any) -> None:
        def submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
            running.thread = self._threads.submit(function, *arguments)
            return running.thread

        try:
            outcome = await asked(self._function, item, call, submit)
        except asyncio.CancelledError:  # by its time, which has been told; else it did that itself
            outcome = Stopped("it cancelled itself")
        if self._running.end(running):
            self._tell(running.then, outcome)

    def _passed(self, running: _Running) -> None:
        """A try has had its time. It is not waited for: a function that ignores being cancelled, or a thread,
        would hold the request for ever."""
        task, thread = running.task, running.thread
        assert task is not None, "it has begun"
        task.cancel()
        self._left(task if thread is None or thread.done() else thread)
        self._tell(running.then, TimeoutError(f"no answer within {self._settings.timeout / 1e6:g} s"))

    def _tell(self, then: Then, outcome: Any) -> None:
        try:
            then(outcome)
        except Exception as error:  # noqa: BLE001 (a bug of ours, whatever it is)
            _end_process(error)


def end_if_failed(task: "asyncio.Task[None]") -> None:
    """End the process if a task of ours has raised."""
    if not task.cancelled() and (error := task.exception()) is not None:  # cancelled: the loop ends
        _end_process(error)


def _end_process(error: BaseException) -> NoReturn:
    # (!) Its request would wait for ever: the next process is asked again.
    log.critical("a call failed here: this process ends", exc_info=error)
    os._exit(1)


def _set(future: "asyncio.Future[Any]", outcome: Any) -> None:
    if not future.done():  # it is cancelled when the loop ends
        future.set_result(outcome)


async def _pause(failures: int, most: float = math.inf) -> None:
    await asyncio.sleep(min(most, PAUSES.after(failures) * random.uniform(0.5, 1.0)))
