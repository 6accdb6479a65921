"""At: what a function may know of its item's place, so that clock and chance need no call.

The place of an item in the order is journalled, or follows from the input: a replay finds the same. So what
is made of it alone is the same again, in every runner: when the item's record arrived, and numbers that
nobody could guess from the item.

>>> from flamestream.model.graph import Graph
>>> graph = Graph("dice")
>>> graph.source("rolls").map(at(lambda roll, at: (roll, 1 + int(at.random() * 6)))).sink("eyes")
>>> graph.run(rolls=["ann"]) == graph.run(rolls=["ann"])
True

Keeps: no clock is read, and no chance is asked. Does not: know what the machine's clock says now, which a
replay could not.
"""

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, TypeVar

from flamestream.model.errors import UserError
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.payloads.values import EPOCH, MICROSECOND
from flamestream.model.time import CLOCKS_BEGIN, timestamp_of
from flamestream.model.vertex import Function, name_of

T = TypeVar("T")
U = TypeVar("U")


class At:
    """An item's place, for one call of one function."""

    __slots__ = ("_asked", "_meta", "_seed")

    def __init__(self, seed: bytes, meta: Meta) -> None:
        self._seed, self._meta, self._asked = seed, meta, 0

    @property
    def time(self) -> datetime:
        """When the item's record arrived, in UTC, to the microsecond. Raises UserError for a source that is
        read in an order of its own (a list of files): it is read again then, and when is written nowhere. So
        too for the answers of a call beside it, which have their place between its records."""
        time = timestamp_of(time_of_meta(self._meta))
        if time < CLOCKS_BEGIN:
            raise UserError(
                "at.time: when this record arrived is not known: its source, or one beside this call, is read in "
                "an order of its own. Read it as it grows (files: follow: true), use a time that records have, or give "
                "graph.run fs.Arrived(record, at=...)"
            )
        return EPOCH + time * MICROSECOND

    def random(self) -> float:
        """A number from 0 to below 1, another at each call."""
        return (int.from_bytes(self._bytes()[:7], "big") >> 3) / (1 << 53)

    def uuid(self) -> str:
        """A UUID (of version 8, for the user's own use), another at each call."""
        drawn = int.from_bytes(self._bytes(), "big")
        drawn = drawn & ~(0xF << 76) & ~(0x3 << 62) | 8 << 76 | 2 << 62
        text = f"{drawn:032x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def _bytes(self) -> bytes:
        self._asked += 1
        counted = self._asked.to_bytes(4, "big") + self._meta
        return hashlib.blake2b(counted, key=self._seed, digest_size=16).digest()


class AtFunction(Generic[T, U]):
    """A function of an item and its place: see `at`."""

    def __init__(self, function: Callable[[T, At], U], name: str = "") -> None:
        self.function, self.written, self.name = function, name_of(function), name

    def seeded(self, graph: str, vertex: int) -> "Placed":
        """For one operation of a graph: another one draws other numbers, but for one of the same name."""
        # By its place where it has no name (!): what jobs have drawn stays.
        said = f"{f'name {self.name}' if self.name else vertex} {graph}".encode()
        return Placed(self.function, hashlib.blake2b(said, digest_size=32).digest())


class Placed:
    """(item, its meta) -> result."""

    def __init__(self, function: Function, seed: bytes) -> None:
        self._function, self._seed, self.written = function, seed, name_of(function)

    def __call__(self, item: Any, meta: Meta) -> Any:
        return self._function(item, At(self._seed, meta))


def at(function: Callable[[T, At], U], *, name: str = "") -> AtFunction[T, U]:
    """A function that also knows its item's place, for `stream.map(fs.at(function))`: `function(item, at)`
    may use `at.time`, `at.random()` and `at.uuid()`, which a replay finds again. `name`: chance is drawn by it,
    so it stays the same whatever stands before in the graph; left out, by the operation's place there."""
    return AtFunction(function, name)
