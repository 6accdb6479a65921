"""Reduce: per key, the fold of all items in global order, with a result an item; computed before the order is
certain.

This is grouping(2) + combine + cycle in one vertex, for the case that the cycle stays in its slot, as it
always does here. A bucket holds an accumulator after each item. An item in order costs one `combine`; a late
one is inserted, everything behind it is combined again, and where a result changed a tombstone for the old
one goes out before the new one.

    items  x1      x3              accumulators  a1      a3
    x2 ->  x1  x2  x3                            a1  a2  a3'     tombstone r3, then r2, r3'

Keeps: results equal to those of the unfused form and of the sequential fold (invariant 2). Does not: send anything;
it returns what must go out; know what of it is stored (accumulators.py). Errors of user functions come back as
results (user_code.py). Source: EDBT 2018, section 3.2 and Fig. 5; the fusion is ours.
"""

from bisect import bisect_left, bisect_right
from typing import Any

from flamestream.core.dataflow.accumulators import META, TRIM_ABOVE, Accumulation, Accumulators, Entry
from flamestream.core.dataflow.grouping import Change
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.stored import PLAIN, Reading
from flamestream.core.dataflow.user_code import Fold
from flamestream.model import payload as codec
from flamestream.model.errors import unmatched
from flamestream.model.ids import Slot
from flamestream.model.meta import Meta


class Reduce(Accumulators):
    """The buckets of one reduce on one worker."""

    def __init__(self, operation: int, cuts: LiveCuts, fold: Fold, reading: Reading = PLAIN) -> None:
        super().__init__(operation, cuts, reading)
        self._fold = fold

    def insert(self, key: bytes, slot: Slot, meta: Meta, payload: Any) -> list[Change]:
        """An item: the results to invalidate and the results that hold now."""
        # `KeyedState.bucket` in line: usually the key is there, and marked
        bucket = self.buckets.get(key)
        if bucket is None or not bucket.dirty:
            bucket = self.bucket(key, slot)
        entries = bucket.entries
        if not entries:
            accumulator, result = self._fold(None, payload, True)
        elif meta < entries[-1][0]:
            place = bisect_right(entries, meta, key=META)
            entries.insert(place, (meta, payload, None, None))
            return self._again(bucket, place, new=1)
        else:
            # not only behind commits: a hot key would keep all that came since the last one
            if len(entries) > TRIM_ABOVE:
                self.trim(bucket, self._cuts.all)
            accumulator, result = self._fold(self._accumulator(bucket, -1), payload, False)
        entries.append((meta, payload, accumulator, result))
        return [(meta, result, False)]

    def remove(self, key: bytes, slot: Slot, meta: Meta, payload: Any) -> list[Change]:
        """A tombstone for an item that was inserted before."""
        bucket = self.bucket(key, slot)
        place = _find(bucket.entries, meta, payload)
        if place is None:
            raise unmatched(f"operation {self.operation}", meta)
        at, _, _, result = bucket.entries.pop(place)
        return [(at, result, True), *self._again(bucket, place, new=0)]

    def _again(self, bucket: Accumulation, start: int, new: int) -> list[Change]:
        """Combine from `start` on; the first `new` of them had no result before."""
        tombstones: list[Change] = []
        changes: list[Change] = []
        accumulator = self._accumulator(bucket, start - 1) if start else None
        # Whole, all of them: only what is below minimal time is trimmed, and nothing late comes there.
        for i in range(start, len(bucket.entries)):
            meta, payload, _, old = bucket.entries[i]
            accumulator, result = self._fold(accumulator, payload, i == 0)
            bucket.entries[i] = (meta, payload, accumulator, result)
            if i >= start + new:
                # by encoding: to `==` 1, True and 1.0 are one (!)
                if codec.encode(old) == codec.encode(result):
                    continue
                tombstones.append((meta, old, True))
            changes.append((meta, result, False))
        return tombstones + changes


def _find(entries: list[Entry], meta: Meta, payload: Any) -> int | None:
    """The place of an item by meta *and* payload; None if it is not there."""
    encoded = codec.encode(payload)  # versions of one item share a meta for a while (!)
    start, end = bisect_left(entries, meta, key=META), bisect_right(entries, meta, key=META)
    return next((place for place in range(start, end) if codec.encode(entries[place][1]) == encoded), None)
