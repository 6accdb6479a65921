"""Meter: what each slot costs a worker, so that slots can move from one that has too much to do; and each operation,
so that people see which.

A pass is a line of stretches: an item enters a slot, what it leads to enters another, and each is left again.
Of so many stretches one is timed, and stands for all of them: two readings of the clock would cost more than
many an item. What lies before the first door is the cost of the vertex that the item was taken up at.

>>> meter = Meter(every=1)
>>> outer = meter.enter(Slot(3), 1, b"a"); inner = meter.enter(Slot(5), 2, b"b")
>>> meter.leave(inner); meter.leave(outer)
>>> meter.take()
[(3, 1, b'a'), (5, 1, b'b')]
>>> meter.by_vertex
Counter({1: 1, 2: 1})

Keeps: nothing that is measured changes what is computed; its size is bounded by slots and vertices. Does not: read a
clock but the one that it is given, which is the shell's; without one each entrance costs 1, as the simulator
has it.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from flamestream.model.ids import Slot

MOST_KEY: Final = 256
"""Bytes of the greatest key that is remembered."""
Clock = Callable[[], int]
"""Nanoseconds of a clock that nobody sets."""
Cost = tuple[Slot, int, bytes | None]
"""A slot, its cost, and the canonical key that has most of it; None: none has."""
Door = tuple[Slot, int] | None
"""A slot that an item is in, and the vertex whose door it came through; None: it stands before a door."""


class OperationCount(NamedTuple):
    """A vertex on one worker."""

    led_on: int
    """Items that it has led on since the beginning, those that were taken back with them; each edge out of it has that
    many."""
    cost: int
    """Its cost since the beginning, with all that stands behind it up to the next door."""
    keys: int
    """How many its state has."""
    size: int
    """Bytes of its state as snapshots have them: what was stored last of each key."""


_DRAWN: Final = 0x9E37_79B9


class Meter:
    """The costs of one worker's slots and operations. `every`: how many stretches one that is timed stands for."""

    def __init__(self, every: int, clock: Clock | None = None) -> None:
        self._every, self._clock = every, clock
        self._left, self._drawn = every, _DRAWN
        self._began: int | None = None
        self._at: Door = None
        self._origin = 0
        self.by_vertex = Counter[int]()
        """The cost of each vertex since the beginning, with all that stands behind it up to the next door."""
        self._costs: dict[Slot, int] = {}
        self._frequent: dict[Slot, tuple[bytes, int, int]] = {}
        """The key that most samples of a slot were of, if one was of most: its votes, of which each other key
        takes one away; and the samples."""

    def take_up(self, vertex: int) -> None:
        """An item is taken up at `vertex`, before any door."""
        if self._clock is not None:
            self._cross(None)
            self._origin = vertex

    def enter(self, slot: Slot, vertex: int, key: bytes) -> Door:
        """An item enters a slot through the door of `vertex`; no key: it is not voted for. Gives what `leave` is to be
        told."""
        before = self._at
        if self._clock is None:
            self._costs[slot] = self._costs.get(slot, 0) + 1
            self.by_vertex[vertex] += 1
        else:
            self._cross((slot, vertex))
        if key and (self._clock is None or self._began is not None):
            self._vote(slot, key)
        return before

    def leave(self, before: Door) -> None:
        """It is through, with all that it led to here."""
        if self._clock is not None:
            self._cross(before)

    def end(self) -> None:
        """A pass is over: what follows is nobody's."""
        self._began = None

    def take(self) -> list[Cost]:
        """The costs since the last call, by slot, of those that cost anything."""
        costs, self._costs = self._costs, {}
        frequent, self._frequent = self._frequent, {}
        taken: list[Cost] = []
        for slot in sorted(slot for slot, cost in costs.items() if cost):
            key, votes, samples = frequent.get(slot, (b"", 0, 0))
            taken.append((slot, costs[slot], key if votes and votes >= samples // 4 else None))
        return taken

    def _cross(self, to: Door) -> None:
        assert self._clock is not None, "nothing is timed without a clock"
        if self._began is not None:
            cost = (self._clock() - self._began) * self._every
            vertex = self._origin
            if self._at is not None:
                slot, vertex = self._at
                self._costs[slot] = self._costs.get(slot, 0) + cost
            self.by_vertex[vertex] += cost
            self._began = None
        self._at = to
        self._left -= 1
        if not self._left:
            self._left = self._draw()
            self._began = self._clock()

    def _draw(self) -> int:
        """How many stretches later the next is timed: as many in the mean, and never in step with the
        graph."""
        drawn = self._drawn
        drawn ^= drawn << 13 & 0xFFFF_FFFF
        drawn ^= drawn >> 17
        drawn ^= drawn << 5 & 0xFFFF_FFFF
        self._drawn = drawn
        return 1 + drawn % (2 * self._every - 1)

    def _vote(self, slot: Slot, key: bytes) -> None:
        known, votes, samples = self._frequent.get(slot, (b"", 0, 0))
        if not votes and len(key) <= MOST_KEY:
            known = key
        votes = votes + 1 if known == key else max(0, votes - 1)
        self._frequent[slot] = known, votes, samples + 1
