"""Keyed state: what grouping and reduce have in common: buckets by key, what changed since the committed cut,
and their rows.

Keys are canonical encodings, compared as bytes: 1, True and 1.0 are three keys, and NaN is one (!).

Keeps: `dirty` names every bucket with an item at or above the committed cut, so rollback, snapshot and
trimming cost O(change) (invariant 8). Does not: know what a bucket holds (grouping.py, reduce.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, Final, Generic, TypeVar

from flamestream.core.dataflow.key_order import KeyOrder
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.stored import Stored, behind
from flamestream.core.protocol.chain import Chain, Row
from flamestream.core.protocol.queries import Matching
from flamestream.model import payload as codec
from flamestream.model.ids import Epoch, Slot
from flamestream.model.meta import Meta, floor
from flamestream.model.time import Time

AT_ONCE: Final = 16
"""Buckets that a chore visits in one call: few enough not to hold up a pass. The kernel's chores do the same:
what one has visited when an item comes decides where its bucket stands among those that changed, and so the
order of rows (invariant 10)."""


class Bucket:
    """The state of a key."""

    __slots__ = ("chain", "dirty", "full", "key", "older", "slot", "unstored")

    def __init__(self, key: bytes, slot: Slot) -> None:
        self.key = key
        self.slot = slot
        self.dirty = False
        self.full = 0
        """Size of its newest full row, and of the deltas written since: when the chain outgrows it, the next
        row is full."""
        self.chain = 0
        self.older = False
        """It was restored from rows of an older version (stored.py)."""
        self.unstored = False
        """No commit has a row of it yet: the next one does, whether it changes or not."""


B = TypeVar("B", bound=Bucket)


class KeyedState(ABC, Generic[B]):
    """The buckets of one vertex on one worker."""

    def __init__(self, operation: int, cuts: LiveCuts) -> None:
        self.operation = operation
        # (!) By bytes: as Python values 1, True and 1.0 would be one key, and NaN a new one each time.
        self.buckets: dict[bytes, B] = {}
        self._cuts = cuts
        self.size = 0
        """Bytes that are stored of all buckets: in full, and behind that."""
        self._dirty: list[B] = []
        self._order: KeyOrder | None = None
        """The keys in their order; None: nobody has asked for a page of them."""

    @abstractmethod
    def make(self, key: bytes, slot: Slot) -> B:
        """A bucket without items."""

    @abstractmethod
    def trim(self, bucket: B, cuts: list[Meta]) -> None:
        """Forget what no live cut of `cuts` (ascending floors) needs; everything above the last stays."""

    @abstractmethod
    def roll_back(self, bucket: B, cut: Meta) -> bool:
        """Forget everything above `cut`. False if nothing is left."""

    @abstractmethod
    def reaches(self, bucket: B, cut: Meta) -> bool:
        """Has it an item at or above `cut`?"""

    @abstractmethod
    def is_empty(self, bucket: B) -> bool:
        """Nothing is left in it."""

    @abstractmethod
    def row(self, bucket: B, number: int, epoch: Epoch, committed: Meta, cut: Meta) -> Row | None:
        """A row of what changed between two cuts; None if nothing did."""

    @abstractmethod
    def state_at(self, key: bytes, cut: Time) -> Any:
        """The state of a key at a live cut. Raises KeyError if there is none."""

    def states_at(self, keys: Sequence[bytes], cut: Time) -> list[bytes | None]:
        """The states of keys at a live cut, encoded; None for one that has none."""
        return [self._encoded_at(key, cut) for key in keys]

    def _encoded_at(self, key: bytes, cut: Time) -> bytes | None:
        try:
            return codec.encode(self.state_at(key, cut))
        except KeyError:
            return None

    @abstractmethod
    def restore(self, bucket: B, states: Sequence[bytes]) -> None:
        """Take the state from a full one and the changes behind it."""

    def stored(self, bucket: B) -> Stored | None:
        """The parts that the bucket was restored from, as long as nothing has touched it."""
        del bucket
        return None

    def bucket(self, key: bytes, slot: Slot) -> B:
        """The bucket of `key`, marked as changed."""
        found = self.buckets.get(key)
        if found is None:
            found = self.buckets[key] = self.make(key, slot)
            if self._order is not None:
                self._order.add(key)
        if not found.dirty:  # listed once, so that what visits the list costs what changed
            found.dirty = True
            self._dirty.append(found)
        return found

    def rows(self, number: int, epoch: Epoch, cut: Time) -> Iterator[Row | None]:
        """Rows of what changed since the committed cut, a bucket a step (None: nothing after all). `number`: the one
        that snapshots have for the operation."""
        committed, announced = floor(self._cuts.committed), floor(cut)
        # A copy: what becomes dirty between two slices is above the cut, and has no row to give.
        for some in _batches(list(self._dirty)):
            yield from [self.row(bucket, number, epoch, committed, announced) for bucket in some]

    def committed(self, cut: Time) -> Iterator[None]:
        """Epoch's cut `cut` is committed: forget what only older cuts needed, a bucket a step."""
        # What is not visited yet stands in no list that a snapshot or a rollback reads: whoever begins one
        # has this finished first (`EpochWork.finish_chores`).
        visited, self._dirty = self._dirty, []
        limit = floor(cut)
        for some in _batches(visited):
            for bucket in some:
                self._visit(bucket, limit)
            yield from repeat(None, len(some))

    def _visit(self, bucket: B, limit: Meta) -> None:
        # the cuts of now: minimal time has moved on since the commit
        self.trim(bucket, self._cuts.all)
        bucket.unstored = False
        bucket.dirty = self.reaches(bucket, limit)
        if bucket.dirty:
            self._dirty.append(bucket)
        elif self.is_empty(bucket):
            self._forget(bucket.key)

    def go_back(self, cut: Time) -> None:
        """Be as at the live cut `cut`."""
        limit = floor(cut)
        # who is not listed has nothing at or above the committed cut, and no recovery goes back behind that
        visited, self._dirty = self._dirty, []
        for bucket in visited:
            bucket.dirty = bucket.unstored  # (!) what was made of a snapshot is not in it
            if not self.roll_back(bucket, limit):
                self._forget(bucket.key)
            elif bucket.dirty:
                self._dirty.append(bucket)

    def keep(self, slots: Iterable[Slot]) -> None:
        """Forget every other slot."""
        kept = set(slots)
        self.buckets = {key: bucket for key, bucket in self.buckets.items() if bucket.slot in kept}
        self.size = sum(bucket.full + bucket.chain for bucket in self.buckets.values())
        self._dirty = [bucket for bucket in self._dirty if bucket.slot in kept]
        self._order = None  # made anew when somebody asks

    def order(self, count: int) -> bool:
        """Put about so many more keys in order, for pages. Whether some are left."""
        if self._order is None:
            self._order = KeyOrder(self.buckets)
        return self._order.go_on(count)

    def page(self, after: bytes, count: int, matching: Matching) -> tuple[list[bytes], bool]:
        """The least keys behind `after` that are meant, no more than `count`, and whether there are more. Of those that
        are in order: all, once nothing is left to be put so."""
        return ([], False) if self._order is None else self._order.page(after, count, matching)

    def _resize(self, bucket: B, full: int, chain: int) -> None:
        """So many bytes of a bucket are stored in full, and behind that."""
        self.size += full + chain - bucket.full - bucket.chain
        bucket.full, bucket.chain = full, chain

    def _forget(self, key: bytes) -> None:
        self._resize(self.buckets.pop(key), 0, 0)
        if self._order is not None:
            self._order.remove(key)

    def load(self, chains: Iterable[Chain]) -> None:
        """Take states from a snapshot, or what newer epochs have of some that were taken and not touched. Raises
        Corrupt if rows are missing."""
        for chain in chains:
            if not chain.full:
                older = self.buckets.get(chain.key)
                chain = behind(chain, None if older is None else self.stored(older))  # noqa: PLW2901
            # not dirty: what a snapshot has is below the committed cut
            if chain.key in self.buckets:
                self._resize(self.buckets[chain.key], 0, 0)
            bucket = self.buckets[chain.key] = self.make(chain.key, chain.slot)
            if self._order is not None:
                self._order.add(chain.key)
            self._resize(bucket, len(chain.states[0]), sum(map(len, chain.states[1:])))
            bucket.older = not bucket.full
            self.restore(bucket, chain.states)

    def complete(self, fresh: Collection[str], slots: Collection[Slot]) -> Iterator[None]:
        """All states of these slots have been loaded: make what they have to have and the snapshot has not, a key a
        step. `fresh`: its tables that are new."""
        del fresh, slots
        return iter(())


def _batches(buckets: list[B]) -> Iterator[list[B]]:
    return (buckets[first : first + AT_ONCE] for first in range(0, len(buckets), AT_ONCE))
