"""A user's table, against the rows that the reference's results come to.

With a `key` a row has the last value of its key; without one there is a row for each result, in no order.
Where a column has `$sink`, rows of other sinks are passed over; else the table is taken for the sink's own,
and every other row is foreign.

Keeps: one snapshot of the table. Does not: write; use what the sink writes with (sinks/postgres_rows.py).
Memory: both sides.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import sql

from flamestream.adapters.places.columns import Column
from flamestream.adapters.places.plain import short
from flamestream.adapters.places.sources import BUNDLE, Wanted, value_of
from flamestream.adapters.places.standing import Findings, Line, Version, in_any_order, replaced
from flamestream.adapters.postgres import Connection, Server, ServerAway
from flamestream.adapters.postgres_tables import Table, find
from flamestream.model.errors import UserError

PAGE: Final = 2000
"""Rows that are fetched at once."""


@dataclass(frozen=True, slots=True)
class Row:
    """Of either side."""

    values: Sequence[Any]
    forms: Sequence[Hashable]


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A sink's table, as the manifest has it."""

    dsn: str
    password_file: str | None
    table: str
    columns: Mapping[str, str]
    """Each column's source."""
    key: Sequence[str]
    sink: str

    def compared(self, wanted: Sequence[Wanted]) -> Findings:
        """Raises UserError if the table cannot be read."""
        server = Server(self.dsn, self.password_file, "flamestream audit")
        try:
            connection = server.connection(lambda _: None)
            with server.translated(), connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                return self._compared(connection, wanted, server.where)
        except ServerAway as error:
            raise UserError(str(error)) from error
        finally:
            server.hang_up()

    def _compared(self, connection: Connection, wanted: Sequence[Wanted], where: str) -> Findings:
        table = find(connection, self.table)
        if table is None:
            raise UserError(f"{where}: there is no table {self.table}")
        columns = self._columns(table)
        findings = Findings(f"table {table.name} of {where}")
        if len(columns) < len(self.columns):
            findings.unknown.append(f"columns of {BUNDLE}: which results went together is not the reference's to say")
        expected = self._expected(columns, wanted, connection)
        found = self._found(columns, table, connection)
        names = [column.name for column in columns]
        if self.key and set(self.key) <= set(names):
            return _by_key(findings, names, self.key, zip(wanted, expected, strict=True), found)
        findings.unknown.append("the order of rows: a table has none")
        lines = [Line(item.slot, row.forms, _told(names, row.values), item.due) for item, row in zip(wanted, expected, strict=True)]
        return in_any_order(findings, lines, ((row.forms, _told(names, row.values)) for row in found))

    def _columns(self, table: Table) -> list[Column]:
        named = [name for name, source in self.columns.items() if source != BUNDLE]
        if missing := [name for name in named if name not in table.types]:
            raise UserError(f"table {table.name} has no column {', '.join(missing)}; it has {', '.join(table.types)}")
        return [Column(name, table.types[name], table.base[name].name, composite=table.base[name].composite) for name in named]

    def _expected(self, columns: Sequence[Column], wanted: Sequence[Wanted], connection: Connection) -> list[Row]:
        by_column = [[self._value(self.columns[column.name], item) for item in wanted] for column in columns]
        forms = [column.wanted(values, connection) for column, values in zip(columns, by_column, strict=True)]
        return [Row(values, made) for values, made in zip(zip(*by_column, strict=True), zip(*forms, strict=True), strict=True)]

    def _value(self, source: str, item: Wanted) -> Any:
        try:
            return value_of(source, item, self.sink)
        except (LookupError, AttributeError, TypeError) as error:
            raise UserError(f"sink {self.sink!r}: the reference's {short(item.payload)} has no {source!r}: {error}") from error

    def _found(self, columns: Sequence[Column], table: Table, connection: Connection) -> Iterator[Row]:
        statement = sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(column.selected for column in columns), table.sql)
        mine = [sql.SQL("{} = {}").format(sql.Identifier(name), self.sink) for name, source in self.columns.items() if source == "$sink"]
        if mine:
            statement += sql.SQL(" WHERE ") + sql.SQL(" AND ").join(mine)
        with connection.cursor("flamestream_audit") as cursor:
            cursor.itersize = PAGE
            for values in cursor.execute(statement):
                yield Row(values, tuple(column.found(value) for column, value in zip(columns, values, strict=True)))


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
        told = ", ".join(f"{names[number]}={short(row.values[number])}" for number in others) or "nothing else"
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
