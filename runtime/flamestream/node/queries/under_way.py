"""Queries under way at a door: who waits for which answer, and until when.

Strict questions that come together are one query: all their states are as of one cut then, which has whatever each of
them asks for, and one proof stands for all. So a question costs the worker its lookup, not a query.

Keeps: a client is answered once, or told why not, within a time. Does not: read a request, or write an answer (door.py,
reply.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from flamestream.core.protocol.actions import Answered, NotAnswered
from flamestream.core.protocol.events import Queried, QueryLeft
from flamestream.core.protocol.queries import MOST_LOOKUPS, Lookup
from flamestream.net.http_exchange import Exchange
from flamestream.node.queries.reply import Page
from flamestream.ports import Post, Reactor, Timer

PATIENCE: Final = 5.0
"""Seconds after which a client is told that there is no answer."""
SCANS: Final = 30.0
"""The same for scans."""
WAIT: Final = 2.0
"""Seconds after which a client that waits for another state is given the one that it knows."""
LOOK: Final = 0.25
"""Seconds between two looks at who has waited for too long."""
RETRY: Final = [("retry-after", "1")]


class Waiting(msgspec.Struct, frozen=True):  # there are many: it is made in a tenth of the time
    """A client that waits for the states of its keys."""

    exchange: Exchange
    page: Page
    """The answer that it is to have,"""
    accept: str
    """in this form."""
    lookups: Sequence[Lookup]
    """Its keys; none for a scan."""


@dataclass(slots=True)
class _Open:
    query: Queried
    together: Sequence[Waiting]
    """Whose keys the query has, in this order."""
    seconds: float
    until: float
    """The instant at which they have waited for too long."""


class UnderWay:
    """The queries of one door."""

    def __init__(self, reactor: Reactor, post: Post) -> None:
        self._reactor, self._post = reactor, post
        self._open: dict[int, _Open] = {}
        self._number = 0
        self._looks: Timer | None = None
        self._together: list[Waiting] = []
        """Strict questions that have come since the last query of such."""
        self._keys = 0

    def ask(self, client: Waiting, query: Queried) -> None:
        """A question by itself; its number is nobody's yet."""
        self._begin([client], query)

    def ask_together(self, client: Waiting) -> None:
        """A strict question for keys, which `send` asks."""
        if self._keys + len(client.lookups) > MOST_LOOKUPS:
            self.send()
        self._together.append(client)
        self._keys += len(client.lookups)

    def send(self) -> None:
        """Ask what was to be asked together."""
        together, self._together, self._keys = self._together, [], 0
        if together:
            self._begin(together, Queried(0, [each for client in together for each in client.lookups], True))

    def told(self, action: Answered | NotAnswered) -> list[tuple[Waiting, Answered]]:
        """Who is to be answered what, now that the worker has an answer, or none."""
        open_ = self._open.pop(action.number, None)
        if open_ is None:
            return []
        if isinstance(action, Answered):
            return _apart(open_.together, action)
        if action.again or len(open_.together) == 1:
            _refuse(open_.together, 503 if action.again else 409, action.reason)
        else:  # maybe too much for one answer: then it is to be told to whoever has asked for that much
            for client in open_.together:
                self._begin([client], replace(open_.query, lookups=client.lookups))
        return []

    def end(self, reason: str) -> None:
        """Nobody is answered any more."""
        for open_ in self._open.values():
            _refuse(open_.together, 503, reason)
        _refuse(self._together, 503, reason)
        self._open, self._together, self._keys = {}, [], 0

    def _begin(self, together: Sequence[Waiting], query: Queried) -> None:
        self._number = number = self._number + 1
        seconds = SCANS if query.scan is not None else PATIENCE if query.unlike is None else WAIT
        query = replace(query, number=number)
        self._open[number] = _Open(query, together, seconds, self._reactor.instant() + seconds * 1e6)
        if self._looks is None:
            self._looks = self._reactor.later(LOOK, self._look)
        self._post(query)

    def _look(self) -> None:
        """Tell those who have waited for too long: one timer for all of them."""
        self._looks, now = None, self._reactor.instant()
        for number in [number for number, open_ in self._open.items() if open_.until <= now]:
            self._post(QueryLeft(number))
            open_ = self._open.pop(number)
            if open_.query.unlike is not None:  # nothing has become another: they are told what there is
                self._begin(open_.together, replace(open_.query, unlike=None))
                continue
            why = f"no answer within {open_.seconds:g} s: the job recovers, or at_least is not reached"
            _refuse(open_.together, 504, why)
        if self._open and self._looks is None:
            self._looks = self._reactor.later(LOOK, self._look)


def _apart(together: Sequence[Waiting], answer: Answered) -> list[tuple[Waiting, Answered]]:
    """Each client with its part of an answer."""
    if len(together) == 1:
        return [(together[0], answer)]
    states = iter(answer.states)
    return [
        (client, Answered(answer.number, answer.time, list(islice(states, len(client.lookups)))))
        for client in together
    ]


def _refuse(clients: Sequence[Waiting], status: int, reason: str) -> None:
    for client in clients:
        client.exchange.answer(status, {"error": reason}, RETRY if status == 503 else [])
