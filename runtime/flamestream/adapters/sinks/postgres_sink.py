"""A sink that is a table of PostgreSQL: a delivery's rows and its slots' last bundles in one statement, so in one commit.

The statement inserts (or replaces) the rows and updates our row of each slot. The update sets `t_last` to NULL, which the table forbids,
unless the slot is open under this fence and its last sequence is the one before: so a zombie's statement, or a second one after a lost
answer, changes nothing at all. One round trip, one commit, whatever the number of rows and slots.

Opening sets the fence in the rows of its slots, unless one is newer there. Whoever waits for a lock of an older attempt's session (its
process stands still in the middle of sending) ends that session.

After a lost connection the slots are read again: what the lost answer was about is there entirely or not at all.

Keeps: rows and last bundle are committed together (invariants 2, 3); an older fence changes nothing (6); a sink that has less than it had
acknowledged is an error. Does not: create the user's table.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg import errors, sql

from flamestream.adapters.postgres import Connection, Server, told
from flamestream.adapters.postgres_tables import Table
from flamestream.adapters.sinks import postgres_table
from flamestream.adapters.sinks.ledger import Ledger
from flamestream.adapters.sinks.postgres_rows import Row, RowMaker, encoded
from flamestream.core.actions import Bundle, Deliver, OpenSink
from flamestream.core.events import LastBundle
from flamestream.model.errors import Corrupt, Fenced, UserError
from flamestream.model.ids import NO_FENCE, Attempt, Fence, LayoutVersion, SequenceNumber, SinkName, Slot

_OPEN: Final[LiteralString] = """
    INSERT INTO {state} AS s (job, sink, slot, attempt, layout, sequence, t_last, items)
    SELECT %(job)s, %(sink)s, slot, %(attempt)s, %(layout)s, 0, '', '' FROM unnest(%(slots)s::int[]) AS slot ORDER BY slot
    ON CONFLICT (job, sink, slot) DO UPDATE SET attempt = excluded.attempt, layout = excluded.layout
    WHERE (s.attempt, s.layout) <= (excluded.attempt, excluded.layout)
    RETURNING slot, sequence, t_last, items"""
_DELIVER: Final[LiteralString] = """
    WITH rows AS ({insert}), taken AS (
        UPDATE {state} s SET sequence = b.sequence, items = b.items,
            t_last = CASE WHEN (s.attempt, s.layout, s.sequence) = (%(attempt)s, %(layout)s, b.before) THEN b.t_last END
        FROM unnest(%(slots)t::int[], %(before)t::bigint[], %(sequences)t::bigint[], %(t_last)t::bytea[], %(items)t::bytea[])
            AS b (slot, before, sequence, t_last, items)
        WHERE s.job = %(job)s AND s.sink = %(sink)s AND s.slot = b.slot RETURNING 1){history}
    SELECT count(*) FROM taken"""
_ROWS: Final[LiteralString] = "INSERT INTO {table} ({columns}) SELECT * FROM json_to_recordset(%(rows)s::json) AS r ({types})"
_HISTORY: Final[LiteralString] = """, kept AS (
        INSERT INTO {history} (slot, sequence, t_last, items)
        SELECT * FROM unnest(%(all_slots)t::int[], %(all_sequences)t::bigint[], %(all_t_last)t::bytea[], %(all_items)t::bytea[]))"""
_HELD: Final[LiteralString] = """
    SELECT slot, attempt, layout, sequence FROM {state} WHERE job = %(job)s AND sink = %(sink)s AND slot = ANY (%(slots)s::int[])"""
_SESSIONS: Final[LiteralString] = """
    SELECT pid, application_name FROM pg_stat_activity
    WHERE starts_with(application_name, %s) AND usename = current_user AND pid <> pg_backend_pid()"""


@dataclass(frozen=True, slots=True)
class PostgresPlace:
    """Where a sink's rows go. Names are as in the catalogue (case matters), perhaps with their schema."""

    table: str
    columns: Mapping[str, str]
    key: Sequence[str]
    state: str
    history: str | None


class PostgresWriting:
    """`blocking.Writing`: one connection under one fence."""

    def __init__(self, server: Server, place: PostgresPlace, job: str, sink: SinkName) -> None:
        self._server, self._place = server, place
        self._job, self._sink = job, sink
        self._mark = _mark(job, sink)
        self._rows = RowMaker(place.columns, place.key, sink)
        self._fence: Fence = NO_FENCE
        self._slots: list[int] = []
        self._ledger = Ledger()
        self._acknowledged: dict[Slot, SequenceNumber] = {}
        self._state: Table | None = None
        self._insert = self._deliver = sql.SQL("").format()

    # --- blocking.Writing -----------------------------------------------------------------------------------------------------------

    def open(self, action: OpenSink) -> dict[Slot, LastBundle]:
        self._fence, self._slots = action.fence, sorted(action.slots)
        self._server.application = f"{self._mark}{action.fence.attempt}.{action.fence.layout} {self._job}/{self._sink}"[:63]
        self._server.hang_up()  # the name of the session says which attempt it is of
        self._acknowledged = {}
        self._connected()
        return self._ledger.last(action.slots)

    def deliver(self, action: Deliver) -> None:
        if action.fence != self._fence:
            raise Fenced(f"delivery {action.number} is of {action.fence}, the connection of {self._fence}")
        connection = self._connected()
        fresh = self._ledger.check(action.bundles)
        if fresh:
            self._write(connection, fresh)
            self._ledger.take(fresh)
        self._acknowledged.update((bundle.slot, bundle.sequence) for bundle in action.bundles)

    def close(self) -> None:
        self._server.hang_up()

    # --- opening --------------------------------------------------------------------------------------------------------------------

    def _connected(self) -> Connection:
        """The connection; over a new one the tables are checked and the slots opened again."""
        return self._server.connection(self._opened)

    def _opened(self, connection: Connection) -> None:
        place = self._place
        table = postgres_table.target(connection, place.table, list(place.columns), place.key)
        history = postgres_table.ensure_history(connection, place.history) if place.history else None
        self._state = postgres_table.ensure_state(connection, place.state)
        self._insert = _insert(table, place)
        self._deliver = _deliver(self._insert, self._state, history)
        self._ledger = Ledger(self._open_slots(connection))
        now = self._ledger.last(self._acknowledged)
        for slot, sequence in self._acknowledged.items():
            had = now[slot].sequence if slot in now else 0
            if had < sequence:
                raise Corrupt(
                    f"{self._server.where}: table {place.state} has lost data: it had bundle {sequence} of slot {slot} and now has {had}"
                )

    def _open_slots(self, connection: Connection) -> dict[Slot, LastBundle]:
        try:
            found = connection.execute(self._of_state(_OPEN), self._named(slots=self._slots), binary=True).fetchall()
        except errors.LockNotAvailable:
            self._end_older_sessions(connection)
            raise
        if len(found) < len(self._slots):
            raise Fenced(f"{self._server.where}: {self._held(connection)}")
        return {Slot(slot): LastBundle(SequenceNumber(sequence), t_last, items) for slot, sequence, t_last, items in found if sequence}

    def _end_older_sessions(self, connection: Connection) -> None:
        for pid, name in connection.execute(_SESSIONS, (self._mark,)).fetchall():
            attempt, _, layout = name.removeprefix(self._mark).partition(" ")[0].partition(".")
            if Fence(Attempt(int(attempt)), LayoutVersion(int(layout))) < self._fence:
                connection.execute("SELECT pg_terminate_backend(%s)", (pid,))

    def _held(self, connection: Connection) -> str:
        """Who has the slots, for messages. Raises Corrupt if the reason is not a newer fence."""
        found = connection.execute(self._of_state(_HELD), self._named(slots=self._slots)).fetchall()
        newest = max((Fence(attempt, layout) for _, attempt, layout, _ in found), default=NO_FENCE)
        if newest <= self._fence:
            raise Corrupt(
                f"{self._server.where}: table {self._place.state} was changed by somebody else: it has {found} of slots {self._slots} "
                f"under {self._fence}; it belongs to FlameStream alone"
            )
        return f"attempt {newest.attempt} (layout {newest.layout}) has taken over from {self._fence.attempt} ({self._fence.layout})"

    # --- writing --------------------------------------------------------------------------------------------------------------------

    def _write(self, connection: Connection, fresh: Sequence[Bundle]) -> None:
        rows = self._rows.rows(fresh)
        with self._server.translated():
            try:
                taken = connection.execute(self._deliver, self._values(rows, fresh), binary=True).fetchone()
            except errors.NotNullViolation as error:
                if error.diag.column_name == "t_last" and error.diag.table_name == self._place.state.rpartition(".")[2]:
                    raise Fenced(f"{self._server.where}: {self._held(connection)}") from None
                raise self._refused(connection, rows, error) from None
            except (psycopg.DataError, psycopg.IntegrityError) as error:
                raise self._refused(connection, rows, error) from None
        wanted = len({bundle.slot for bundle in fresh})
        if taken != (wanted,):
            raise Corrupt(
                f"{self._server.where}: {wanted} slots were to be noted in table {self._place.state}, {taken} are there: rows were deleted"
            )

    def _refused(self, connection: Connection, rows: Sequence[Row], error: psycopg.Error) -> UserError:
        """Names the first row that the table does not take: found by halves, in a transaction that is rolled back."""
        good, bad = 0, len(rows)
        with connection.transaction(force_rollback=True):
            while good + 1 < bad:
                middle = (good + bad) // 2
                try:
                    with connection.transaction():
                        connection.execute(self._insert, {"rows": encoded(rows[good:middle]).decode()})
                    good = middle
                except (psycopg.DataError, psycopg.IntegrityError):
                    bad = middle
        row = dict(zip(self._place.columns, rows[good].values(), strict=True))
        return UserError(f"{self._server.where}: table {self._place.table} does not take the row {row!r:.500}: {told(error)}")

    def _values(self, rows: Sequence[Row], fresh: Sequence[Bundle]) -> dict[str, Any]:
        first: dict[Slot, int] = {}
        last: dict[Slot, Bundle] = {}
        for bundle in fresh:
            first.setdefault(bundle.slot, bundle.sequence - 1)
            last[bundle.slot] = bundle
        values = self._named(rows=encoded(rows).decode(), before=_numbers(first.values()), **_arrays("", list(last.values())))
        return values | _arrays("all_", fresh) if self._place.history else values

    def _named(self, **more: Any) -> dict[str, Any]:
        return {"job": self._job, "sink": self._sink, "attempt": self._fence.attempt, "layout": self._fence.layout, **more}

    def _of_state(self, statement: LiteralString) -> sql.Composed:
        assert self._state is not None, "a connection is opened first"
        return sql.SQL(statement).format(state=self._state.sql)


def _insert(table: Table, place: PostgresPlace) -> sql.Composed:
    columns = list(place.columns)
    types = [sql.SQL("{} {}").format(sql.Identifier(f"c{number}"), sql.SQL(table.types[name])) for number, name in enumerate(columns)]
    insert = sql.SQL(_ROWS).format(table=table.sql, columns=_names(columns), types=sql.SQL(", ").join(types))
    if not place.key:
        return insert
    others = [name for name in columns if name not in place.key]
    changes = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others)
    action = sql.SQL("DO UPDATE SET {}").format(changes) if others else sql.SQL("DO NOTHING")
    return insert + sql.SQL(" ON CONFLICT ({}) {}").format(_names(place.key), action)


def _deliver(insert: sql.Composed, state: Table, history: Table | None) -> sql.Composed:
    kept = sql.SQL(_HISTORY).format(history=history.sql) if history is not None else sql.SQL("")
    return sql.SQL(_DELIVER).format(insert=insert, state=state.sql, history=kept)


def _names(columns: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))


def _mark(job: str, sink: str) -> str:
    """How the names of this sink's sessions begin."""
    return f"flamestream {hashlib.blake2b(f'{job}/{sink}'.encode(), digest_size=6).hexdigest()} "


def _arrays(prefix: str, bundles: Sequence[Bundle]) -> dict[str, str]:
    """A text array for each part: half the time that psycopg takes for lists."""
    return {
        f"{prefix}slots": _numbers(bundle.slot for bundle in bundles),
        f"{prefix}sequences": _numbers(bundle.sequence for bundle in bundles),
        f"{prefix}t_last": _bytes(bundle.t_last for bundle in bundles),
        f"{prefix}items": _bytes(bundle.items for bundle in bundles),
    }


def _numbers(values: Iterable[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def _bytes(values: Iterable[bytes]) -> str:
    return "{" + ",".join([f'"\\\\x{value.hex()}"' for value in values]) + "}"
