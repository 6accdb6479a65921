"""A user's table, against the rows that the reference's results come to.

With a `key` a row has the last value of its key; without one there is a row for each result, in no order.
Where a column has `$sink`, rows of other sinks are passed over; else the table is taken for the sink's own,
and every other row is foreign.

Keeps: one snapshot of the table. Does not: write; use what the sink writes with
(connectors/kit/item_columns.py). Memory: both sides.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from psycopg import sql

from flamestream.connectors.kit.plain_values import BUNDLE, short, value_of
from flamestream.connectors.kit.server import ServerAway
from flamestream.connectors.kit.standing import (
    ALL,
    Findings,
    Line,
    Span,
    Version,
    Wanted,
    in_any_order,
    replaced,
)
from flamestream.connectors.postgres.connector import PostgresSinkSpec
from flamestream.connectors.postgres.place_columns import Column
from flamestream.connectors.postgres.server import Connection, Server
from flamestream.connectors.postgres.tables import Table, find
from flamestream.model.errors import UserError

PAGE: Final = 2000
"""Rows that are fetched at once."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row, found or expected."""

    values: Sequence[Any]
    forms: Sequence[Hashable]


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A sink's table, as the manifest has it."""

    spec: PostgresSinkSpec
    sink: str

    def look(self) -> "Rows":
        """Raises UserError if the table cannot be read."""
        with self._reading() as (connection, where):
            table = find(connection, self.spec.table)
            if table is None:
                raise UserError(f"{where}: there is no table {self.spec.table}")
            return Rows(self, where, table, list(self._rows(self._columns(table), table, connection)))

    @contextmanager
    def _reading(self) -> Iterator[tuple[Connection, str]]:
        """A session in which nothing changes, and where it is."""
        server = Server(self.spec.dsn, self.spec.password_file, "flamestream audit")
        try:
            connection = server.connection(lambda _: None)
            with server.translated(), connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                yield connection, server.where
        except ServerAway as error:
            raise UserError(str(error)) from error
        finally:
            server.hang_up()

    def _columns(self, table: Table) -> list[Column]:
        named = [name for name, source in self.spec.sources.items() if source != BUNDLE]
        if missing := [name for name in named if name not in table.types]:
            raise UserError(
                f"table {table.name} has no column {', '.join(missing)}; it has {', '.join(table.types)}"
            )
        bases = [(name, table.types[name], table.base[name]) for name in named]
        return [Column(name, cast, base.name, composite=base.composite) for name, cast, base in bases]

    def _rows(
        self, columns: Sequence[Column], table: Table, connection: Connection
    ) -> Iterator[Sequence[Any]]:
        selected = sql.SQL(", ").join(column.selected for column in columns)
        statement = sql.SQL("SELECT {} FROM {}").format(selected, table.sql)
        of = [sql.Identifier(name) for name, source in self.spec.sources.items() if source == "$sink"]
        if of:
            mine = [sql.SQL("{} = {}").format(name, self.sink) for name in of]
            statement += sql.SQL(" WHERE ") + sql.SQL(" AND ").join(mine)
        # With a name it is the server's, and rows come a page at a time: else libpq holds all of them beside
        # ours.
        with connection.cursor("flamestream_audit") as cursor:
            cursor.itersize = PAGE
            yield from cursor.execute(statement)

    def expected(self, table: Table, wanted: Sequence[Wanted]) -> tuple[list[Column], list[Row]]:
        """The columns, and of each item its row."""
        columns = self._columns(table)
        by_column = [
            [value_of(self.spec.sources[column.name], item, self.sink) for item in wanted]
            for column in columns
        ]
        with self._reading() as (connection, _):
            forms = [
                column.wanted(values, connection) for column, values in zip(columns, by_column, strict=True)
            ]
        return columns, [
            Row(*both) for both in zip(zip(*by_column, strict=True), zip(*forms, strict=True), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that stood in the table."""

    place: TablePlace
    where: str
    table: Table
    values: Sequence[Sequence[Any]]
    newest: None = None

    def compared(self, wanted: Sequence[Wanted], span: Span = ALL) -> Findings:
        """Raises UserError if the reference's results have not the parts that the manifest names."""
        columns, expected = self.place.expected(self.table, wanted)
        findings = Findings(f"table {self.table.name} of {self.where}", span=span)
        if len(columns) < len(self.place.spec.sources):
            findings.unknown.append(
                f"columns of {BUNDLE}: which results went together is not the reference's to say"
            )
        found = (
            Row(values, tuple(column.found(value) for column, value in zip(columns, values, strict=True)))
            for values in self.values
        )
        names, key = [column.name for column in columns], self.place.spec.key
        if key and set(key) <= set(names):
            return _by_key(findings, names, key, zip(wanted, expected, strict=True), found)
        findings.unknown.append("the order of rows: a table has none")
        both = zip(wanted, expected, strict=True)
        lines = [Line(item.slot, row.forms, _told(names, row.values), item.due) for item, row in both]
        return in_any_order(findings, lines, ((row.forms, _told(names, row.values)) for row in found))


def _by_key(
    findings: Findings,
    names: Sequence[str],
    key: Sequence[str],
    expected: Iterator[tuple[Wanted, Row]],
    found: Iterator[Row],
) -> Findings:
    of_key = [names.index(name) for name in key]
    others = [number for number in range(len(names)) if number not in of_key]

    def entry(row: Row, *, due: bool) -> tuple[tuple[Hashable, ...], Version]:
        told = (
            ", ".join(f"{names[number]}={short(row.values[number])}" for number in others) or "nothing else"
        )
        name = ", ".join(f"{names[number]}={short(row.values[number])}" for number in of_key)
        return tuple(row.forms[number] for number in of_key), Version(
            tuple(row.forms[number] for number in others), told, due, f"row {name}"
        )

    versions: dict[Hashable, list[Version]] = defaultdict(list)
    for item, row in expected:
        form, version = entry(row, due=item.due)
        versions[form].append(version)
    return replaced(findings, versions, (entry(row, due=True) for row in found))


def _told(names: Sequence[str], values: Sequence[Any]) -> str:
    return "row " + ", ".join(f"{name}={short(value)}" for name, value in zip(names, values, strict=True))
