"""Samples: whether an expression can have a value at all, for items whose fields have these types.

Each operation is asked once, of a value of its parts' types: what raises a TypeError there would for every
item. Where a type is not known, or is one of several, nothing is asked.

>>> from flamestream.model.expressions.expression import field
>>> check_types(field("shop").str.upper(), {"shop": str}.get)
>>> check_types(field("cents").str.upper(), {"cents": int}.get)
Traceback (most recent call last):
    ...
TypeError: fs.field("cents").str.upper() takes a str, not a int

Does not: know classes or lines (fields.py).
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from flamestream.model.expressions import expression as e
from flamestream.model.expressions.conditional import Conditional

SAMPLES: Final = {
    int: 1,
    float: 1.0,
    bool: True,
    str: "a",
    bytes: b"a",
    datetime: datetime(2026, 1, 1, tzinfo=UTC),
}
"""A value of each type whose operations do not depend on which value it is."""
UNKNOWN: Final = object()
TypeOf = Callable[[str], Any]
"""The name of a field -> its type, or None."""


def check_types(expression: e.Expression, type_of: TypeOf) -> None:
    """Raises TypeError for an operation that has no value for any item."""
    _sample(expression, type_of)


def _sample(node: e.Expression, type_of: TypeOf) -> Any:
    """A value of the type that a node gives, or UNKNOWN."""
    parts = [_sample(part, type_of) for part in node.parts]
    if isinstance(node, e.Field):
        return SAMPLES.get(type_of(node.name), UNKNOWN)
    if isinstance(node, e.Constant):
        return SAMPLES.get(type(node.value), UNKNOWN)
    if isinstance(node, Conditional):
        for case, value in zip(node.cases, parts[::2], strict=False):
            if value is not UNKNOWN:
                e.truth(value, case[0])
        return UNKNOWN
    if UNKNOWN in parts or not isinstance(node, e.Binary | e.Unary | e.Call | e.Element):
        return UNKNOWN
    return SAMPLES.get(type(_value(node, [e.Constant(part) for part in parts])), UNKNOWN)


def _value(node: e.Expression, parts: list[e.Constant]) -> Any:
    """Value of an operation whose parts are these."""
    if isinstance(node, e.Binary) and node.sign == "%" and type(parts[0].value) in (str, bytes):
        return UNKNOWN  # it formats: which values fit depends on the text
    names = ("left", "right") if isinstance(node, e.Binary) else ("of",)
    sampled = replace(node, **dict(zip(names, parts, strict=True)))  # type: ignore[type-var]
    try:
        return sampled(None)
    except TypeError as error:
        said = str(error).replace(sampled.written, node.written)
        raise TypeError(said if node.written in said else f"{node.written}: {said}") from None
    except (ArithmeticError, LookupError, ValueError):
        return UNKNOWN  # of this value, not of its type
