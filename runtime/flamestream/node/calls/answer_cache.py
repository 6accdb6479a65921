"""Answer cache: the results of a call by its request, for as long as the call says; and single flight:
requests that are equal are one try while it is under way.

It is of no consequence for what a job computes: what it gives is journalled like any answer.

Keeps: errors are given to those who wait for the same try, and to nobody later; so many entries and bytes,
the longest unused go first. Does not: outlive its process.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

MOST: Final = 10_000
"""Entries,"""
MOST_BYTES: Final = 64 << 20
"""and bytes of requests and results, of one call."""


class Reply(NamedTuple):
    """Encoded: results, or the error in their place."""

    results: bytes = b""
    error: bytes = b""


class AnswerCache:
    """The answers of one call that may be given again. `lasts`: seconds for which they may; `now` tells
    seconds."""

    def __init__(self, lasts: float, now: Callable[[], float]) -> None:
        self._lasts, self._now = lasts, now
        self._kept: OrderedDict[bytes, tuple[float, Reply]] = OrderedDict()
        """Replies and until when they may be given, by request; the longest unused first."""
        self._bytes = 0
        self._flights: dict[bytes, asyncio.Future[Reply]] = {}

    async def reply(self, request: bytes, make: Callable[[], Awaitable[Reply]]) -> Reply:
        """Reply to a request: the kept one, the one that is being made, or one that is made now."""
        until, kept = self._kept.get(request, (0.0, None))
        if kept is not None and self._now() < until:
            self._kept.move_to_end(request)
            return kept
        if (flight := self._flights.get(request)) is not None:
            return await flight
        flight = self._flights[request] = asyncio.get_running_loop().create_future()
        try:
            made = await make()
        except asyncio.CancelledError:  # the loop ends
            flight.cancel()
            raise
        except BaseException as error:
            flight.set_exception(error)
            raise
        finally:
            del self._flights[request]
        flight.set_result(made)
        if not made.error:
            self._keep(request, made)
        return made

    def _keep(self, request: bytes, reply: Reply) -> None:
        self._forget(request)
        self._kept[request] = self._now() + self._lasts, reply
        self._bytes += len(request) + len(reply.results)
        while len(self._kept) > MOST or self._bytes > MOST_BYTES:
            self._forget(next(iter(self._kept)))

    def _forget(self, request: bytes) -> None:
        _, reply = self._kept.pop(request, (0.0, None))
        if reply is not None:
            self._bytes -= len(request) + len(reply.results)
