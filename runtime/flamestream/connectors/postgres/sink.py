"""A sink that is a table of PostgreSQL: a delivery's rows and its slots' last bundles in one statement, so in
one commit.

The statement inserts (or replaces) the rows and adds the last bundles to a log of ours (postgres/state.py),
which takes them only while nobody has opened the slots anew: so a zombie's statement changes nothing at all.
One round trip, one commit, whatever the number of rows and slots.

Whoever waits for a lock of an older attempt's session (its process stands still in the middle of sending)
ends that session.

After a lost connection the slots are opened again: what the lost answer was about is there entirely or not at
all.

Keeps: rows and last bundle are committed together (invariants 2, 3); an older fence changes nothing (6); a
sink that has less than it had acknowledged is an error. Does not: create the user's table.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

import psycopg
from psycopg import errors, sql

from flamestream.connectors.kit.item_columns import Row, RowMaker
from flamestream.connectors.kit.ledger import Ledger
from flamestream.connectors.postgres import sink_table as postgres_table
from flamestream.connectors.postgres.columns import Columns
from flamestream.connectors.postgres.server import Connection, Server, told
from flamestream.connectors.postgres.state import Memory
from flamestream.connectors.postgres.tables import Table
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.protocol.events import LastBundle
from flamestream.model.errors import Fenced, UserError
from flamestream.model.ids import NO_FENCE, Attempt, Fence, LayoutVersion, SinkName, Slot
from flamestream.model.quoted import quoted

_PLAN_CACHE_MODE: Final = 120_000
"""The server that has it first."""
_SESSIONS: Final[LiteralString] = """
    SELECT pid, application_name FROM pg_stat_activity
    WHERE starts_with(application_name, %s) AND usename = current_user AND pid <> pg_backend_pid()"""


@dataclass(frozen=True, slots=True)
class PostgresPlace:
    """The tables that a sink writes. Names are as in the catalogue (case matters), perhaps with their
    schema."""

    table: str
    columns: Mapping[str, str]
    key: Sequence[str]
    state: str
    history: str | None


class PostgresWriting:
    """`blocking.Blocking`: one connection under one fence."""

    def __init__(self, server: Server, place: PostgresPlace, job: str, sink: SinkName) -> None:
        self._server, self._place = server, place
        self._whose = (job, sink)
        self._mark = _mark(job, sink)
        self._rows = RowMaker(place.columns, place.key, sink)
        self._fence: Fence = NO_FENCE
        self._slots: list[Slot] = []
        self._ledger = Ledger()
        self._memory: Memory | None = None
        self._columns: Columns | None = None
        self._insert = b""

    def open(self, action: OpenSink) -> dict[Slot, LastBundle]:
        self._fence, self._slots = action.fence, sorted(action.slots)
        job, sink = self._whose
        application = f"{self._mark}{action.fence.attempt}.{action.fence.layout} {job}/{sink}"
        self._server.application = application[:63]
        self._server.hang_up()  # the name of the session says which attempt it is of
        self._ledger = Ledger()
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

    def close(self) -> None:
        self._server.hang_up()

    # --- opening --------------------------------------------------------------------------------------------

    def _connected(self) -> Connection:
        """The connection; over a new one the tables are checked and the slots opened again."""
        return self._server.connection(self._opened)

    def _opened(self, connection: Connection) -> None:
        place = self._place
        # an opening must see what it waited for, whatever the default
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        if connection.info.server_version >= _PLAN_CACHE_MODE:
            # statements never change: to plan each anew costs a third
            connection.execute("SET plan_cache_mode = force_generic_plan")
        table = postgres_table.target(connection, place.table, list(place.columns), place.key)
        history = postgres_table.ensure_history(connection, place.history) if place.history else None
        tables = postgres_table.ensure_state(connection, place.state)
        columns = self._columns = Columns([table.base[name] for name in place.columns])
        insert = _insert(table, place, columns)
        self._insert = insert.as_bytes(connection)
        memory = self._memory = Memory(connection, self._server.where, tables, self._whose, self._fence)
        memory.with_rows(insert, history)
        try:
            last = memory.open(self._slots)
        # (!) A process that stands still in the middle of a statement holds its rows for ever.
        except errors.LockNotAvailable:
            self._end_older_sessions(connection)
            raise
        self._ledger = self._ledger.reopened(last, f"{self._server.where}: table {place.state}")

    def _end_older_sessions(self, connection: Connection) -> None:
        for pid, name in connection.execute(_SESSIONS, (self._mark,)).fetchall():
            attempt, _, layout = name.removeprefix(self._mark).partition(" ")[0].partition(".")
            if Fence(Attempt(int(attempt)), LayoutVersion(int(layout))) < self._fence:
                connection.execute("SELECT pg_terminate_backend(%s)", (pid,))

    # --- writing --------------------------------------------------------------------------------------------

    def _write(self, connection: Connection, fresh: Sequence[Bundle]) -> None:
        rows = self._rows.rows(fresh)
        assert self._memory is not None and self._columns is not None, "a connection is opened first"
        values = self._columns.values(rows)
        with self._server.translated():
            try:
                self._memory.add(values, fresh)
            except (psycopg.DataError, psycopg.IntegrityError) as error:
                raise self._refused(connection, rows, error) from None

    def _refused(self, connection: Connection, rows: Sequence[Row], error: psycopg.Error) -> UserError:
        """Names the first row that the table does not take: found by halves, in a transaction that is rolled
        back."""
        good, bad = 0, len(rows)
        assert self._columns is not None, "a connection is opened first"
        with connection.transaction(force_rollback=True):
            while good + 1 < bad:
                middle = (good + bad) // 2
                try:
                    with connection.transaction():
                        connection.execute(self._insert, self._columns.values(rows[good:middle]))
                    # These stay for the next tries, so that a row which collides with another of them is
                    # found as well.
                    good = middle
                except (psycopg.DataError, psycopg.IntegrityError):
                    bad = middle
        row = dict(zip(self._place.columns, rows[good], strict=True))
        return UserError(
            f"{self._server.where}: table {self._place.table} does not take the row "
            f"{quoted(f'{row!r:.500}')}: {told(error)}"
        )


def _insert(table: Table, place: PostgresPlace, given: Columns) -> sql.Composable:
    columns = list(place.columns)
    insert = sql.SQL("INSERT INTO {table} ({columns}) {rows}").format(
        table=table.sql, columns=_names(columns), rows=given.select()
    )
    if not place.key:
        return insert
    others = [name for name in columns if name not in place.key]
    changes = sql.SQL(", ").join(
        sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in others
    )
    action = sql.SQL("DO UPDATE SET {}").format(changes) if others else sql.SQL("DO NOTHING")
    return insert + sql.SQL(" ON CONFLICT ({}) {}").format(_names(place.key), action)


def _names(columns: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))


def _mark(job: str, sink: str) -> str:
    """The beginning of the names of this sink's sessions."""
    # A hash: the server cuts a session's name off at 63 bytes, and the fence behind this must be in it.
    return f"flamestream {hashlib.blake2b(f'{job}/{sink}'.encode(), digest_size=6).hexdigest()} "
