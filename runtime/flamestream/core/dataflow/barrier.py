"""Barrier: holds results until minimal time passes them, drops invalidated ones, and releases the rest in the
total order.

Results are kept by the time of their run, so holding one is an append and a release is a sort of what is
ready. Like a bucket it is a multiset of (meta, payload): a tombstone takes away exactly what it names (!).

Keeps: what is released is final and ascending (invariant 2). Does not: cut bundles or filter a replay
(delivery.py). Source: EDBT 2018, section 3.4.
"""

from heapq import heappop, heappush
from operator import itemgetter
from typing import Any

from flamestream.model import payload as codec
from flamestream.model.errors import unmatched
from flamestream.model.ids import Slot
from flamestream.model.meta import Meta
from flamestream.model.time import Time

Result = tuple[Meta, Slot, Any]
_BY_META = itemgetter(0)


class Barrier:
    """The results of one sink on one worker."""

    def __init__(self) -> None:
        self._held: dict[bytes, list[Result]] = {}
        self._times: list[bytes] = []  # a heap of the keys of _held
        self.dropped = 0
        """Results that were taken away again."""

    def hold(self, meta: Meta, slot: Slot, payload: Any) -> None:
        """A result."""
        # a meta begins with its run's time, big-endian: it compares as a number does, and nothing is decoded
        time = meta[:8]
        held = self._held.get(time)
        if held is None:
            held = self._held[time] = []
            heappush(self._times, time)
        held.append((meta, slot, payload))

    def drop(self, meta: Meta, payload: Any) -> None:
        """A tombstone for a result that is held."""
        held = self._held.get(meta[:8], [])
        encoded = codec.encode(payload)
        for place, (other, _, value) in enumerate(held):
            if other == meta and codec.encode(value) == encoded:  # by both (!)
                # an emptied list stays: its time is in the heap once, and the release takes both
                del held[place]
                self.dropped += 1
                return
        # It has come its item's way, and behind it: what is not here was computed differently then.
        raise unmatched("a barrier", meta)

    def release(self, minimal: Time) -> list[Result]:
        """Everything below `minimal`, ascending."""
        limit = minimal.to_bytes(8, "big")
        released: list[Result] = []
        while self._times and self._times[0] < limit:
            ready = self._held.pop(heappop(self._times))
            # By meta alone: below minimal time one version of each item is left, so payloads need not
            # compare.
            ready.sort(key=_BY_META)
            released += ready
        return released

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))
