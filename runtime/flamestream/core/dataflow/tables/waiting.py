"""Waiting: transactions that have to be looked at, the lowest first, each once.

Two may have one place for a while: of a fold that goes back to what it gave before, the same comes again before it has
gone. Each of them waits for itself (!).

Keeps: the order of places. Does not: know what they wait for (transactions.py).
"""

from heapq import heappop, heappush
from itertools import count
from typing import Generic, Protocol, TypeVar

from flamestream.model.meta import Meta

Place = tuple[Meta, bytes]
"""The place of a transaction in the order: its meta and its encoding."""


class Placed(Protocol):
    """Something that has a place."""

    place: Place


P = TypeVar("P", bound=Placed)


class Waiting(Generic[P]):
    """Some of them."""

    def __init__(self) -> None:
        self._all: set[P] = set()
        self._ordered: list[tuple[Place, int, P]] = []  # a heap, with stale ones; numbers, for P has no order
        self._numbers = count()

    def __contains__(self, one: P) -> bool:
        return one in self._all

    def add(self, one: P) -> None:
        """Another one."""
        self._all.add(one)
        heappush(self._ordered, (one.place, next(self._numbers), one))

    def discard(self, one: P) -> None:
        """It is gone, if it was here."""
        self._all.discard(one)

    @property
    def lowest(self) -> P | None:
        """The one with the lowest place; None: nobody waits."""
        while self._ordered and self._ordered[0][-1] not in self._all:
            heappop(self._ordered)
        return self._ordered[0][-1] if self._ordered else None

    def pop(self) -> P:
        """Take the lowest out. Raises KeyError if there is none."""
        if (lowest := self.lowest) is None:
            raise KeyError("nobody waits")
        self._all.remove(lowest)
        return lowest
