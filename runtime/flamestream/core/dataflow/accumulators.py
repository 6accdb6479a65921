"""Accumulators: what a reduce and transactions have in common: per key, what has come, ascending, with the value
that stands behind each of it.

Below minimal time the order is certain, so only the accumulators at live cuts stay. A restored accumulator stays
encoded until its key is touched, so a worker that takes over replays at once, whatever the size of its state.

Keeps: one accumulator a live cut (invariant 8). Does not: say what comes, or what it makes of the one before
(reduce.py, transactions.py).
"""

from bisect import bisect_left
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from flamestream.core.dataflow.keyed_state import Bucket, KeyedState
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.stored import PLAIN, Reading, Stored
from flamestream.core.protocol.chain import Row
from flamestream.model.ids import Epoch, Slot
from flamestream.model.meta import Meta, floor
from flamestream.model.payloads import state as states
from flamestream.model.time import Time

TRIM_ABOVE = 32
Entry = tuple[Meta, Any, Any, Any]
"""(meta, payload, the accumulator after it, its result). Below minimal time payload and result are None."""
META = itemgetter(0)
RESTORED = floor(Time(0))
VALUE = 2


# A class of its own: a plain tuple of bytes may be a user's accumulator.
class _Stored(tuple[bytes, ...]):
    """An accumulator as it was stored: a full state and the changes behind it."""

    __slots__ = ()


class Accumulation(Bucket):
    """The items of a key with the accumulator and the result after each, ascending. One list, because each
    object is a cache miss."""

    __slots__ = ("entries",)

    def __init__(self, key: bytes, slot: Slot) -> None:
        super().__init__(key, slot)
        self.entries: list[Entry] = []


class Accumulators(KeyedState[Accumulation]):
    """The buckets of one operation on one worker."""

    def __init__(self, operation: int, cuts: LiveCuts, reading: Reading = PLAIN) -> None:
        super().__init__(operation, cuts)
        self._reading = reading

    def make(self, key: bytes, slot: Slot) -> Accumulation:
        return Accumulation(key, slot)

    def _accumulator(self, bucket: Accumulation, place: int) -> Any:
        meta, payload, accumulator, result = bucket.entries[place]
        if type(accumulator) is _Stored:
            accumulator = self._reading.accumulator(accumulator)
            bucket.entries[place] = (meta, payload, accumulator, result)
        return accumulator

    def trim(self, bucket: Accumulation, cuts: list[Meta]) -> None:
        entries = bucket.entries
        kept: list[int] = []
        for cut in cuts:
            newest = bisect_left(entries, cut, key=META) - 1
            if newest >= 0 and (not kept or kept[-1] != newest):
                kept.append(newest)
        first_live = bisect_left(entries, cuts[-1], key=META)
        # the newest may still have its payload and result, which below minimal time nobody needs
        if len(kept) < first_live or (kept and entries[kept[-1]][1] is not None):
            entries[:first_live] = [(entries[i][0], None, entries[i][VALUE], None) for i in kept]

    def roll_back(self, bucket: Accumulation, cut: Meta) -> bool:
        place = bisect_left(bucket.entries, cut, key=META)
        del bucket.entries[place:]
        return place > 0

    def reaches(self, bucket: Accumulation, cut: Meta) -> bool:
        return bool(bucket.entries) and bucket.entries[-1][0] >= cut

    def is_empty(self, bucket: Accumulation) -> bool:
        return not bucket.entries

    def row(self, bucket: Accumulation, number: int, epoch: Epoch, committed: Meta, cut: Meta) -> Row | None:
        before, newest = self._between(bucket, committed, cut)
        if newest == before and not bucket.unstored:
            return None
        accumulator = self._accumulator(bucket, newest)
        # Where nothing of it is committed `full` may be of an aborted epoch, whose row does not count.
        older, full = (self._accumulator(bucket, before), bucket.full) if before >= 0 else (None, 0)
        # A key's first row of a version is full (!): an epoch with one may have been aborted, so the last row
        # that was made says nothing.
        if bucket.older and bucket.entries[before][0] == RESTORED:
            full = 0
        whole, state = to_store(older, accumulator, full, bucket.chain)
        # If this epoch aborts these are wrong, which does no harm: with a committed state they only bound its
        # chain.
        self._resize(bucket, *((len(state), 0) if whole else (full, bucket.chain + len(state))))
        return Row(number, bucket.slot, bucket.key, epoch, whole, state)

    def _between(self, bucket: Accumulation, committed: Meta, cut: Meta) -> tuple[int, int]:
        """The places of the newest entries below two cuts; -1: there is none."""
        before, newest = (bisect_left(bucket.entries, each, key=META) - 1 for each in (committed, cut))
        return before, newest

    def restore(self, bucket: Accumulation, states: Sequence[bytes]) -> None:
        # Below every item; behind which one it stood is not stored, and nobody asks.
        bucket.entries.append((RESTORED, None, _Stored(states), None))

    def stored(self, bucket: Accumulation) -> Stored | None:
        accumulator = bucket.entries[0][VALUE] if len(bucket.entries) == 1 else None
        return accumulator if type(accumulator) is _Stored else None

    def state_at(self, key: bytes, cut: Time) -> Any:
        """The accumulator at a live cut. Raises KeyError if there is none."""
        bucket = self.buckets[key]
        newest = bisect_left(bucket.entries, floor(cut), key=META) - 1
        if newest < 0:
            raise KeyError(key)
        return self._accumulator(bucket, newest)


def to_store(before: Any, accumulator: Any, full: int, changes: int) -> tuple[bool, bytes]:
    """A snapshot's row of an accumulator: (is it the whole state, the state or what changed since `before`).

    `full` and `changes` are the sizes of what is stored of the key: 0 if nothing is. A chain of changes never
    outgrows its full state.
    """
    change = states.delta_state(before, accumulator) if full else None
    if change is not None and changes + len(change) <= full + states.FULL_ABOVE:
        return False, change
    return True, states.encode_state(accumulator)
