"""The tables of a PostgreSQL sink: the user's, checked before anything is written, and ours.

Ours are `state` and two beside it (postgres/state.py), which many sinks may share. With `history` every
bundle is also kept in a table of the sink's own, so that `flamestream cat` and `audit` can read back what was
delivered.

Keeps: names in SQL are quoted by the server or by psycopg; what is wrong with a table is said before the
first row. Does not: create or alter the user's table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, LiteralString

from psycopg import errors, sql

from flamestream.connectors.postgres.server import Connection
from flamestream.connectors.postgres.tables import Table, find
from flamestream.model.errors import UserError

# Half of each page stays free, so that the next version of a row finds room there, and the index needs no new
# entry (HOT).
_STATE: Final[LiteralString] = """
    CREATE TABLE IF NOT EXISTS {table} (
        job text, sink text, slot int, attempt bigint NOT NULL, layout bigint NOT NULL,
        sequence bigint NOT NULL, t_last bytea NOT NULL, items bytea NOT NULL,
        CONSTRAINT {key} PRIMARY KEY (job, sink, slot)) WITH (fillfactor = 50)"""
_OPENINGS: Final[LiteralString] = """
    CREATE TABLE IF NOT EXISTS {table} (
        id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT {key} PRIMARY KEY,
        job text NOT NULL, sink text NOT NULL, attempt bigint NOT NULL, layout bigint NOT NULL, slots int[] NOT NULL)"""
_LOG: Final[LiteralString] = """
    CREATE TABLE IF NOT EXISTS {table} (
        opening bigint NOT NULL, number bigint, slots int[] NOT NULL, sequences bigint[] NOT NULL,
        t_last bytea[] NOT NULL, items bytea[] NOT NULL, CONSTRAINT {key} PRIMARY KEY (opening, number))"""
_HISTORY: Final[LiteralString] = """
    CREATE TABLE IF NOT EXISTS {table} (
        slot int, sequence bigint, t_last bytea NOT NULL, items bytea NOT NULL,
        CONSTRAINT {key} PRIMARY KEY (slot, sequence))"""
# What ON CONFLICT (columns) can go by: an index that is valid, not deferrable, of all rows, and of columns
# alone.
_UNIQUE: Final[LiteralString] = """
    SELECT array_agg(a.attname::text) FROM pg_index i
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
    WHERE i.indrelid = %s AND i.indisunique AND i.indisvalid AND i.indimmediate
    AND i.indpred IS NULL AND i.indexprs IS NULL
    GROUP BY i.indexrelid"""
_RACED: Final = (errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject)
"""Two workers create one table: `IF NOT EXISTS` does not cover that."""


def target(connection: Connection, name: str, columns: Sequence[str], key: Sequence[str]) -> Table:
    """The user's table. Raises UserError that says what to do if rows cannot go there."""
    table = find(connection, name)
    if table is None:
        wanted = ", ".join(f"{column} text" for column in columns) + (
            f", PRIMARY KEY ({', '.join(key)})" if key else ""
        )
        raise UserError(
            f"there is no table {name}; create it, for example (with the right types): "
            f"CREATE TABLE {name} ({wanted})"
        )
    if table.kind not in ("r", "p", "f", "v"):
        raise UserError(f"{name} is not a table (its relkind is {table.kind!r})")
    missing = [column for column in columns if column not in table.types]
    if missing:
        raise UserError(
            f"table {name} has no column {', '.join(map(repr, missing))}; it has {', '.join(table.types)}"
        )
    for column in columns:
        if column in table.generated:
            raise UserError(
                f"table {name}: column {column!r} is generated always, so nothing can be written there; "
                "leave it out of `columns`"
            )
    _may_write(connection, table, name, upsert=bool(key))
    if key:
        _has_key(connection, table, name, key)
    return table


def _may_write(connection: Connection, table: Table, name: str, upsert: bool) -> None:
    needed = ["INSERT", "SELECT", "UPDATE"] if upsert else ["INSERT"]
    row = connection.execute(
        "SELECT array(SELECT p FROM unnest(%s::text[]) p WHERE NOT has_table_privilege(%s::oid, p)), "
        "current_user::text",
        (needed, table.oid),
    ).fetchone()
    assert row is not None
    if row[0]:
        raise UserError(f"no right to write: GRANT {', '.join(row[0])} ON {name} TO {row[1]}")


def _has_key(connection: Connection, table: Table, name: str, key: Sequence[str]) -> None:
    unique = [set(found) for (found,) in connection.execute(_UNIQUE, (table.oid,)).fetchall()]
    if set(key) not in unique:
        columns = ", ".join(key)
        what = f"table {name} has no unique index on exactly ({columns}), so rows cannot be replaced"
        raise UserError(f"{what}: ALTER TABLE {name} ADD UNIQUE ({columns})")


@dataclass(frozen=True, slots=True)
class _Ours:
    """A table of ours: which setting names it (with what behind the name), and what it has."""

    setting: str
    suffix: str
    made: LiteralString
    columns: frozenset[str]

    def statement(self, name: str) -> sql.Composed:
        """The statements that make it. What is stored in it is not worth a try to compress."""
        table = f"{name}{self.suffix}"
        made = sql.SQL(self.made).format(
            table=_identifier(table), key=sql.Identifier(f"{table.rpartition('.')[2]}_key")
        )
        plain = sql.SQL("; ALTER TABLE {} ALTER items SET STORAGE EXTERNAL").format(_identifier(table))
        return made + plain if "items" in self.columns else made


_STATE_TABLES: Final = {
    "state": _Ours(
        "state",
        "",
        _STATE,
        frozenset({"job", "sink", "slot", "attempt", "layout", "sequence", "t_last", "items"}),
    ),
    "openings": _Ours(
        "state", "_openings", _OPENINGS, frozenset({"id", "job", "sink", "attempt", "layout", "slots"})
    ),
    "log": _Ours(
        "state", "_log", _LOG, frozenset({"opening", "number", "slots", "sequences", "t_last", "items"})
    ),
}
_HISTORY_TABLE: Final = {
    "history": _Ours("history", "", _HISTORY, frozenset({"slot", "sequence", "t_last", "items"}))
}


def ensure_state(connection: Connection, name: str) -> dict[str, Table]:
    """Our tables, made if they are not there: state, openings, log."""
    return _ensure(connection, name, _STATE_TABLES)


def ensure_history(connection: Connection, name: str) -> Table:
    """The sink's table of bundles, made if it is not there."""
    return _ensure(connection, name, _HISTORY_TABLE)["history"]


def _ensure(connection: Connection, name: str, wanted: Mapping[str, _Ours]) -> dict[str, Table]:
    there = {part: find(connection, f"{name}{ours.suffix}") for part, ours in wanted.items()}
    lacking = [ours.statement(name) for part, ours in wanted.items() if there[part] is None]
    for statement in lacking:
        try:
            with connection.transaction():
                connection.execute(statement)
        except _RACED:
            pass  # somebody else has just made it
        except errors.InsufficientPrivilege as error:
            ddl = " ".join("; ".join(each.as_string(connection) for each in lacking).split())
            setting = next(iter(wanted.values())).setting
            raise UserError(
                f"cannot create `{setting}` table {name}: {error.diag.message_primary}; "
                f"let its owner run: {ddl}"
            ) from None
    return {
        part: _ours(name, ours, there[part] or find(connection, f"{name}{ours.suffix}"))
        for part, ours in wanted.items()
    }


def _ours(name: str, ours: _Ours, table: Table | None) -> Table:
    if table is None or not ours.columns <= table.types.keys():
        has = "nothing" if table is None else ", ".join(table.types)
        wanted = ", ".join(sorted(ours.columns))
        raise UserError(
            f"`{ours.setting}` table {name}{ours.suffix} is not ours: it has {has}, not {wanted}; "
            "name another one"
        )
    return table


def _identifier(name: str) -> sql.Identifier:
    return sql.Identifier(*name.split("."))
