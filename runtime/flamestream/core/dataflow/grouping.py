"""Grouping: per key, the window of the last `w` items in global order, computed before the order is certain.

Items that come in order are appended and their window goes out at once. A late item is inserted at its place:
for every window that it broke a tombstone goes out, then the right windows. A tombstone that comes in takes
its victim out in the same way. A bucket is a multiset of (meta, payload), because versions of one item may
share a meta for a while; a tombstone names its victim by both (!).

    bucket  x1 x3        windows (x1) (x1 x3)
    x2 ->   x1 x2 x3     tombstone (x1 x3), then (x1 x2) (x2 x3)

Keeps: when nothing below T is in flight, the live windows below T are those of the sequential order
(invariant 2). Does not: send anything; it returns what must go out. Source: EDBT 2018, section 3.2
(optimistic grouping, drifting state).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

from flamestream.core.dataflow.keyed_state import Bucket, KeyedState
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.stored import PLAIN, Reading
from flamestream.core.protocol.chain import Row
from flamestream.model import payload as codec
from flamestream.model.errors import unmatched
from flamestream.model.ids import Epoch, Slot
from flamestream.model.meta import Meta
from flamestream.model.time import Time

Change = tuple[Meta, Any, bool]
"""(meta, window, is it a tombstone)."""
# Slack: a trim makes both lists anew, so it must not come with each item.
TRIM_ABOVE = 16


class Window(Bucket):
    """The items of a key, ascending."""

    __slots__ = ("metas", "payloads")

    def __init__(self, key: bytes, slot: Slot) -> None:
        super().__init__(key, slot)
        self.metas: list[Meta] = []
        self.payloads: list[Any] = []


class Grouping(KeyedState[Window]):
    """The buckets of one grouping on one worker."""

    def __init__(self, operation: int, cuts: LiveCuts, window: int, reading: Reading = PLAIN) -> None:
        super().__init__(operation, cuts)
        self._window, self._reading = window, reading

    def make(self, key: bytes, slot: Slot) -> Window:
        return Window(key, slot)

    def insert(self, key: bytes, slot: Slot, meta: Meta, payload: Any) -> list[Change]:
        """An item: the windows to invalidate and the windows that hold now, in that order."""
        bucket = self.bucket(key, slot)
        # not only behind commits: a hot key would keep all that came since the last one
        if len(bucket.metas) > TRIM_ABOVE + self._window:
            self.trim(bucket, self._cuts.all)
        metas = bucket.metas
        place = bisect_right(metas, meta)
        # It will stand in its own window and in those of the `window - 1` items behind it: only these change.
        changes = self._windows(bucket, place, place + self._window - 1, tombstones=True)
        metas.insert(place, meta)
        bucket.payloads.insert(place, payload)
        return changes + self._windows(bucket, place, place + self._window, tombstones=False)

    def remove(self, key: bytes, slot: Slot, meta: Meta, payload: Any) -> list[Change]:
        """A tombstone for an item that was inserted before."""
        bucket = self.bucket(key, slot)
        place = self._find(bucket, meta, payload)
        changes = self._windows(bucket, place, place + self._window, tombstones=True)
        del bucket.metas[place], bucket.payloads[place]
        return changes + self._windows(bucket, place, place + self._window - 1, tombstones=False)

    def _windows(self, bucket: Window, start: int, end: int, tombstones: bool) -> list[Change]:
        metas, payloads, before = bucket.metas, bucket.payloads, self._window - 1
        return [
            (metas[i], tuple(payloads[max(0, i - before) : i + 1]), tombstones)
            for i in range(start, min(end, len(metas)))
        ]

    def _find(self, bucket: Window, meta: Meta, payload: Any) -> int:
        place = find(bucket.metas, bucket.payloads, meta, payload)
        if place is None:
            raise unmatched(f"operation {self.operation}", meta)
        return place

    def trim(self, bucket: Window, cuts: list[Meta]) -> None:
        metas, need = bucket.metas, self._window - 1
        kept: list[int] = []
        for cut in cuts:
            at = bisect_left(metas, cut)
            # the first window behind a cut reaches `need` items back; what two cuts need is kept once
            kept.extend(range(max(at - need, kept[-1] + 1 if kept else 0), at))
        kept.extend(range(bisect_left(metas, cuts[-1]), len(metas)))
        if len(kept) < len(metas):
            bucket.metas = [metas[i] for i in kept]
            bucket.payloads = [bucket.payloads[i] for i in kept]

    def roll_back(self, bucket: Window, cut: Meta) -> bool:
        place = bisect_left(bucket.metas, cut)
        del bucket.metas[place:], bucket.payloads[place:]
        return place > 0

    def reaches(self, bucket: Window, cut: Meta) -> bool:
        return bool(bucket.metas) and bucket.metas[-1] >= cut

    def is_empty(self, bucket: Window) -> bool:
        return not bucket.metas

    def row(self, bucket: Window, number: int, epoch: Epoch, committed: Meta, cut: Meta) -> Row | None:
        end, need = bisect_left(bucket.metas, cut), self._window - 1
        # a window of one item needs nothing from below the cut, so such a grouping has no rows
        if end == bisect_left(bucket.metas, committed) or not need:
            return None
        state = codec.encode_items(
            list(
                zip(
                    bucket.metas[max(0, end - need) : end],
                    bucket.payloads[max(0, end - need) : end],
                    strict=True,
                )
            )
        )
        # always whole: it is no longer than a window, so there are no chains to be bounded
        self._resize(bucket, len(state), 0)
        return Row(number, bucket.slot, bucket.key, epoch, True, state)

    def restore(self, bucket: Window, states: Sequence[bytes]) -> None:
        for meta, payload in self._reading.items(tuple(states)):
            bucket.metas.append(Meta(meta))
            bucket.payloads.append(payload)

    def state_at(self, key: bytes, cut: Time) -> tuple[Any, ...]:
        """The last items below a live cut. Raises KeyError if there are none."""
        bucket = self.buckets[key]
        end = bisect_left(bucket.metas, cut.to_bytes(8, "big"))
        if not end:
            raise KeyError(key)
        return tuple(bucket.payloads[max(0, end - self._window + 1) : end])


def find(metas: list[Meta], payloads: list[Any], meta: Meta, payload: Any) -> int | None:
    """The place of an item by meta *and* payload; None if it is not there."""
    encoded = codec.encode(payload)  # versions of one item share a meta for a while (!)
    for place in range(bisect_left(metas, meta), bisect_right(metas, meta)):
        if codec.encode(payloads[place]) == encoded:
            return place
    return None
