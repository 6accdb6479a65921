"""Waiting: transactions that have to be looked at, the lowest first, each once.

Keeps: the order of places. Does not: know what they wait for (transactions.py).
"""

from heapq import heappop, heappush
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
        self._all: dict[Place, P] = {}
        self._places: list[Place] = []  # a heap of the keys of _all, with stale ones

    def __contains__(self, one: P) -> bool:
        return one.place in self._all

    def add(self, one: P) -> None:
        """Another one."""
        self._all[one.place] = one
        heappush(self._places, one.place)

    def discard(self, one: P) -> None:
        """It is gone, if it was here."""
        self._all.pop(one.place, None)

    @property
    def lowest(self) -> P | None:
        """The one with the lowest place; None: nobody waits."""
        while self._places and self._places[0] not in self._all:
            heappop(self._places)
        return self._all[self._places[0]] if self._places else None

    def pop(self) -> P:
        """Take the lowest out. Raises KeyError if there is none."""
        if (lowest := self.lowest) is None:
            raise KeyError("nobody waits")
        return self._all.pop(lowest.place)
