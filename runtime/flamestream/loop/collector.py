"""The garbage collector under our rule: it runs between passes only, and never looks at more than a bounded
number of objects.

Left alone, a full collection over large state stops the loop for up to seconds, and even a young one shows in
the 99th percentile. So it is disabled; what start-up and a restore have made is frozen (never looked at
again); and young objects are collected when the loop is idle. Survivors are collected once more, together,
before they too are left alone: that catches the cycles of a call to an object store, which outlive a pass.

In a loop that is never idle, young objects are frozen unseen whenever `LIMIT` of them have come together, and
looked at only every `SELDOM`th time: while state grows by 50,000 records a second, looking at all of it would
cost a quarter of all time. `LIMIT` is what one look costs: at ten times as many a look held the loop up for
0.2 s.

Keeps: a collection meets about 2 x `SURVIVORS` objects in an idle loop, a few milliseconds, and about `LIMIT`
in one that is never idle. Does not: free a cycle that outlives its collections, or most of those that die in
a loop that is never idle: the calls to an object store make some each epoch. State is acyclic by contract,
and what is acyclic needs no collector at all.
"""

import gc
from typing import Final

LIMIT: Final = 10_000
"""Young objects at which a busy loop deals with them: about what a look may cost in a pass."""
SURVIVORS: Final = 4_000
"""Objects that outlived one look, before they are looked at once more."""
SELDOM: Final = 8
_WORTHWHILE: Final = 1_000
"""Young objects below which an idle loop does not look."""


class Collector:
    """The rule of one process, kept from the calls that its loop makes between passes."""

    def __init__(self) -> None:
        self._survivors = 0
        self._frozen = 0

    def start(self) -> None:
        """Take the collector over: what is alive is never looked at again, and from now on it runs in `turn`
        alone."""
        gc.disable()
        # before that: garbage that is frozen is never looked at, and so never freed
        gc.collect()
        gc.freeze()

    def settle(self) -> None:
        """Leave alone what is alive now, for it will stay (a restored state). Costs nothing, whatever its
        size."""
        self._survivors = 0
        gc.freeze()

    def turn(self, *, idle: bool) -> None:
        """After a pass: collect if it is due."""
        young = gc.get_count()[0]
        if young < (_WORTHWHILE if idle else LIMIT):
            return
        if not idle:
            self._frozen += 1
            if self._frozen % SELDOM == 0:
                gc.collect(0)
            self.settle()  # frozen without a look: `gc.freeze` moves a list, whatever its length
        elif self._survivors >= SURVIVORS:
            self._survivors = 0
            gc.collect(1)  # the young ones and those that survived once; what survives again is left alone
        else:
            self._survivors += max(0, young - gc.collect(0))
