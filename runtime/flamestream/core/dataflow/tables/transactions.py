"""Transactions: the rows of a graph's tables, each with its versions, and the transactions that touch them, decided
in the order of items and repaired where that order was guessed wrong.

    alice  10@d1      6@t1      2@t3       a version: a value at the place of the transaction that wrote it
    bob         1@d2  5@t1
    t2 comes, between t1 and t3, and takes 4 from alice: 2@t2. t3 has read alice, so it is decided again; whoever
    has touched other rows alone is not.

A transaction reads the newest version below its place of each row that its function asks for. When a version below
changes (a late transaction, a tombstone, another decision), those above that have touched the row wait to be looked
at again, up to and including the next that has written it, in all its versions (!); who then finds the values that it
was decided by is left alone. They are looked at in their order, below the next item and at the end of a pass: of two
workers' items on one hot row each would else have all of the other's above it decided again.

One that has run as often as `patience` allows (patience.py; 0: before its first run) is put off until only those that
are put off could still change what it reads. Minimal time does not pass it until then (!), so whatever it leads to is
told under its own time: what brought it may have been passed.

Keeps: at rest every decision is that of the fold over all rows (model/tables/ledger.py), byte by byte. Below minimal
time all is final: a row keeps a version a live cut, and transactions are forgotten. Does not: send anything; it
returns what must go out, all of it under the time of the transaction that it is of.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from flamestream.core.dataflow import user_code
from flamestream.core.dataflow.accumulators import META, TRIM_ABOVE, VALUE, Accumulation, Accumulators
from flamestream.core.dataflow.grouping import Change
from flamestream.core.dataflow.live_cuts import LiveCuts
from flamestream.core.dataflow.stored import PLAIN, Reading, Stored
from flamestream.core.dataflow.tables.contention import Contended, Contention
from flamestream.core.dataflow.tables.patience import Patience
from flamestream.core.dataflow.tables.waiting import Place, Waiting
from flamestream.core.protocol.chain import DELETED, Chain, Row, incomplete, is_deleted
from flamestream.core.protocol.stored_rows import encoded_head
from flamestream.model import payload as codec
from flamestream.model.errors import unmatched
from flamestream.model.ids import Epoch, Slot
from flamestream.model.meta import Meta, floor, time_of_meta
from flamestream.model.tables.index import IndexRows
from flamestream.model.tables.ledger import ALL
from flamestream.model.time import END, Time
from flamestream.model.vertex import Function

_PLACE, _ORDER = attrgetter("place"), attrgetter("meta")
Indexes = Mapping[str, tuple[str, Function]]
"""`Deciding.indexes`."""
NO_INDEXES: Final[Indexes] = {}
_NONE: Final = object()
"""Stands for the value of a row that nobody below has written, or the last one who did has deleted."""


class Transaction:
    """A transaction above minimal time, with what its last run has read, written and given."""

    __slots__ = ("item", "meta", "place", "read", "result", "runs", "since", "wrote")

    def __init__(self, meta: Meta, item: Any, since: int) -> None:
        self.meta, self.item = meta, item
        self.place: Place = meta, codec.encode(item)  # versions of one item share a meta for a while (!)
        self.read: dict[bytes, Any] = {}
        """The value of each row that its last run has asked for, by the row's key here."""
        self.wrote: dict[bytes, Any] = {}
        self.result: Any = None
        self.runs = 0
        self.since = since
        """The pass in which it has come; of one that waited: or the last of those came whose rows it has read."""


class Transactions(Accumulators):
    """The rows of all tables on one worker, which decides all transactions. `decide`: user_code.decided."""

    def __init__(
        self, operation: int, cuts: LiveCuts, decide: user_code.Decide, reading: Reading = PLAIN,
        indexes: Indexes = NO_INDEXES, patience: Patience | None = None,
    ) -> None:  # fmt: skip
        super().__init__(operation, cuts, reading)
        self._decide, self._patience, self._pass = decide, patience or Patience(), 0
        self._indexes, self._was_folded = indexes, False
        self._all: list[Transaction] = []
        self._touching: dict[bytes, list[Transaction]] = {}
        self._repairs, self._put_off = Waiting[Transaction](), Waiting[Transaction]()
        self._contention = Contention()
        self.slot = Slot(0)
        """The one of all of them."""

    def next_pass(self) -> None:
        """A pass begins: transactions that come from now on come later than all before."""
        self._pass += 1

    def insert(self, slot: Slot, meta: Meta, payload: Any) -> list[Change]:
        """A transaction: its result, unless it is put off. Those above wait to be looked at again."""
        self.slot = slot
        self._forget_final(least=TRIM_ABOVE)
        made = Transaction(meta, payload, self._pass)
        insort(self._all, made, key=_PLACE)
        if self._patience.waits:
            self._put_off.add(made)
            return []
        self._run(made)
        return [(meta, made.result, False)]

    def remove(self, slot: Slot, meta: Meta, payload: Any) -> list[Change]:
        """A tombstone for a transaction that was inserted before: its result, if it has one, is invalid. Raises
        ProtocolError if it was not."""
        self.slot = slot
        place = meta, codec.encode(payload)
        at = bisect_left(self._all, place, key=_PLACE)
        if at == len(self._all) or self._all[at].place != place:
            raise unmatched(f"operation {self.operation}", meta)
        gone = self._all.pop(at)
        self._repairs.discard(gone)
        self._put_off.discard(gone)
        self._wait(self._written(gone, {}))
        self._touch(gone, gone.read, {})
        return [(meta, gone.result, True)] if gone.runs else []

    # --- deciding -------------------------------------------------------------------------------------------

    def _run(self, one: Transaction) -> None:
        """Decide a transaction by what stands below it."""
        before, one.read = one.read, {}

        def read(row: tuple[str, Any], other: Any) -> Any:
            key = codec.encode(row)
            value = one.read[key] = self._below(key, one.meta)
            return other if value is _NONE else value

        one.result, writes = self._decide(read, one.item)
        self._touch(one, before, one.read)
        rows = {codec.encode(row): _NONE if each.deleted else each.after for row, each in writes}
        self._wait(self._written(one, rows))
        self._count_run(one)

    def _count_run(self, one: Transaction) -> None:
        one.runs += 1
        if one.runs > 1:
            self._patience.repaired()
            return
        came = one.since
        if self._patience.waits:
            one.since = max([came, *(self._since(key, one) for key in one.read)])
        self._patience.decided(early=one.since > came)

    def _since(self, key: bytes, one: Transaction) -> int:
        """The pass since which the version of a row that a transaction reads has been what it is."""
        its = self._touching[key]
        below = reversed(its[: bisect_left(its, one.place, key=_PLACE)])
        return next((other.since for other in below if key in other.wrote), 0)

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

    def _written(self, one: Transaction, now: dict[bytes, Any]) -> list[Transaction]:
        """Put what a transaction writes now in place of what it wrote. Those above that have to be
        looked at again."""
        before, one.wrote = one.wrote, now
        dirty: list[Transaction] = []
        for key in {**before, **now}:
            if key in before and key in now and _same(before[key], now[key]):
                continue
            bucket = self.bucket(key, self.slot)
            entries = bucket.entries
            if key in before:
                entries.remove(next(entry for entry in entries if entry[1] is one))
            if key in now:
                if len(entries) > TRIM_ABOVE:
                    self.trim(bucket, self._cuts.all)
                insort(entries, (one.meta, one, now[key], None), key=META)
            above = list(self._above(key, one))
            if above:
                self._contention.changed(key, len(above))
            dirty += above
        return dirty

    def _above(self, key: bytes, one: Transaction) -> Iterable[Transaction]:
        its = self._touching.get(key, [])
        writer: Meta | None = None
        # (!) Another version of the same item is not above: who reads there reads of the two which wrote last.
        for other in its[bisect_right(its, one.meta, key=_ORDER) :]:
            # (!) Who reads above a writer reads what that wrote, but for another version of the same.
            if writer is not None and other.meta != writer:
                return
            yield other
            if key in other.wrote:
                writer = other.meta

    # --- repair ---------------------------------------------------------------------------------------------

    def _wait(self, dirty: Iterable[Transaction]) -> None:
        """They have to be looked at again."""
        for one in dirty:
            if one not in self._repairs and one not in self._put_off:
                (self._put_off if one.runs >= self._patience.runs else self._repairs).add(one)

    @property
    def undecided(self) -> Time:
        """The time of the lowest that is put off: minimal time must not pass it (!). END: there is none."""
        lowest = self._put_off.lowest
        return END if lowest is None else time_of_meta(lowest.meta)

    def _next(self) -> Waiting[Transaction] | None:
        """Where the lowest stands that can be looked at."""
        dirty, put_off = self._repairs.lowest, self._put_off.lowest
        if put_off is None or put_off.meta >= floor(self._cuts.reached):
            return None if dirty is None else self._repairs
        return self._repairs if dirty is not None and dirty.place < put_off.place else self._put_off

    def waits(self, limit: Meta | None) -> bool:
        """Is there any to be looked at, below `limit` if it is given?"""
        if (found := self._next()) is None or (lowest := found.lowest) is None:
            return False
        return limit is None or lowest.meta < limit

    def look(self) -> list[Change]:
        """Look at the lowest that `waits`. What has changed, all at its meta."""
        waiting = self._next()
        assert waiting is not None
        one = waiting.pop()
        if not one.runs:
            self._run(one)
            return [(one.meta, one.result, False)]
        before = one.result
        if all(_same(value, self._below(key, one.meta)) for key, value in one.read.items()):
            return []
        self._run(one)
        if codec.encode(before) == codec.encode(one.result):
            return []
        return [(one.meta, before, True), (one.meta, one.result, False)]

    # --- what is final --------------------------------------------------------------------------------------

    def _forget_final(self, least: int = 1) -> None:
        """Nothing comes any more below minimal time, so nothing there is looked at again. Fewer than `least` wait."""
        final = bisect_left(self._all, self._cuts.newest, key=_ORDER)
        if final < least:
            return
        for one in self._all[:final]:
            self._touch(one, one.read, ())
            self._contention.final(one.runs, type(one.result) is tuple and one.result[1].aborted)
        del self._all[:final]

    def contended(self) -> Contended:
        """How often transactions were decided here so far."""
        self._forget_final()
        return self._contention.told(waits=self._patience.waits)

    def trim(self, bucket: Accumulation, cuts: list[Meta]) -> None:
        """Also forget that a row was deleted, where nothing below that is needed."""
        super().trim(bucket, cuts)
        entries, gone = bucket.entries, 0
        while gone < len(entries) and entries[gone][0] < cuts[-1] and self._is_deleted(bucket, gone):
            gone += 1
        del entries[:gone]

    def roll_back(self, bucket: Accumulation, cut: Meta) -> bool:
        return super().roll_back(bucket, cut) and not self._is_deleted(bucket, -1)

    def row(self, bucket: Accumulation, number: int, epoch: Epoch, committed: Meta, cut: Meta) -> Row | None:
        before, newest = self._between(bucket, committed, cut)
        if newest == before and not bucket.unstored:
            return None
        is_stored = before >= 0 and not self._is_deleted(bucket, before)
        if not is_stored:
            self._resize(bucket, 0, bucket.chain)  # (!) behind a deletion a row is full
        if not self._is_deleted(bucket, newest):
            return super().row(bucket, number, epoch, committed, cut)
        self._resize(bucket, 0, 0)
        return Row(number, bucket.slot, bucket.key, epoch, True, DELETED) if is_stored else None

    def state_at(self, key: bytes, cut: Time) -> Any:
        """The row's value at a live cut. Raises KeyError if there is none."""
        value = super().state_at(key, cut)
        if value is _NONE:
            raise KeyError(key)
        return value

    @staticmethod
    def _is_deleted(bucket: Accumulation, place: int) -> bool:
        return bucket.entries[place][VALUE] is _NONE

    def go_back(self, cut: Time) -> None:
        """Be as at the live cut `cut`: what is above it comes again."""
        super().go_back(cut)
        self._all, self._touching = [], {}
        self._repairs, self._put_off = Waiting(), Waiting()

    def load(self, chains: Iterable[Chain]) -> None:
        """Take rows from a snapshot. Raises Corrupt if some are missing."""
        deleted, rows, was_folded = unfolded(chains, self._reading)
        self._was_folded |= was_folded
        for key in deleted & self.buckets.keys():
            self._forget(key)
        super().load(rows)

    def complete(self, fresh: Collection[str], slots: Collection[Slot]) -> Iterator[None]:
        """Make the rows of indexes that are new. Raises UserError if a row has none that can be made."""
        if not (wanted := missing(self._indexes, fresh, was_folded=self._was_folded)):
            return
        gone, rows = parted(
            [(key, its.slot) for key, its in self.buckets.items() if its.slot in slots], wanted
        )
        for key in gone:
            self._forget(key)
        self._dirty = [bucket for bucket in self._dirty if bucket.key not in gone]
        for chain in index_chains(self.operation, rows, wanted, self._reading, self._stored_state):
            if chain is not None:
                super().load([chain])
                self.bucket(chain.key, chain.slot).unstored = True
            yield

    def _stored_state(self, key: bytes) -> Stored:
        found = self.stored(self.buckets[key])
        assert found is not None, "nothing has touched a row that has just been loaded"
        return found


def missing(indexes: Indexes, fresh: Collection[str], *, was_folded: bool) -> Indexes:
    """The indexes whose rows have to be made: those that are `fresh`. All, if some rows are of a batch, whose fold has
    what the code of then had."""
    return {index: its for index, its in indexes.items() if was_folded or index in fresh}


def parted(
    rows: Sequence[tuple[bytes, Slot]], indexes: Indexes
) -> tuple[set[bytes], Sequence[tuple[bytes, Slot]]]:
    """The rows of indexes, which count no more, and those of their tables."""
    heads, tables = (
        tuple(map(encoded_head, names)) for names in (indexes, {of for of, _ in indexes.values()})
    )
    return {key for key, _ in rows if key.startswith(heads)}, [
        row for row in rows if row[0].startswith(tables)
    ]


def index_chains(
    operation: int,
    rows: Sequence[tuple[bytes, Slot]],
    indexes: Indexes,
    reading: Reading,
    stored: Callable[[bytes], Stored],
) -> Iterator[Chain | None]:
    """Chains of the rows that indexes must have, made of these, of which nothing is stored; None: it is made so far. Of
    a million rows it takes seconds, in which a worker has to do other things too (!). Raises UserError for a row of
    which no index can be made."""
    made = IndexRows(indexes)
    for key, _ in rows:
        made.add(codec.decode(key), reading.accumulator(stored(key)))
        yield None
    for place, keys in made.take():
        _, slot = rows[0]  # the one of all of them
        yield Chain(operation, slot, place, Epoch(0), True, reading.unstored(keys))


def unfolded(chains: Iterable[Chain], reading: Reading) -> tuple[set[bytes], list[Chain], bool]:
    """The keys of rows that are no more, and chains of the others alone: those that a fold has kept as one, a batch's,
    come first, for the others were written since. And whether there are such. Raises Corrupt if some are missing."""
    found, since, folds = list[Chain](), list[Chain](), list[Chain]()
    deleted = set[bytes]()
    for chain in chains:
        if chain.key == ALL:
            folds.append(chain)
        elif is_deleted(chain):
            deleted.add(chain.key)
        else:
            since.append(chain)
    for chain in folds:
        if not chain.full:
            raise incomplete(chain)
        for row, value in reading.accumulator(chain.states).rows.items():
            # (!) Of the row itself nothing is stored: its next one is full.
            if (key := codec.encode(row)) not in deleted:
                found.append(chain._replace(key=key, states=reading.unstored(value)))
    return deleted, found + since, bool(folds)


def _same(one: Any, other: Any) -> bool:
    return one is other or (
        one is not _NONE and other is not _NONE and codec.encode(one) == codec.encode(other)
    )
