"""The garbage collector under our rule: it runs between passes only, and never looks at more than a bounded number of objects.

Left alone, a full collection over large state stops the loop for up to seconds, and even a young one shows in the 99th percentile. So
it is disabled; what start-up and a restore have made is frozen (never looked at again); and young objects are collected when the loop
is idle, or once `LIMIT` of them have come together. Survivors are collected once more, together, before they too are left alone: that
catches the cycles of a call to an object store, which outlive a pass.

Keeps: a collection meets about 2 x `LIMIT` objects at most: some ten milliseconds in a loop that is never idle, where a smaller limit
would look at everything in flight again and again (a quarter of all time at 20,000); far less in one that is. Does not: free a cycle that dies later than its
second collection. State is acyclic by contract, and what is acyclic needs no collector at all.
"""

import gc
from typing import Final

LIMIT: Final = 100_000
_WORTHWHILE: Final = 2_000


class Collector:
    """One per process."""

    def __init__(self) -> None:
        self._middle_aged = 0

    def start(self) -> None:
        """From now on it runs when told to."""
        gc.disable()
        gc.collect()
        gc.freeze()

    def settle(self) -> None:
        """What is alive now will stay (a restored state). Costs nothing, whatever its size."""
        self._middle_aged = 0
        gc.freeze()

    def turn(self, *, idle: bool) -> None:
        """After a pass: collect if it is due."""
        young = gc.get_count()[0]
        if young < (_WORTHWHILE if idle else LIMIT):
            return
        if self._middle_aged >= LIMIT:
            self._middle_aged = 0
            gc.collect(1)
        else:
            self._middle_aged += max(0, young - gc.collect(0))
