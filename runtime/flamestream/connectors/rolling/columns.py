"""A payload class as columns: each annotated field is one, and a value goes there and back without loss.

| annotation               | column             | | annotation              | column              |
|--------------------------|--------------------|-|-------------------------|---------------------|
| int, float, bool         | int64, double, bool| | tuple[X, ...], Vector[X]| list of X           |
| str, bytes               | string, binary     | | tuple[X, Y]             | struct of _0, _1    |
| X or None                | X, with nulls      | | Map[K, V]; Set[X]       | map; list           |
| another payload class    | struct             | |                         |                     |

Keeps: `back(to(value)) == value` with the same types; what would not come back the same raises Misfit. Does
not: do without annotations.
"""

import base64
import math
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from flamestream.model.collections import Map, Set, Vector
from flamestream.model.errors import ManifestError
from flamestream.model.payloads.registry import PLANS, name_of_type

INT64: Final = 1 << 63


class Misfit(Exception):
    """The value is not of its column's type."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column for values of one annotation. `arrow` makes the Arrow type, so that pyarrow is imported only
    where it is needed."""

    arrow: Callable[[], Any]
    to: Callable[[Any], Any]
    back: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Columns:
    """A class as columns."""

    cls: type
    names: tuple[str, ...]
    columns: tuple[Column, ...]

    def to(self, payload: Any) -> list[Any]:
        """A value for each column. Raises Misfit."""
        if type(payload) is not self.cls:
            raise Misfit
        return [
            column.to(getattr(payload, name)) for name, column in zip(self.names, self.columns, strict=True)
        ]

    def back(self, values: list[Any]) -> Any:
        """The payload of a row."""
        build = PLANS[self.cls].build
        assert build is not None, f"{self.cls} is a payload class"
        return build([column.back(value) for column, value in zip(self.columns, values, strict=True)])


def columns_of(cls: type, where: str, text: bool = False) -> Columns:
    """As columns of Parquet, or with `text` as values of JSON. Raises ManifestError that names a field which
    has no one type."""
    labels = PLANS[cls].labels or ()
    hints = get_type_hints(cls)
    return Columns(
        cls,
        labels,
        tuple(_column(hints[name], f"{where}: field {name} of {name_of_type(cls)}", text) for name in labels),
    )


def _column(hint: Any, where: str, text: bool) -> Column:
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in _SCALARS:
        return _TEXTS.get(kind, _SCALARS[kind]) if text else _SCALARS[kind]
    if kind in (Union, types.UnionType) and type(None) in inner and len(inner) == 2:
        return _optional(_column(next(one for one in inner if one is not type(None)), where, text))
    if kind is tuple and inner and inner[-1] is not Ellipsis:
        return _fixed([_column(one, where, text) for one in inner])
    if kind in _REPEATED and inner:
        return _repeated(kind, _column(inner[0], where, text))
    if kind is Map and inner:
        return _map(_column(inner[0], where, text), _column(inner[1], where, text))
    if isinstance(kind, type) and kind in PLANS and PLANS[kind].labels is not None:
        return _struct(columns_of(kind, where, text))
    raise ManifestError(
        f"{where} is annotated {hint!r}, which is not one column's type; correct it, or leave `type` out"
    )


def _same(value: Any) -> Any:
    return value


def _scalar(
    kind: type,
    arrow: str,
    fits: Callable[[Any], bool] | None = None,
    to: Callable[[Any], Any] = _same,
    back: Callable[[Any], Any] = _same,
) -> Column:
    """Values of just this type (a bool is no int), which `fits`."""

    def checked(value: Any) -> Any:
        if type(value) is not kind or (fits is not None and not fits(value)):
            raise Misfit
        return to(value)

    return Column(lambda: _arrow(arrow), checked, back)


def _arrow(name: str, *of: Column) -> Any:
    import pyarrow as pa

    return getattr(pa, name)(*(column.arrow() for column in of))


_SCALARS: Final = {
    int: _scalar(int, "int64", lambda value: -INT64 <= value < INT64),
    float: _scalar(float, "float64"),
    bool: _scalar(bool, "bool_"),
    str: _scalar(str, "string"),
    bytes: _scalar(bytes, "binary"),
}
_TEXTS: Final = {
    float: _scalar(float, "float64", math.isfinite),
    bytes: _scalar(bytes, "string", to=lambda value: base64.b64encode(value).decode(), back=base64.b64decode),
}
"""Values that JSON has no word for: bytes are base64; NaN and infinities do not fit."""
_REPEATED: Final[dict[Any, Any]] = {tuple: tuple, Vector: Vector, Set: Set}


def _optional(column: Column) -> Column:
    return Column(
        column.arrow,
        lambda value: None if value is None else column.to(value),
        lambda value: None if value is None else column.back(value),
    )


def _repeated(kind: Any, column: Column) -> Column:
    def to(value: Any) -> Any:
        if type(value) is not kind:
            raise Misfit
        return [column.to(one) for one in value]

    return Column(
        lambda: _arrow("list_", column), to, lambda value: kind([column.back(one) for one in value])
    )


def _fixed(columns: list[Column]) -> Column:
    names = [f"_{i}" for i in range(len(columns))]

    def to(value: Any) -> Any:
        if type(value) is not tuple or len(value) != len(columns):
            raise Misfit
        return {name: column.to(one) for name, column, one in zip(names, columns, value, strict=True)}

    return Column(
        lambda: _struct_type(names, columns),
        to,
        lambda value: tuple(column.back(value[name]) for name, column in zip(names, columns, strict=True)),
    )


def _struct(inner: Columns) -> Column:
    return Column(
        lambda: _struct_type(inner.names, inner.columns),
        lambda value: dict(zip(inner.names, inner.to(value), strict=True)),
        lambda value: inner.back([value[name] for name in inner.names]),
    )


def _struct_type(names: Any, columns: Any) -> Any:
    import pyarrow as pa

    return pa.struct([(name, column.arrow()) for name, column in zip(names, columns, strict=True)])


def _map(key: Column, value: Column) -> Column:
    def to(found: Any) -> Any:
        if type(found) is not Map:
            raise Misfit
        return [(key.to(one), value.to(other)) for one, other in found.items()]

    return Column(
        lambda: _arrow("map_", key, value),
        to,
        lambda pairs: Map([(key.back(one), value.back(other)) for one, other in pairs]),
    )
