"""Values of a delivery's rows as the server takes them: an array for each column, in the text form of the
column's type.

Whatever a type's text form is can be given as a str. Bytes are given in that of bytea; NaN and infinities in
that of float8. Collections become arrays, and JSON where the column is no array; a payload's class fills a
column of a composite type by its fields' names.

Why not one JSON document, which json_to_recordset takes apart: for a document's 163 rows the server needs
twice as long.

Does not: say what goes where (kit/item_columns.py).
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

from psycopg import sql

from flamestream.connectors.kit.item_columns import Row, as_json, plain
from flamestream.connectors.postgres.tables import BaseType

_INTS: Final = frozenset({int})


class Columns:
    """The columns of one table, in their order."""

    def __init__(self, types: Sequence[BaseType]) -> None:
        self._columns = [Column(type_) for type_ in types]

    def select(self) -> sql.Composable:
        """The rows of `values` as a query."""
        names = [sql.Identifier(f"c{number}") for number in range(len(self._columns))]
        parts = {
            "taken": sql.SQL(", ").join(
                column.taken(name) for column, name in zip(self._columns, names, strict=True)
            ),
            "given": sql.SQL(", ").join(sql.SQL(f"%s::{column.given}[]") for column in self._columns),
            "names": sql.SQL(", ").join(names),
        }
        return sql.SQL("SELECT {taken} FROM unnest({given}) AS r ({names})").format(**parts)

    def values(self, rows: Sequence[Row]) -> list[str]:
        """An array for each column."""
        return [
            column.array(values)
            for column, values in zip(self._columns, zip(*rows, strict=True), strict=True)
        ]


class Column:
    """The form in which a column's values are sent: all of a delivery as one array in the server's text
    form."""

    def __init__(self, type_: BaseType) -> None:
        self._type = type_.name
        self._composite = type_.composite
        self._is_array = type_.name.endswith("[]")
        self._is_json = type_.composite or type_.name.removesuffix("[]") in ("json", "jsonb")
        # Arrays of arrays have to be rectangular in PostgreSQL: a value that is an array goes as its text,
        # and the statement casts it.
        self.given = "text" if self._is_array or type_.composite else type_.name
        """The type of the array's elements."""

    def taken(self, name: sql.Composable) -> sql.Composable:
        """An element of it as the column's type."""
        if self._composite:
            return sql.SQL(f"json_populate_record(NULL::{self._type}, {{}}::json)").format(name)
        return sql.SQL(f"{{}}::{self._type}").format(name) if self._is_array else name

    def array(self, values: Sequence[Any]) -> str:
        """The values of a delivery as one array in the server's text form."""
        kinds = set(map(type, values))
        if kinds == {int}:
            return "{" + ",".join(map(str, values)) + "}"
        if kinds == {str} and not self._is_json:
            return _array(values)
        if kinds == {tuple} and self._is_array and _INTS.issuperset(map(type, chain.from_iterable(values))):
            return '{"' + '","'.join(["{" + ",".join(map(str, value)) + "}" for value in values]) + '"}'
        return _array([self._text(value) for value in values])

    def _text(self, value: Any) -> str | None:
        if value is None:
            return None
        found = plain(value)
        if self._is_array and type(found) is list:
            return self._literal(found)
        return as_json(found).decode() if self._is_json or type(found) in (list, dict) else _scalar(found)

    def _literal(self, values: list[Any]) -> str:
        """An array's own text, perhaps of arrays."""
        if any(type(value) is list for value in values):
            return "{" + ",".join("NULL" if value is None else self._literal(value) for value in values) + "}"
        return _array(
            [
                None if v is None else as_json(v).decode() if self._is_json or type(v) is dict else _scalar(v)
                for v in values
            ]
        )


def _array(values: Sequence[str | None]) -> str:
    if None not in values:
        joined = '","'.join(values)  # type: ignore[arg-type]  # there is no None
        # One look at all of them: no backslash, and no quote but those between, so nothing has to be escaped.
        if "\\" not in joined and joined.count('"') == 2 * (len(values) - 1):
            return f'{{"{joined}"}}' if values else "{}"
    return "{" + ",".join("NULL" if value is None else _quoted(value) for value in values) + "}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _scalar(value: Any) -> str:
    """The text of what `plain` gives that is no collection."""
    return value if type(value) is str else str(value).lower() if type(value) is bool else repr(value)
