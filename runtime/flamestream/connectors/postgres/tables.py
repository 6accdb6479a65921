"""Tables of PostgreSQL as the catalogue knows them: the name that the server itself quotes, and columns with
their types.

A name is as in the catalogue (case matters), perhaps with its schema: `postings`, `public.postings`.

Does not: judge whether a table is fit for something (connectors/postgres/sink_table.py,
connectors/postgres/source.py).
"""

from dataclasses import dataclass
from typing import Final, LiteralString

from psycopg import sql

from flamestream.connectors.postgres.server import Connection

_COLUMNS: Final[LiteralString] = """
    SELECT attname::text, format_type(atttypid, atttypmod),
        attgenerated::text <> '' OR attidentity::text = 'a',
        format_type(CASE WHEN typtype = 'd' THEN typbasetype ELSE atttypid END, -1), typtype::text = 'c'
    FROM pg_attribute JOIN pg_type t ON t.oid = atttypid
    WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""


@dataclass(frozen=True, slots=True)
class BaseType:
    """A column's type without its length, and what is below a domain."""

    name: str
    composite: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table that is there: its name as the server quotes it, and its columns' types."""

    oid: int
    name: str
    kind: str
    """The letter that pg_class.relkind has for it."""
    types: dict[str, str]
    generated: frozenset[str]
    base: dict[str, BaseType]

    @property
    def sql(self) -> sql.Composable:
        """Name of the table in a statement."""
        return sql.SQL(self.name)


def find(connection: Connection, name: str) -> Table | None:
    """The table that `name` (perhaps with its schema) names."""
    row = connection.execute(
        "SELECT oid, oid::regclass::text, relkind::text FROM pg_class WHERE oid = to_regclass(%s)",
        (to_name(name),),
    ).fetchone()
    if row is None:
        return None
    oid, quoted, kind = row
    found = connection.execute(_COLUMNS, (oid,)).fetchall()
    types, generated = {row[0]: row[1] for row in found}, frozenset(row[0] for row in found if row[2])
    return Table(oid, quoted, kind, types, generated, {row[0]: BaseType(row[3], row[4]) for row in found})


def to_name(name: str) -> str:
    """The name in quotes, as `to_regclass` needs it: it folds names that are not quoted."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))
