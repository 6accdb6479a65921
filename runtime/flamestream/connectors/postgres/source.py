"""A source that is a table of PostgreSQL: a change log, whose rows are read in the order of a growing key.

Keys are given before their rows are committed, so a lower key may appear after a higher one was read. A key
that is missing is *open* until nobody can commit it any more:

    S1  read rows; the first missing key is m; what is below m is given, what is above has to wait
    L1  who holds the lock of a writer on the table (pg_locks)? Whoever got a key below those of S1 and has
        not ended is among them: an INSERT takes the lock before it takes its key, and lets it go after its
        rows are visible
    L2  when none of them holds it any more, every key below the highest of S1 is committed or will never be
    S2  read again, in a new snapshot: what is missing now is missing for ever (rolled back, or burnt by ON
        CONFLICT)

Keys without gaps need no look at the locks. A transaction that stays open holds up the rows above its gap,
and nothing else; `problem` says so. Needs: keys that the INSERT itself takes (identity, serial, a default or
a trigger with nextval), of a sequence that does not cache, and rows that do not change or go before an epoch
has committed what they led to. A program that fetches keys ahead breaks it.

An offset is a key. The journal has (first key, count, key behind), so a replay reads the same rows, and
notices if some are gone.

Tables change under us. One of another identity (dropped and created again, or renamed into the place of the
first) gives no rows and is an error, while this reader lives; what the keys need of their sequence is looked
at again before missing ones are passed over.

Keeps: every committed row once, in the order of keys. Does not: see updates or deletes of rows; decide when
to look (kit/producer.py).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from psycopg import sql

from flamestream.connectors.kit.credit import THE_PARTITION
from flamestream.connectors.kit.producer import MAX_RECORD, Chunk, error_item
from flamestream.connectors.postgres.server import Connection, Server
from flamestream.connectors.postgres.tables import Table, find, to_name
from flamestream.core.protocol.events import Entry
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.ids import Offset, Partition

LOOK_SHARE: Final = 20
"""Looking for new rows takes at most this part of the time."""
CHECK_SECONDS: Final = 1.0
"""Between two looks whether the table still has what was read, while nothing new comes."""
SLOW_SECONDS: Final = 1.0
"""An open key that is waited for so long is told."""
_NATIVE: Final = (
    "smallint",
    "integer",
    "bigint",
    "real",
    "double precision",
    "boolean",
    "text",
    "bytea",
    "character varying",
)
# The text of a value depends on these: the server's or the role's own would give other payloads at a replay.
_SESSION: Final = (
    "SET timezone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'iso_8601'; SET extra_float_digits = "
    "1; SET bytea_output = 'hex'"
)
# By virtual transactions and not by sessions, since one that writes without pause would be waited for in
# vain. A prepared transaction has one too, and no session.
_WRITERS: Final[LiteralString] = """
    SELECT l.virtualtransaction, l.pid, round(extract(epoch FROM now() - a.xact_start))::int
    FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND l.relation IN (
        SELECT %(oid)s::oid UNION SELECT relid FROM pg_partition_tree(%(oid)s::oid::regclass))"""
_UNIQUE: Final[LiteralString] = """
    SELECT count(*) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
    WHERE i.indrelid = %s AND a.attname = %s AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1
    AND i.indpred IS NULL"""
_SEQUENCES: Final[LiteralString] = """
    SELECT seqrelid::regclass::text, seqcache, seqincrement, seqcycle FROM pg_sequence
    WHERE (seqcache <> 1 OR seqincrement < 1 OR seqcycle)
    AND (seqrelid = pg_get_serial_sequence(%(name)s, %(key)s)::regclass OR seqrelid IN (
        SELECT d.refobjid FROM pg_attribute a
        JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
        JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid
            AND d.refclassid = 'pg_class'::regclass
        WHERE a.attrelid = %(oid)s AND a.attname = %(key)s))"""


@dataclass(frozen=True, slots=True)
class ChangeLog:
    """Which rows. With one column a record is its value, else a tuple of them."""

    table: str
    key: str
    columns: Sequence[str]
    follow: bool
    start: int
    """The least key to read."""
    idle_seconds: float


@dataclass(slots=True)
class _Open:
    """Keys below `upto` that were missing when `writers` were at work."""

    upto: int
    writers: frozenset[str]
    since: float


class PostgresReader:
    """`kit.producer.Reader`."""

    ended = False

    def __init__(self, server: Server, log: ChangeLog, source: str) -> None:
        self._server, self._log, self._source = server, log, source
        self._next = log.start
        self._open: _Open | None = None
        self._table: Table | None = None
        self._select = self._again = sql.SQL("").format()
        self._looked = 0.0
        self._mean = 64
        """Bytes of a record, about."""
        self.idle_seconds = log.idle_seconds
        self._held_up = ""

    @property
    def problem(self) -> str:
        """The transactions that hold up rows which are there; "" if none does. Called by another thread than
        the rest."""
        return self._held_up

    def seek(self, offsets: Mapping[Partition, Offset]) -> None:
        self._next = max(self._log.start, offsets.get(THE_PARTITION, Offset(0)))
        self._open, self.ended, self._held_up = None, False, ""
        with self._connected() as connection:
            self._check_that_nothing_went(connection)

    def next(self, records: int, size: int) -> Sequence[Chunk]:
        began = time.monotonic()
        with self._connected() as connection:
            # Prepared from the first time on: a column of another type is then refused, and never given (!).
            rows = connection.execute(
                self._select,
                (self._next, max(2, min(records, size // self._mean))),
                prepare=True,
                binary=True,
            ).fetchall()
            given = self._final(connection, rows)
            if not rows and began - self._looked > CHECK_SECONDS:
                self._check_that_nothing_went(connection)
        self.ended = not rows and not self._log.follow
        self.idle_seconds = max(self._log.idle_seconds, LOOK_SHARE * (time.monotonic() - began))
        return [self._chunk(given)] if given else []

    def read(self, entry: Entry) -> list[object]:
        with self._connected() as connection:
            rows = connection.execute(
                self._again, (entry.first, entry.next), prepare=True, binary=True
            ).fetchall()
        if len(rows) != entry.count:
            raise Corrupt(
                f"{self._server.where}: table {self._log.table} had {entry.count} rows with {self._log.key} "
                f"from {entry.first} to "
                f"{entry.next - 1}, and now has {len(rows)}: rows of a change log must stay until an epoch "
                "has committed what they led to. Restore them, or start the job anew with another store"
            )
        return list(map(self._payload, rows, map(_size, rows)))

    def close(self) -> None:
        """Let the connection go."""
        self._server.hang_up()

    # --- which rows are final -------------------------------------------------------------------------------

    def _final(self, connection: Connection, rows: list[Any]) -> list[Any]:
        """The rows, of these that were read from `_next` on, below which no other can appear."""
        if not rows:
            return []
        whole = 0
        while whole < len(rows) and rows[whole][0] == self._next + whole:
            whole += 1
        return (
            self._given(rows[:whole], self._next + whole)
            if whole
            else self._beyond_a_gap(connection, rows[-1][0] + 1)
        )

    def _beyond_a_gap(self, connection: Connection, seen: int) -> list[Any]:
        """`_next` is missing and rows up to `seen` are there."""
        # That gap was filled, and what waited behind it is given: what is missing now is another one.
        if self._open is not None and self._open.upto <= self._next:
            self._open = None
        # Behind the read (!): a writer that takes the lock only now gets keys above those that were seen.
        found = connection.execute(_WRITERS, {"oid": self._known.oid}).fetchall()
        writers = frozenset(writer for writer, _, _ in found)
        if self._open is None:
            self._open = _Open(seen, writers, time.monotonic())
        # L2 of the docstring: who has let go of its lock is visible in the next snapshot; later writers got
        # higher keys.
        self._open.writers &= writers
        if self._open.writers:
            self._tell(found)
            return []
        # The sequence may have been altered since the connection was opened.
        _check_sequence(connection, self._known, self._log)
        upto, self._open, self._held_up = self._open.upto, None, ""
        return self._given(
            connection.execute(self._again, (self._next, upto), prepare=True, binary=True).fetchall(), upto
        )

    def _given(self, rows: list[Any], upto: int) -> list[Any]:
        self._next = upto
        return rows

    def _tell(self, found: Sequence[Any]) -> None:
        assert self._open is not None
        waited = time.monotonic() - self._open.since
        if waited > SLOW_SECONDS:
            of = "; ".join(
                f"session {pid}, {age} s old" for writer, pid, age in found if writer in self._open.writers
            )
            self._held_up = (
                f"{self._server.where}: rows of {self._log.table} from {self._log.key} {self._next} on wait "
                f"for transactions that may still commit lower ones: {of or 'prepared transactions'}"
            )

    def _check_that_nothing_went(self, connection: Connection) -> None:
        """A table that was emptied and begins anew would otherwise be waited at for ever; so would another
        under its name."""
        self._looked = time.monotonic()
        statement = sql.SQL("SELECT max({key}), to_regclass({name})::oid FROM {table}").format(
            **self._names()
        )
        row = connection.execute(statement).fetchone()
        self._check_identity(row[1] if row is not None else None)
        if (
            self._next > self._log.start
            and row is not None
            and row[0] is not None
            and row[0] < self._next - 1
        ):
            raise Corrupt(
                f"{self._server.where}: table {self._log.table} was read up to {self._log.key} "
                f"{self._next - 1} and now ends at {row[0]}: "
                "it was made anew, or its newest rows were deleted; what comes under these keys again would "
                "be lost. Start the job anew, with another store"
            )

    def _check_identity(self, oid: int | None) -> None:
        if oid != self._known.oid:
            raise Corrupt(
                f"{self._server.where}: table {self._log.table} was dropped and created again, or another "
                "one has taken its name (its "
                f"oid was {self._known.oid}, now {oid}), read up to {self._log.key} {self._next - 1}: rows "
                "below that in the new one, and "
                "above it in the old one, would be lost. Put the old one back, or start the job anew, "
                "with another store"
            )

    def _check_types(self, types: Mapping[str, str]) -> None:
        for name in (self._log.key, *self._log.columns):
            before, now = self._known.types[name], types[name]
            if _alike(before) != _alike(now):
                raise UserError(
                    f"{self._server.where}: column {name!r} of table {self._log.table} was {before} and is "
                    f"now {now}, so rows that were "
                    "read would be read again as something else: change it back, or start the job anew, "
                    "with another store"
                )

    # --- rows -----------------------------------------------------------------------------------------------

    def _chunk(self, rows: Sequence[Any]) -> Chunk:
        sizes = [_size(row) for row in rows]
        payloads = list(map(self._payload, rows, sizes))
        ends = [Offset(row[0] + 1) for row in rows]
        ends[-1] = Offset(self._next)
        self._mean = max(1, sum(sizes) // len(sizes))
        return Chunk(THE_PARTITION, Offset(rows[0][0]), payloads, sizes, ends)

    def _payload(self, row: Sequence[Any], size: int) -> object:
        made = _frozen(row[1]) if len(row) == 2 else tuple(map(_frozen, row[1:]))
        if size > MAX_RECORD and _size(made) > MAX_RECORD:  # the row has its key too
            message = (
                f"table {self._log.table}: "
                f"the row with {self._log.key} {row[0]} has more than {MAX_RECORD} bytes"
            )
            return error_item(self._source, "RecordTooLong", message)
        return made

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        connection = self._server.connection(self._opened)
        with self._server.translated():
            yield connection

    def _opened(self, connection: Connection) -> None:
        connection.execute(_SESSION)
        table = _checked(connection, self._log)
        # The first one, for the life of this reader: whatever has its name later is another table.
        self._table = self._table or table
        self._check_identity(table.oid)
        self._check_types(table.types)
        columns = [_column(name, table.types[name]) for name in self._log.columns]
        # The identity is looked at in the statement itself: between a look before it and the read another
        # table could take the name (!).
        rows = sql.SQL(
            "SELECT {key}, {columns} FROM {table} WHERE to_regclass({name})::oid = {oid} AND {key} >= %s"
        ).format(columns=sql.SQL(", ").join(columns), oid=sql.Literal(table.oid), **self._names())
        self._select = rows + sql.SQL(" ORDER BY {} LIMIT %s").format(sql.Identifier(self._log.key))
        self._again = rows + sql.SQL(" AND {key} < %s ORDER BY {key}").format(
            key=sql.Identifier(self._log.key)
        )

    @property
    def _known(self) -> Table:
        assert self._table is not None, "a connection is opened first"
        return self._table

    def _names(self) -> dict[str, sql.Composable]:
        return {
            "key": sql.Identifier(self._log.key),
            "table": self._known.sql,
            "name": sql.Literal(to_name(self._log.table)),
        }


def _checked(connection: Connection, log: ChangeLog) -> Table:
    table = find(connection, log.table)
    if table is None:
        raise UserError(f"there is no table {log.table}")
    if missing := [column for column in [log.key, *log.columns] if column not in table.types]:
        raise UserError(
            f"table {log.table} has no column {', '.join(map(repr, missing))}; it has "
            f"{', '.join(table.types)}"
        )
    if table.kind not in ("r", "p"):
        raise UserError(f"{log.table} is not a table: who writes to what is behind it cannot be seen")
    row = connection.execute(
        "SELECT has_table_privilege(%s::oid, 'SELECT'), current_user::text", (table.oid,)
    ).fetchone()
    if row is not None and not row[0]:
        raise UserError(f"no right to read: GRANT SELECT ON {log.table} TO {row[1]}")
    if table.types[log.key] not in ("smallint", "integer", "bigint"):
        raise UserError(
            f"table {log.table}: key {log.key!r} is a {table.types[log.key]}; "
            "it has to be an integer that grows"
        )
    if connection.execute(_UNIQUE, (table.oid, log.key)).fetchone() == (0,):
        raise UserError(
            f"table {log.table}: key {log.key!r} has no unique index: "
            f"ALTER TABLE {log.table} ADD UNIQUE ({log.key})"
        )
    _check_sequence(connection, table, log)
    return table


def _check_sequence(connection: Connection, table: Table, log: ChangeLog) -> None:
    for name, cache, increment, cycle in connection.execute(
        _SEQUENCES, {"name": table.name, "key": log.key, "oid": table.oid}
    ):
        raise UserError(
            f"table {log.table}: sequence {name} gives keys out of order (cache {cache}, increment "
            f"{increment}, cycle {cycle}), so rows "
            f"would be missed: ALTER SEQUENCE {name} CACHE 1 INCREMENT 1 NO CYCLE"
        )


def _column(name: str, kind: str) -> sql.Composable:
    """Types that a payload has no word for are given in their text form; so are, for the session's fixed
    settings, times."""
    base = kind.removesuffix("[]").partition("(")[0]
    return sql.Identifier(name) if base in _NATIVE else sql.SQL("{}::text").format(sql.Identifier(name))


def _alike(kind: str) -> str:
    """Types whose values are the same payloads have the same name here."""
    base = kind.partition("(")[0]
    return {"smallint": "bigint", "integer": "bigint", "character varying": "text"}.get(base, kind)


def _frozen(value: Any) -> object:
    return tuple(map(_frozen, value)) if type(value) is list else value


def _size(payload: object) -> int:
    if isinstance(payload, tuple | list):
        return 8 + sum(map(_size, payload))
    return len(payload) if isinstance(payload, str | bytes) else 8
