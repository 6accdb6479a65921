"""A column of a table: forms of what psycopg loads from it, and of what the reference has for it.

Where a value is not the same at once (a text that becomes a timestamp, a number that becomes a numeric),
psycopg gives it to the server, which says what such a column makes of it: `SELECT %s::timestamptz`.

Does not: use what the sink writes with (connectors/postgres/columns.py).
"""

import json
from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from psycopg import sql

from flamestream.connectors.kit.plain_values import HEX, form, form_of_text, plain
from flamestream.connectors.postgres.server import Connection

ASKED: Final = 200
"""Values in a question to the server."""
_LOADED_AS: Final[Mapping[str, type]] = {
    "smallint": int, "integer": int, "bigint": int, "text": str, "character varying": str, "boolean": bool,
    "double precision": float, "bytea": bytes,
}  # fmt: skip
_TEXTS: Final = frozenset({"text", "character varying"})
_JSON: Final = frozenset({"json", "jsonb"})


class Column:
    """`cast` is its type as the catalogue writes it, `base` what is below a domain, without length."""

    def __init__(self, name: str, cast: str, base: str, *, composite: bool) -> None:
        self.name, self._cast = name, cast
        self._element = base.removesuffix("[]")
        self._is_array = base != self._element
        self._is_json = composite or self._element in _JSON
        self._composite = composite
        self._of_texts = True
        """All that the reference has for it is text: so it is what it says, and no JSON."""

    @property
    def selected(self) -> sql.Composable:
        """The expression by which it is read."""
        name = sql.Identifier(self.name)
        return sql.SQL("to_json({})").format(name) if self._composite else name

    def found(self, value: Any) -> Hashable:
        """The form of a value that psycopg has loaded."""
        if isinstance(value, str) and self._element in _TEXTS and not self._of_texts:
            return form_of_text(value)
        return "nan" if isinstance(value, Decimal) and value.is_nan() else form(value)

    def wanted(self, values: Sequence[Any], connection: Connection) -> list[Hashable]:
        """The forms of all that the reference has for it."""
        self._of_texts = self._is_array or all(value is None or isinstance(value, str) for value in values)
        if self._is_json:
            return [None if value is None else form(plain(value, HEX)) for value in values]
        if not self._of_texts and self._element in _TEXTS:
            return [
                form_of_text(value) if isinstance(value, str) else form(plain(value, HEX)) for value in values
            ]
        strange = {form(plain(value, HEX)): value for value in values if not self._is_loaded_so(value)}
        made = dict(zip(strange, self._made(list(strange.values()), connection), strict=True))
        return [
            form(_listed(value)) if self._is_loaded_so(value) else made[form(plain(value, HEX))]
            for value in values
        ]

    def _is_loaded_so(self, value: Any) -> bool:
        """Whether psycopg gives just this back."""
        if value is None or type(value) is _LOADED_AS.get(self._element):
            return True
        return (
            self._is_array
            and not isinstance(value, str | bytes)
            and all(map(self._is_loaded_so, _listed(value)))
        )

    def _made(self, values: Sequence[Any], connection: Connection) -> list[Hashable]:
        made: list[Hashable] = []
        for start in range(0, len(values), ASKED):
            page = [_argument(value) for value in values[start : start + ASKED]]
            casts = sql.SQL(", ").join([sql.SQL("%s::" + self._cast)] * len(page))  # the catalogue's own text
            row = connection.execute(sql.SQL("SELECT ") + casts, page, prepare=False).fetchone()
            made += map(self.found, row or ())
        return made


def _listed(value: Any) -> Any:
    """Tuples and Vectors as lists, at any depth."""
    return (
        value
        if value is None or isinstance(value, str | bytes | bool | int | float)
        else [_listed(part) for part in value]
    )


def _argument(value: Any) -> Any:
    """A value as psycopg takes it: scalars are themselves, arrays lists of texts."""
    if value is None or isinstance(value, str | bytes | bool | int | float):
        return value
    return [_leaf(part) for part in value]


def _leaf(value: Any) -> Any:
    if value is None or isinstance(value, str | bytes):
        return value
    shown = plain(value, HEX)
    return [_leaf(part) for part in value] if isinstance(shown, list) else json.dumps(shown)
