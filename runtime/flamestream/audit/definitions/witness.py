"""Witness: a run that is known to have given what came out.

Its results wait, by where they come out, until they are seen there. If each output is the one that has waited
longest at its place, and at the end nothing waits that had to come, definition 6 holds strictly: there is
nothing to search for.

>>> witness = Witness()
>>> for value in ("a", "ab"): witness.made("out", value)
>>> witness.left("out", "a"), witness.waits, witness.left("out", "abc")
(True, 1, False)

Keeps: one step an item, and memory for what waits alone.
"""

from collections import defaultdict, deque
from collections.abc import Hashable


class Witness:
    """Results that a run has made and no output has shown yet."""

    def __init__(self) -> None:
        self._waiting: defaultdict[Hashable, deque[Hashable]] = defaultdict(deque)
        self.waits = 0
        """The number of results that wait for their output."""

    def made(self, to: Hashable, value: Hashable) -> None:
        """The run has a result."""
        self._waiting[to].append(value)
        self.waits += 1

    def left(self, to: Hashable, value: Hashable) -> bool:
        """Whether an output is the next one of the run at its place."""
        waiting = self._waiting.get(to)
        if not waiting or waiting[0] != value:
            return False
        waiting.popleft()
        self.waits -= 1
        if not waiting:
            del self._waiting[to]
        return True
