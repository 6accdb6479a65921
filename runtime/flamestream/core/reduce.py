"""Reduce: per key, the fold of all items in global order, with a result an item; computed before the order is certain.

This is grouping(2) + combine + cycle in one vertex, for the case that the cycle stays in its slot, as it always does here. A bucket
holds an accumulator after each item. An item in order costs one `combine`; a late one is inserted, everything behind it is combined
again, and where a result changed a tombstone for the old one goes out before the new one.

    items  x1      x3              accumulators  a1      a3
    x2 ->  x1  x2  x3                            a1  a2  a3'     tombstone r3, then r2, r3'

Below minimal time the order is certain, so only the accumulators at live cuts stay.

Keeps: results equal to those of the unfused form and of the sequential fold (invariant 2); one accumulator a live cut (invariant 8).
Does not: send anything; it returns what must go out. Errors of user functions come back as results (user_code.py).
Source: EDBT 2018, section 3.2 and Fig. 5; the fusion is ours.
"""

from bisect import bisect_left, bisect_right
from typing import Any

from flamestream.core.events import Row
from flamestream.core.grouping import Change, find
from flamestream.core.keyed import Bucket, KeyedState
from flamestream.core.live_cuts import LiveCuts
from flamestream.core.user_code import Fold
from flamestream.model import payload as codec
from flamestream.model import state as states
from flamestream.model.ids import Epoch, Slot
from flamestream.model.meta import Meta, floor
from flamestream.model.time import Time

TRIM_ABOVE = 32


class Accumulation(Bucket):
    """One key's items with the accumulator and the result after each, ascending. Below minimal time only accumulators matter."""

    __slots__ = ("accumulators", "metas", "payloads", "results")

    def __init__(self, key: bytes, slot: Slot) -> None:
        super().__init__(key, slot)
        self.metas: list[Meta] = []
        self.payloads: list[Any] = []
        self.accumulators: list[Any] = []
        self.results: list[Any] = []


class Reduce(KeyedState[Accumulation]):
    """The buckets of one reduce on one worker."""

    def __init__(self, operation: int, cuts: LiveCuts, fold: Fold) -> None:
        super().__init__(operation, cuts)
        self._fold = fold

    def make(self, key: bytes, slot: Slot) -> Accumulation:
        return Accumulation(key, slot)

    def insert(self, key: bytes, slot: Slot, meta: Meta, payload: Any) -> list[Change]:
        """An item: the results to invalidate and the results that hold now."""
        bucket = self.buckets.get(key)
        if bucket is None or not bucket.dirty:
            bucket = self.bucket(key, slot)
        metas = bucket.metas
        if metas and meta < metas[-1]:
            place = bisect_right(metas, meta)
            metas.insert(place, meta)
            bucket.payloads.insert(place, payload)
            bucket.accumulators.insert(place, None)
            bucket.results.insert(place, None)
            return self._again(bucket, place, new=1)
        if len(metas) > TRIM_ABOVE:
            self.trim(bucket, self._cuts.all)  # the lists are new ones behind this line
        accumulators = bucket.accumulators
        accumulator, result = self._fold(accumulators[-1] if accumulators else None, payload, not accumulators)
        bucket.metas.append(meta)
        bucket.payloads.append(payload)
        accumulators.append(accumulator)
        bucket.results.append(result)
        return [(meta, result, False)]

    def remove(self, key: bytes, slot: Slot, meta: Meta, payload: Any) -> list[Change]:
        """A tombstone for an item that was inserted before."""
        bucket = self.bucket(key, slot)
        place = find(bucket.metas, bucket.payloads, meta, payload)
        assert place is not None, f"operation {self.operation} got a tombstone at {meta.hex()} without its item"
        gone: Change = (bucket.metas[place], bucket.results[place], True)
        del bucket.metas[place], bucket.payloads[place], bucket.accumulators[place], bucket.results[place]
        return [gone, *self._again(bucket, place, new=0)]

    def _again(self, bucket: Accumulation, start: int, new: int) -> list[Change]:
        """Combine from `start` on; the first `new` of them had no result before."""
        tombstones: list[Change] = []
        changes: list[Change] = []
        for i in range(start, len(bucket.metas)):
            accumulator, result = self._fold(bucket.accumulators[i - 1] if i else None, bucket.payloads[i], i == 0)
            old, bucket.accumulators[i], bucket.results[i] = bucket.results[i], accumulator, result
            if i >= start + new:
                if codec.encode(old) == codec.encode(result):
                    continue
                tombstones.append((bucket.metas[i], old, True))
            changes.append((bucket.metas[i], result, False))
        return tombstones + changes

    def trim(self, bucket: Accumulation, cuts: list[Meta]) -> None:
        metas = bucket.metas
        kept: list[int] = []
        for cut in cuts:
            newest = bisect_left(metas, cut) - 1
            if newest >= 0 and (not kept or kept[-1] != newest):
                kept.append(newest)
        first_live = bisect_left(metas, cuts[-1])
        if len(kept) < first_live:
            bucket.metas = [metas[i] for i in kept] + metas[first_live:]
            bucket.accumulators = [bucket.accumulators[i] for i in kept] + bucket.accumulators[first_live:]
            bucket.payloads = [None] * len(kept) + bucket.payloads[first_live:]
            bucket.results = [None] * len(kept) + bucket.results[first_live:]

    def roll_back(self, bucket: Accumulation, cut: Meta) -> bool:
        place = bisect_left(bucket.metas, cut)
        del bucket.metas[place:], bucket.payloads[place:], bucket.accumulators[place:], bucket.results[place:]
        return place > 0

    def reaches(self, bucket: Accumulation, cut: Meta) -> bool:
        return bool(bucket.metas) and bucket.metas[-1] >= cut

    def is_empty(self, bucket: Accumulation) -> bool:
        return not bucket.metas

    def row(self, bucket: Accumulation, epoch: Epoch, committed: Meta, cut: Meta) -> Row | None:
        before, newest = bisect_left(bucket.metas, committed) - 1, bisect_left(bucket.metas, cut) - 1
        if newest == before:
            return None
        accumulator = bucket.accumulators[newest]
        change = states.delta_state(bucket.accumulators[before], accumulator) if before >= 0 and bucket.full else None
        if change is not None and bucket.chain + len(change) <= bucket.full + states.FULL_ABOVE:
            bucket.chain += len(change)
            return Row(self.operation, bucket.slot, bucket.key, epoch, False, change)
        state = states.encode_state(accumulator)
        bucket.full, bucket.chain = len(state), 0
        return Row(self.operation, bucket.slot, bucket.key, epoch, True, state)

    def restore(self, bucket: Accumulation, rows: list[Row]) -> None:
        accumulator = states.decode_state(rows[0].state)
        for row in rows[1:]:
            accumulator = states.apply_state_delta(accumulator, row.state)
        bucket.metas.append(floor(Time(0)))
        bucket.payloads.append(None)
        bucket.accumulators.append(accumulator)
        bucket.results.append(None)

    def state_at(self, key: bytes, cut: Time) -> Any:
        """The accumulator at a live cut: for tests and tools. Raises KeyError if there is none."""
        bucket = self.buckets[key]
        newest = bisect_left(bucket.metas, floor(cut)) - 1
        if newest < 0:
            raise KeyError(key)
        return bucket.accumulators[newest]
