"""Transactions in a batch: the one operation that decides them, with the rows of its tables as a snapshot has each.

A task has all transactions of a batch in their order, so each is decided once, by the rows as those before it have
left them. Of the rows that there were it reads those that are asked for; of the rows that it has changed it leaves
the new states.

Keeps: every decision is that of the fold over all rows (model/tables/ledger.py); rows are stored as a stream stores
them, so either goes on from the other. An index that is new has all rows, also where no transaction comes. Does not:
decide anything anew.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from flamestream.core.dataflow import user_code
from flamestream.core.dataflow.accumulators import to_store
from flamestream.core.dataflow.stored import Reading
from flamestream.core.dataflow.tables.transactions import missing, parted
from flamestream.core.protocol.chain import DELETED, Chain, is_deleted
from flamestream.model import payload as codec
from flamestream.model.meta import Meta
from flamestream.model.payload import ErrorValue
from flamestream.model.slot import slot_of
from flamestream.model.tables.index import IndexRows
from flamestream.model.tables.ledger import ALL, Deciding
from flamestream.model.vertex import Vertex
from flamestream.spark.frames.kept_state import EarlierState, StatePart
from flamestream.spark.frames.rows import CHANGE, FULL, OutRow, state_row
from flamestream.spark.frames.walk import Walk

_NONE: Final = object()
"""Stands for the value of a row that nobody has written, or the last one who did has deleted."""


class Row:
    """A row of a table, before the batch and now, with the sizes of what is stored of it."""

    __slots__ = ("before", "changes", "full", "now")

    def __init__(self, value: Any = _NONE, full: int = 0, changes: int = 0) -> None:
        self.before = self.now = value
        self.full, self.changes = full, changes

    def put(self, value: Any) -> None:
        """It is that now. What it was already is no change."""
        if self.now is _NONE or codec.encode(value) != codec.encode(self.now):
            self.now = value

    def stored(self) -> bytes | None:
        """As a row of a snapshot has it; None if nothing is to be written."""
        if self.now is self.before:
            return None
        if self.now is _NONE:
            return FULL + DELETED
        whole, state = to_store(self.before, self.now, self.full, self.changes)
        return (FULL if whole else CHANGE) + state


class Transacting:
    """The vertex at which a graph's transactions are decided. It has one key."""

    def __init__(self, vertex: Vertex, walk: Walk, debug: bool, earlier: EarlierState | None) -> None:
        assert isinstance(vertex.combine, Deciding)
        self.vertex, self._deciding, self._reading = vertex, vertex.combine, Reading.of(vertex)
        self._decide = user_code.decided(vertex, debug)
        self._forward, self._fail = walk.forward(vertex), walk.failed(vertex)
        self._slot, self._rows = slot_of(ALL, walk.slots), dict[bytes, Row]()
        self._folded: Mapping[Any, Any] = {}
        """Rows that a history has left as one: earlier releases wrote them so. Those by themselves are newer."""
        self._part: StatePart | None = None
        if earlier is not None and self._slot in earlier.slots:
            self._part = earlier.part(vertex.id, self._slot)
            every = self._part.of(ALL)
            if every is not None:
                self._folded = self._reading.accumulator(every.states).rows
            fresh = earlier.known.fresh_tables(vertex.id) if vertex.id in earlier.known.operations else ()
            self._index(missing(self._deciding.indexes, fresh, was_folded=every is not None))

    def begin(self, slot: int, key: bytes, earlier: EarlierState | None) -> None:
        """Nothing is of one key alone."""

    def take(self, meta: Meta, payload: Any) -> None:
        """A transaction."""
        result, writes = self._decide(self._read, payload)
        for place, write in writes:
            self._row(codec.encode(place)).now = _NONE if write.deleted else write.after
        if type(result) is ErrorValue:
            self._fail(meta, result, False)
        else:
            self._forward(meta, result, False)

    def left(self, key: bytes) -> Iterator[OutRow]:
        """Nothing: the states are those of rows."""
        return iter(())

    def end(self) -> Iterator[OutRow]:
        """The states of all rows that are another than before."""
        for key, row in self._rows.items():
            if (state := row.stored()) is not None:
                yield state_row(self.vertex.id), self._slot, key, b"", state

    def _read(self, place: tuple[str, Any], other: Any) -> Any:
        value = self._row(codec.encode(place)).now
        return other if value is _NONE else value

    def _row(self, key: bytes) -> Row:
        if (found := self._rows.get(key)) is not None:
            return found
        return self._begun(key, None if self._part is None else self._part.of(key))

    def _begun(self, key: bytes, chain: Chain | None) -> Row:
        """The row as it was before; `chain`: what is stored of it by itself."""
        if chain is None:
            row = Row(self._folded.get(codec.decode(key), _NONE))
        elif is_deleted(chain):
            row = Row()
        else:
            full, *changes = chain.states
            row = Row(self._reading.accumulator(chain.states), len(full), sum(map(len, changes)))
        self._rows[key] = row
        return row

    def _index(self, wanted: Mapping[str, tuple[str, Any]]) -> None:
        """Have the rows of these indexes, and no others of them, made of all that there are."""
        if not wanted:
            return
        assert self._part is not None
        chains = {chain.key: chain for chain in self._part.every() if chain.key != ALL}
        keys = chains.keys() | set(map(codec.encode, self._folded))
        gone, rows = parted([(key, self._slot) for key in keys], wanted)
        made = IndexRows(wanted)
        for key in (*gone, *(key for key, _ in rows)):
            self._begun(key, chains.get(key))
        for key, _ in rows:
            if (value := self._row(key).now) is not _NONE:
                made.add(codec.decode(key), value)
        for key, its in made.take():
            gone.discard(key)
            self._row(key).put(its)
        for key in gone:
            self._row(key).now = _NONE
