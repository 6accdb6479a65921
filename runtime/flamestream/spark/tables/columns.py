"""Columns: from payloads to Arrow, by the schema that the user asked for.

Every table has its fixed columns. A further column takes a field of the payload by its name: of a dataclass
or struct its attribute, of a tuple `_0`, `_1`, ..., of anything `value`.

>>> kinds_of([1, "a", None])
['bigint', 'string', 'string']

Does not: change a value's type: a payload that does not fit a column is an error that names it.
"""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import msgspec
import pyarrow as pa

from flamestream.model.collections import Set, Vector
from flamestream.model.errors import UserError
from flamestream.model.payloads.plain import plain
from flamestream.model.payloads.registry import PLANS

_KINDS = {
    bool: "boolean", int: "bigint", float: "double", str: "string", bytes: "binary", type(None): "string",
    datetime: "timestamp", date: "date",
}  # fmt: skip


def json_of(value: Any) -> str:
    """A payload for people."""
    return msgspec.json.encode(value, enc_hook=plain).decode()


def field_of(value: Any, name: str) -> Any:
    """A payload's field; None if it has none of this name."""
    if name == "value":
        return _arrow_value(value)
    if isinstance(value, tuple) and name.startswith("_") and name[1:].isdecimal():
        place = int(name[1:])
        return _arrow_value(value[place]) if place < len(value) else None
    return _arrow_value(getattr(value, name, None))


def fields_of(value: Any) -> list[tuple[str, str]]:
    """(column, Spark type) of a payload's fields, guessed from this one value."""
    plan = PLANS.get(type(value))
    if plan is not None and plan.labels is not None:
        return [(name, kind_of(getattr(value, name))) for name in plan.labels]
    if isinstance(value, tuple):
        return [(f"_{place}", kind_of(member)) for place, member in enumerate(value)]
    return [("value", kind_of(value))]


def kind_of(value: Any) -> str:
    """Spark's type for a value; JSON text for what has no simple one."""
    if isinstance(value, tuple | Vector | Set):
        kinds = {kind_of(member) for member in value}
        return f"array<{kinds.pop()}>" if len(kinds) == 1 else "string"
    return _KINDS.get(type(value), "string")


def kinds_of(values: Sequence[Any]) -> list[str]:
    return [kind_of(value) for value in values]


def array_of(name: str, values: Sequence[Any], kind: Any) -> Any:
    """An Arrow column. Raises UserError that names the column if a value does not fit."""
    try:
        if pa.types.is_string(kind):
            values = [
                value if value is None or isinstance(value, str) else json_of(value) for value in values
            ]
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise UserError(
            f"column {name!r} as {kind}: {error}; choose another type in .schema(...), or string for JSON"
        ) from error


def _arrow_value(value: Any) -> Any:
    return list(value) if isinstance(value, tuple | Vector | Set) else value
