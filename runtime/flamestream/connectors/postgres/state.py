"""The state of a PostgreSQL sink: a row a slot, a log of deliveries above them, and who may add to the log.

| table            | a row is |
|------------------|-----|
| `state`          | a slot: the fence under which it was opened last, and a last bundle |
| `state`_openings | a worker's opening of some slots that nobody has opened since; else it writes nothing |
| `state`_log      | a delivery under an opening: each of its slots' last bundle, newer than that in `state` |

A delivery adds one row to the log instead of changing a row for each of its slots, which costs as much as a
bare commit instead of three. It locks its opening's row for sharing, so who opens the slots anew waits for
it, takes the opening away, and finds all that the log has of it; whatever comes later finds no opening, and
the missing number is refused by the log's table. Openings of one sink are made one at a time. After FOLD
deliveries their writer brings the slots' rows up to date and empties its part of the log.

Keeps: a slot's last bundle is in its row or in the log of the last opening that had it (invariants 2, 3); an
older opening adds nothing (6). Does not: write users' rows (postgres/sink.py adds them to the same
statement).
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, LiteralString

import psycopg
from psycopg import adapt, errors, pq, sql

from flamestream.connectors.postgres.server import Connection
from flamestream.connectors.postgres.tables import Table
from flamestream.core.protocol.actions import Bundle
from flamestream.core.protocol.events import LastBundle
from flamestream.model.errors import Corrupt, Fenced
from flamestream.model.ids import NO_FENCE, Fence, SequenceNumber, Slot

FOLD: Final = 32
"""Deliveries in the log of an opening."""
FOLD_BYTES: Final = 8 << 20

# Another sink's name with the same hash only makes one wait for the other.
_SERIAL: Final[LiteralString] = (
    "SELECT pg_advisory_xact_lock(hashtextextended(%(job)s || '/' || %(sink)s, {oid}))"
)
_TAKE_AWAY: Final[LiteralString] = """
    DELETE FROM {openings} WHERE job = %(job)s AND sink = %(sink)s AND slots && %(slots)s::int[]
    AND (attempt, layout) <= (%(attempt)s, %(layout)s) RETURNING id"""
# A CASE without ELSE: if the row is not older than its log, t_last becomes NULL, which the table refuses;
# `_changed` says what that means. _FOLD does the same.
_FOLD_THEIRS: Final[LiteralString] = """
    WITH gone AS (DELETE FROM {log} WHERE opening = ANY (%(ids)s::bigint[]) RETURNING *), newest AS (
        SELECT DISTINCT ON (b.slot) b.*
        FROM gone g, unnest(g.slots, g.sequences, g.t_last, g.items) AS b (slot, sequence, t_last, items)
        ORDER BY b.slot, b.sequence DESC)
    UPDATE {state} s SET sequence = b.sequence, items = b.items,
        t_last = CASE WHEN s.sequence < b.sequence THEN b.t_last END
    FROM newest b WHERE s.job = %(job)s AND s.sink = %(sink)s AND s.slot = b.slot"""
_FENCE: Final[LiteralString] = """
    INSERT INTO {state} AS s (job, sink, slot, attempt, layout, sequence, t_last, items)
    SELECT %(job)s, %(sink)s, slot, %(attempt)s, %(layout)s, 0, '', ''
    FROM unnest(%(slots)s::int[]) AS slot ORDER BY slot
    ON CONFLICT (job, sink, slot) DO UPDATE SET attempt = excluded.attempt, layout = excluded.layout
    WHERE (s.attempt, s.layout) <= (excluded.attempt, excluded.layout)
    RETURNING slot, sequence, t_last, items"""
_OPENING: Final[LiteralString] = """
    INSERT INTO {openings} (job, sink, attempt, layout, slots)
    VALUES (%(job)s, %(sink)s, %(attempt)s, %(layout)s, %(slots)s) RETURNING id"""
# Without its opening `mine` is empty, `opening` is NULL, and the table refuses the statement with all its
# rows (!); `_gone` says what that means.
_DELIVER: Final[LiteralString] = """
    WITH mine AS (SELECT id FROM {openings} WHERE id = %s FOR KEY SHARE), rows AS ({insert}){history}
    INSERT INTO {log} (opening, number, slots, sequences, t_last, items)
    VALUES ((SELECT id FROM mine), %s, %s::int[], %s::bigint[], %s::bytea[], %s::bytea[])"""
_FOLD: Final[LiteralString] = """
    WITH mine AS (SELECT id FROM {openings} WHERE id = %s FOR KEY SHARE), gone AS (
        DELETE FROM {log} WHERE opening = (SELECT id FROM mine) AND number <= %s)
    UPDATE {state} s SET sequence = b.sequence, items = b.items,
        t_last = CASE WHEN s.sequence < b.sequence THEN b.t_last END
    FROM mine, unnest(%s::int[], %s::bigint[], %s::bytea[], %s::bytea[]) AS b (slot, sequence, t_last, items)
    WHERE s.job = %s AND s.sink = %s AND s.slot = b.slot"""
_HISTORY: Final[LiteralString] = """, kept AS (
        INSERT INTO {history} (slot, sequence, t_last, items)
        SELECT * FROM unnest(%s::int[], %s::bigint[], %s::bytea[], %s::bytea[]))"""
_HELD: Final[LiteralString] = """
    SELECT slot, attempt, layout, sequence FROM {state}
    WHERE job = %(job)s AND sink = %(sink)s AND slot = ANY (%(slots)s::int[])"""


class Memory:
    """A worker's slots of one sink, in one session. Calls raise errors of psycopg, Fenced or Corrupt."""

    def __init__(
        self,
        connection: Connection,
        where: str,
        tables: Mapping[str, Table],
        whose: tuple[str, str],
        fence: Fence,
    ) -> None:
        """`tables`: state, openings and log; `whose`: job and sink."""
        connection.adapters.register_dumper(_Blobs, _BlobsDumper)
        self._connection, self._where, self._whose, self._fence = connection, where, whose, fence
        self._tables = tables
        self._slots: list[int] = []
        self._opening = 0
        self._number = 0
        self._size = 0
        self._lasts: dict[Slot, Bundle] = {}
        """Last bundles of the log."""
        self._statement = b""
        self._fold = self._bytes(_FOLD)
        self._keeps = False

    def open(self, slots: Iterable[Slot]) -> dict[Slot, LastBundle]:
        """Fences the slots; the last bundle of each that has one. Raises Fenced if a newer fence has one of
        them."""
        self._slots = sorted(slots)
        with self._connection.transaction():
            # (!) One opening of a sink at a time, whatever slots they share.
            self._run(_SERIAL, oid=self._tables["state"].oid)
            # Before the log is read (!): who is delivering holds the row of its opening, so this waits for
            # it; who delivers later finds none.
            taken = [opening for (opening,) in self._run(_TAKE_AWAY).fetchall()]
            self._fold_theirs(taken)
            found = self._run(_FENCE).fetchall()
            # A slot under a newer fence is not updated, so it is not returned.
            if len(found) < len(self._slots):
                # It ends the transaction as well, so whoever lost an opening to it has that again.
                raise Fenced(f"{self._where}: {self.held()}")
            ((self._opening,),) = self._run(_OPENING).fetchall()
        return {
            Slot(slot): LastBundle(SequenceNumber(sequence), t_last, items)
            for slot, sequence, t_last, items in found
            if sequence
        }

    def with_rows(self, insert: sql.Composable, history: Table | None) -> None:
        """The statement of a delivery: `insert` takes the rows from its own values."""
        kept = sql.SQL(_HISTORY).format(history=history.sql) if history is not None else sql.SQL("")
        self._keeps = history is not None
        self._statement = self._bytes(_DELIVER, insert=insert, history=kept)

    def add(self, rows: Sequence[str], fresh: Sequence[Bundle]) -> None:
        """Commit `rows` (the values of `insert`) and bundles that are new, together."""
        # Tried again, a delivery finds all folded already that was there.
        if self._lasts and (self._number % FOLD == 0 or self._size > FOLD_BYTES):
            self._fold_ours()
        last = {bundle.slot: bundle for bundle in fresh}
        history = _arrays(fresh) if self._keeps else ()
        log = _arrays(list(last.values()))
        try:
            self._connection.execute(
                self._statement, (self._opening, *rows, *history, self._number + 1, *log)
            )
        except errors.NotNullViolation as error:
            raise self._gone(error, "log", "opening") from None
        self._number += 1
        self._size += len(log[-1])
        self._lasts |= last

    def held(self) -> str:
        """Who has the slots, for messages. Raises Corrupt if the reason is not a newer fence."""
        found = self._run(_HELD).fetchall()
        newest = max((Fence(attempt, layout) for _, attempt, layout, _ in found), default=NO_FENCE)
        if newest <= self._fence:
            raise Corrupt(
                f"{self._where}: table {self._tables['state'].name} or one beside it was changed by somebody "
                f"else: it has {found} of slots "
                f"{self._slots} under {self._fence}; they belong to FlameStream alone"
            )
        return (
            f"attempt {newest.attempt} (layout {newest.layout}) has taken over from {self._fence.attempt} "
            f"({self._fence.layout})"
        )

    # --- folding --------------------------------------------------------------------------------------------

    def _fold_theirs(self, openings: Sequence[int]) -> None:
        try:
            if openings:
                self._run(_FOLD_THEIRS, ids=list(openings))
        except errors.NotNullViolation as error:
            raise self._changed(error) from None

    def _fold_ours(self) -> None:
        try:
            values = (self._opening, self._number, *_arrays(list(self._lasts.values())), *self._whose)
            done = self._connection.execute(self._fold, values).rowcount
        except errors.NotNullViolation as error:
            raise self._changed(error) from None
        if done != len(self._lasts):
            raise Fenced(f"{self._where}: {self.held()}")
        self._lasts, self._size = {}, 0

    def _gone(self, error: psycopg.Error, table: str, column: str) -> Exception:
        ours = self._tables[table].name.rpartition(".")[2].strip('"')
        if (error.diag.table_name, error.diag.column_name) != (ours, column):
            return error
        return Fenced(f"{self._where}: {self.held()}")

    def _changed(self, error: psycopg.Error) -> Corrupt:
        name = self._tables["state"].name
        return Corrupt(
            f"{self._where}: table {name} has rows newer than its log ({error.diag.message_detail}); it "
            "belongs to FlameStream alone"
        )

    # --- statements -----------------------------------------------------------------------------------------

    def _run(self, statement: LiteralString, **more: Any) -> "psycopg.Cursor[tuple[Any, ...]]":
        job, sink = self._whose
        named = {
            "job": job,
            "sink": sink,
            "slots": self._slots,
            "attempt": self._fence.attempt,
            "layout": self._fence.layout,
        } | more
        query = sql.SQL(statement).format(oid=sql.Literal(more.get("oid", 0)), **self._names())
        return self._connection.execute(query, named, binary=True)

    def _bytes(self, statement: LiteralString, **parts: sql.Composable) -> bytes:
        """Made once: psycopg composes a statement anew at each call."""
        return sql.SQL(statement).format(**self._names(), **parts).as_bytes(self._connection)

    def _names(self) -> dict[str, sql.Composable]:
        return {name: table.sql for name, table in self._tables.items()}


class _Blobs(bytes):
    """bytea[] in the server's binary form: nothing is written as digits and read again."""


class _BlobsDumper(adapt.Dumper):
    format = pq.Format.BINARY
    # bytea[] in the server's catalogue, as _BYTEA is bytea: such numbers are the same in every version.
    oid = 1001

    def dump(self, obj: bytes) -> bytes:
        return obj


_BYTEA: Final = 17
_HEAD: Final = struct.Struct(">5i").pack
_pack: Final = struct.Struct(">i").pack
_SIZES: Final = [_pack(size) for size in range(2048)]
"""Most bundles are shorter, and a list is quicker than packing."""


def _blobs(values: Sequence[bytes]) -> _Blobs:
    sizes = (
        map(_SIZES.__getitem__, map(len, values))
        if max(map(len, values)) < len(_SIZES)
        else [_pack(len(value)) for value in values]
    )
    # The server's binary form: dimensions, whether there are NULLs, type, length, first index; then each
    # element behind its length.
    return _Blobs(
        _HEAD(1, 0, _BYTEA, len(values), 1) + b"".join(chain.from_iterable(zip(sizes, values, strict=True)))
    )


def _arrays(bundles: Sequence[Bundle]) -> tuple[str, str, _Blobs, _Blobs]:
    """An array for each part."""
    return (
        _numbers(bundle.slot for bundle in bundles),
        _numbers(bundle.sequence for bundle in bundles),
        _blobs([bundle.t_last for bundle in bundles]),
        _blobs([bundle.items for bundle in bundles]),
    )


def _numbers(values: Iterable[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"
