"""Kept state: what a batch leaves for the next, as segments of a snapshot in the job's store.

The files are those of the streaming runner (store/segment.py), so either runner goes on from the other's
state. A task reads the states of the keys that it meets, not those of all keys: segments are immutable, so
each Python process keeps the tables that it has decoded, and they are sorted, so a single key is found by halving.

Keeps: only segments that the committed index names, with the size and checksum that it says. Does not:
commit (commit.py).
"""

import secrets
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from flamestream.core.protocol.chain import Chain, Row, chains_of, incomplete
from flamestream.core.protocol.snapshot import SegmentRef
from flamestream.core.protocol.stored_rows import Known, Numbers, states_of
from flamestream.model.decoding import from_json
from flamestream.model.ids import Attempt, Epoch, Fence, LayoutVersion, Slot
from flamestream.ports import ObjectStore
from flamestream.store.object_names import plain
from flamestream.store.places import store_from
from flamestream.store.segment import chains_in, merged, of_operations, part_of, table_of
from flamestream.store.snapshots import put_segment, segment_name, segment_table

CACHED_BYTES: Final = 512 << 20
MERGE_ABOVE: Final = 8
"""Segments of one partition; more are merged into one."""
MERGE_BYTES: Final = 256 << 20


@lru_cache(maxsize=4)
def store_at(url: str) -> ObjectStore:
    """The store's client, one a process."""
    return store_from(url, create=True)


@dataclass(frozen=True, slots=True)
class StatePlace:
    """The state at a committed epoch. Picklable."""

    store: str
    segments: tuple[SegmentRef, ...]
    numbers: Numbers
    known: Known
    """The operations that it is of, by vertex."""

    def of_slots(self, slots: Sequence[int]) -> list[SegmentRef]:
        """The segments with any of these slots."""
        wanted = set(slots)
        return [ref for ref in self.segments if not wanted.isdisjoint(ref.slots)]


class EarlierState:
    """The states that the keys of a task had before this batch."""

    def __init__(self, place: StatePlace, slots: Sequence[int]) -> None:
        self.slots = slots
        self.known = place.known
        self._tables = [_table(place.store, ref) for ref in place.of_slots(slots)]
        self._found: dict[tuple[int, bytes], Chain] = {}
        """Chains, by vertex and key."""

    def prepare(self, keys: Iterable[bytes]) -> None:
        """Look these keys up at once."""
        wanted = pa.array(list(dict.fromkeys(keys)), pa.binary())
        rows: list[Row] = []
        for table in self._tables:
            rows += _rows(table.filter(pc.is_in(table["key"], value_set=wanted)))
        # What was found before may go: a key that goes on from the batch before was restored at its
        # beginning.
        states = states_of(chains_of(rows), self.known)
        self._found = {(vertex, chain.key): chain for vertex, its in states.items() for chain in its}

    def of(self, vertex: int, key: bytes) -> Chain | None:
        """The key's chain, None if it has no state. Raises Corrupt if its beginning is missing."""
        chain = self._found.get((vertex, key))
        if chain is not None and not chain.full:
            raise incomplete(chain)
        return chain

    def part(self, vertex: int, slot: int) -> "StatePart":
        """All that one operation has in one slot."""
        operation, found = self.known.operations.get(vertex), []
        if operation is not None:
            numbers = [number for number in (operation.number, operation.place) if number is not None]
            found = [_span(table, number, slot) for table in self._tables for number in numbers]
        return StatePart(vertex, self.known, [each for each in found if each.num_rows])


class StatePart:
    """The states of one operation in one slot, to be sought by their keys."""

    def __init__(self, vertex: int, known: Known, tables: Sequence[Any]) -> None:
        self._vertex, self._known, self._tables = vertex, known, tables

    def of(self, key: bytes) -> Chain | None:
        """The key's chain, None if it has no state. Raises Corrupt if its beginning is missing."""
        rows: list[Row] = []
        for table in self._tables:
            keys = table["key"]
            first = _place(keys, key)
            behind = first
            while behind < len(keys) and keys[behind].as_py() == key:
                behind += 1
            if behind > first:
                rows += _rows(table.slice(first, behind - first))
        found = self._chains(chains_of(rows)) if rows else []
        return found[0] if found else None

    def every(self) -> list[Chain]:
        """The chains of all keys. Raises Corrupt if the beginning of one is missing."""
        return self._chains(chains_in([part_of(table) for table in self._tables]))

    def _chains(self, chains: Iterable[Chain]) -> list[Chain]:
        found = states_of(chains, self._known).get(self._vertex, [])
        for chain in found:
            if not chain.full:
                raise incomplete(chain)
        return found


def _span(table: Any, operation: int, slot: int) -> Any:
    """The rows of an operation in a slot: they stand together, by their keys."""
    for name, value in (("operation", operation), ("slot", slot)):
        column = table[name]
        first = _place(column, value)
        table = table.slice(first, _place(column, value + 1) - first)
    return table


def _place(column: Any, value: Any) -> int:
    """The first row that is not below the value, in a sorted column."""
    return bisect_left(range(len(column)), value, key=lambda place: column[place].as_py())


def _rows(table: Any) -> Iterator[Row]:
    return map(Row, *(column.to_pylist() for column in table.columns))


class StateWriter:
    """The new states of one partition's slots."""

    def __init__(self, place: StatePlace, job: str, epoch: int, attempt: int, partition: int) -> None:
        self._place, self._job = place, job
        self._epoch, self._fence = Epoch(epoch), Fence(Attempt(attempt), LayoutVersion(1))
        self._writer = f"batch-{partition}"
        self._rows: list[Row] = []

    def put(self, vertex: int, slot: int, key: bytes, state: bytes) -> None:
        """The new state of a key, in the form that a row has it."""
        operation = self._place.numbers.of_states[vertex]
        self._rows.append(Row(operation, Slot(slot), key, self._epoch, state[:1] == b"\x01", state[1:]))

    def end(self, slots: Sequence[int]) -> tuple[list[SegmentRef], list[str]]:
        """Durable segments, and the names of those that they replace."""
        if not self._rows:
            return [], []
        table = table_of(self._rows)
        mine = set(slots)
        # Of this partition alone: what is replaced goes, with all rows that others have in it (!).
        old = [ref for ref in self._place.segments if mine.issuperset(ref.slots)]
        merge = old if len(old) >= MERGE_ABOVE and sum(ref.size for ref in old) <= MERGE_BYTES else []
        if merge:
            store = store_at(self._place.store)
            kept = self._place.numbers.kept
            table = merged([*(of_operations(segment_table(store, ref), kept) for ref in merge), table])
        return [self._put_segment(table)], [ref.name for ref in merge]

    def of_requests(self, rows: Sequence[Row]) -> list[SegmentRef]:
        """A durable segment of its own for requests of calls, each by its vertex, if there are any."""
        return [self._put_segment(table_of(self._place.numbers.rows_of_sinks(rows)))] if rows else []

    def _put_segment(self, table: Any) -> SegmentRef:
        name = segment_name(
            f"{plain(self._job)}/segments", self._epoch, self._fence, self._writer, secrets.token_hex(4)
        )
        return put_segment(store_at(self._place.store), name, table)


def encoded_ref(ref: SegmentRef) -> bytes:
    """For a line of a report."""
    return msgspec.json.encode(ref)


def decoded_ref(data: bytes) -> SegmentRef:
    return from_json(data, SegmentRef)


_tables: "OrderedDict[str, Any]" = OrderedDict()


def _table(store: str, ref: SegmentRef) -> Any:
    # By content, so that it is right for any store; taken out and put back, so that the oldest use is first.
    found = _tables.pop(ref.checksum, None)
    if found is None:
        found = segment_table(store_at(store), ref)
    _tables[ref.checksum] = found
    while sum(table.nbytes for table in _tables.values()) > CACHED_BYTES and len(_tables) > 1:
        _tables.popitem(last=False)
    return found
