"""Transactions: the rows of a graph's tables, each with its versions, and the transactions that touch them, decided
in the order of items and repaired where that order was guessed wrong.

    alice  10@d1      6@t1      2@t3       a version: a value at the place of the transaction that wrote it
    bob         1@d2  5@t1
    t2 comes, between t1 and t3, and takes 4 from alice: 2@t2. t3 has read alice, so it is decided again; whoever
    has touched other rows alone is not.

A transaction reads the newest version below its place of each row that its function asks for. When a version below
changes (a late transaction, a tombstone, another decision), those above that have touched the row are looked at
again, up to and including the next that has written it (!); who then finds the values that it was decided by is
left alone.

Keeps: at rest every decision is that of the fold over all rows (model/tables/ledger.py), byte by byte. Below minimal
time all is final: a row keeps a version a live cut, and transactions are forgotten. Does not: send anything; it
returns what must go out.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Any, Final

from flamestream.core.dataflow import user_code
from flamestream.core.dataflow.accumulators import META, TRIM_ABOVE, Accumulators
from flamestream.core.dataflow.grouping import Change
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.stored import PLAIN, Reading
from flamestream.core.protocol.chain import Chain, incomplete
from flamestream.model import payload as codec
from flamestream.model.errors import unmatched
from flamestream.model.ids import Slot
from flamestream.model.meta import Meta
from flamestream.model.tables.ledger import ALL
from flamestream.model.time import Time

_PLACE, _ORDER = attrgetter("place"), attrgetter("meta")
_NONE: Final = object()
"""Stands for the value of a row that nobody below has written."""


class Transaction:
    """A transaction above minimal time, with what its last run has read, written and given."""

    __slots__ = ("item", "meta", "place", "read", "result", "wrote")

    def __init__(self, meta: Meta, item: Any) -> None:
        self.meta, self.item = meta, item
        self.place = meta, codec.encode(item)
        """The place in the order: versions of one item share a meta for a while (!)."""
        self.read: dict[bytes, Any] = {}
        """The value of each row that its last run has asked for, by the row's key here."""
        self.wrote: dict[bytes, Any] = {}
        self.result: Any = None


class Transactions(Accumulators):
    """The rows of all tables on one worker, which decides all transactions. `decide`: user_code.decided."""

    def __init__(
        self, operation: int, cuts: LiveCuts, decide: user_code.Decide, reading: Reading = PLAIN
    ) -> None:
        super().__init__(operation, cuts, reading)
        self._decide = decide
        self._all: list[Transaction] = []
        self._touching: dict[bytes, list[Transaction]] = {}

    def insert(self, key: bytes, slot: Slot, meta: Meta, payload: Any) -> list[Change]:
        """A transaction: the results to invalidate and those that hold now."""
        del key  # of all of them
        self._forget_final()
        made = Transaction(meta, payload)
        insort(self._all, made, key=_PLACE)
        dirty = self._run(made, slot)
        tombstones, changes = self._repaired(dirty, slot)
        return [*tombstones, (meta, made.result, False), *changes]

    def remove(self, key: bytes, slot: Slot, meta: Meta, payload: Any) -> list[Change]:
        """A tombstone for a transaction that was inserted before."""
        del key
        place = meta, codec.encode(payload)
        at = bisect_left(self._all, place, key=_PLACE)
        if at == len(self._all) or self._all[at].place != place:
            raise unmatched(f"operation {self.operation}", meta)
        gone = self._all.pop(at)
        dirty = self._written(gone, {}, slot)
        self._touch(gone, gone.read, {})
        tombstones, changes = self._repaired(dirty, slot)
        return [*tombstones, (meta, gone.result, True), *changes]

    # --- deciding -------------------------------------------------------------------------------------------

    def _run(self, one: Transaction, slot: Slot) -> list[Transaction]:
        """Decide a transaction by what stands below it. Those above that have to be looked at again."""
        before, one.read = one.read, {}

        def read(row: tuple[str, Any], other: Any) -> Any:
            key = codec.encode(row)
            value = one.read[key] = self._below(key, one.meta)
            return other if value is _NONE else value

        one.result, writes = self._decide(read, one.item)
        self._touch(one, before, one.read)
        return self._written(
            one, {codec.encode((write.table, write.key)): write.after for write in writes}, slot
        )

    def _below(self, key: bytes, meta: Meta) -> Any:
        bucket = self.buckets.get(key)
        place = 0 if bucket is None else bisect_left(bucket.entries, meta, key=META)
        return self._accumulator(bucket, place - 1) if bucket is not None and place else _NONE

    def _touch(self, one: Transaction, before: Iterable[bytes], now: Iterable[bytes]) -> None:
        old, new = set(before), set(now)
        for key in old - new:
            its = self._touching[key]
            its.remove(one)
            if not its:
                del self._touching[key]
        for key in new - old:
            insort(self._touching.setdefault(key, []), one, key=_PLACE)

    def _written(self, one: Transaction, now: dict[bytes, Any], slot: Slot) -> list[Transaction]:
        """Put what a transaction writes now in place of what it wrote. Those above that have to be
        looked at again."""
        before, one.wrote = one.wrote, now
        dirty: list[Transaction] = []
        for key in {**before, **now}:
            if key in before and key in now and _same(before[key], now[key]):
                continue
            bucket = self.bucket(key, slot)
            entries = bucket.entries
            if key in before:
                entries.remove(next(entry for entry in entries if entry[1] is one))
            if key in now:
                if len(entries) > TRIM_ABOVE:
                    self.trim(bucket, self._cuts.all)
                insort(entries, (one.meta, one, now[key], None), key=META)
            dirty += self._above(key, one)
        return dirty

    def _above(self, key: bytes, one: Transaction) -> Iterable[Transaction]:
        its = self._touching.get(key, [])
        for other in its[bisect_left(its, one.place, key=_PLACE) :]:
            if other is not one:
                yield other
                if key in other.wrote:  # who reads above that one reads what it wrote
                    return

    # --- repair ---------------------------------------------------------------------------------------------

    def _repaired(self, dirty: list[Transaction], slot: Slot) -> tuple[list[Change], list[Change]]:
        """Look at them again, the lowest first, and at whom that leads to. Tombstones, and results that hold
        now."""
        tombstones: list[Change] = []
        changes: list[Change] = []
        waiting = {one.place: one for one in dirty}
        places = list(waiting)
        heapify(places)
        while places:
            one = waiting.pop(heappop(places))
            if all(_same(value, self._below(key, one.meta)) for key, value in one.read.items()):
                continue
            before = one.result
            for other in self._run(one, slot):
                if other.place not in waiting:
                    waiting[other.place] = other
                    heappush(places, other.place)
            if codec.encode(before) != codec.encode(one.result):
                tombstones.append((one.meta, before, True))
                changes.append((one.meta, one.result, False))
        return tombstones, changes

    # --- what is final --------------------------------------------------------------------------------------

    def _forget_final(self) -> None:
        """Nothing comes any more below minimal time, so nothing there is looked at again."""
        final = bisect_left(self._all, self._cuts.newest, key=_ORDER)
        if final < TRIM_ABOVE:
            return
        for one in self._all[:final]:
            self._touch(one, one.read, ())
        del self._all[:final]

    def go_back(self, cut: Time) -> None:
        """Be as at the live cut `cut`: what is above it comes again."""
        super().go_back(cut)
        self._all, self._touching = [], {}

    def load(self, chains: Iterable[Chain]) -> None:
        """Take rows from a snapshot. Raises Corrupt if some are missing."""
        super().load(unfolded(chains, self._reading))


def unfolded(chains: Iterable[Chain], reading: Reading) -> list[Chain]:
    """Chains of rows alone: those that a fold has kept as one, a batch's, come first, for the others were written
    since. Raises Corrupt if some are missing."""
    found, since = list[Chain](), list[Chain]()
    for chain in chains:
        if chain.key != ALL:
            since.append(chain)
            continue
        if not chain.full:
            raise incomplete(chain)
        for row, value in reading.accumulator(chain.states).rows.items():
            # (!) Of the row itself nothing is stored: its next one is full.
            found.append(chain._replace(key=codec.encode(row), states=reading.unstored(value)))
    return found + since


def _same(one: Any, other: Any) -> bool:
    return one is other or (
        one is not _NONE and other is not _NONE and codec.encode(one) == codec.encode(other)
    )
