"""From items to rows of a table: which part of a payload goes into which column, and rows as one JSON document.

A column names a field, fields of fields, or elements of tuples (`place.0`), or one of

    $payload    the whole payload            $time     its run's time, microseconds since 1970
    $meta       its place in the total order $slot, $bundle, $sink

The server turns JSON into the columns' types (json_to_recordset), so whatever a type's text form is can be given as a str. Bytes are given
in the text form of bytea; NaN and infinities in that of float8. Collections become arrays; a Map with keys of other types than str
becomes a list of pairs.

Keeps: one row an item, in the order of the items; with a key, only the last row of a key in a delivery, because one statement cannot
change a row twice. Does not: know the table (postgres_table.py).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

import msgspec

from flamestream.core.actions import Bundle
from flamestream.model.collections import Map
from flamestream.model.errors import UserError
from flamestream.model.ids import SinkName, Slot
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.payload import decode_items
from flamestream.model.time import timestamp_of

Place = tuple[bytes, Slot, int]
"""meta, slot, sequence of the bundle."""
Getter = Callable[[Any, Place], Any]
Row = dict[str, Any]

_AS_IT_IS: Final = frozenset({str, int, bool, type(None)})
_encode: Final = msgspec.json.Encoder().encode


def bytea(data: bytes) -> str:
    """The text form of a bytea."""
    return "\\x" + data.hex()


def plain(value: Any) -> Any:
    """A payload as JSON has it."""
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is tuple:
        return list(value) if _AS_IT_IS.issuperset(map(type, value)) else [plain(inner) for inner in value]
    if kind is float:
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if kind is bytes:
        return bytea(value)
    if kind is Map:
        if all(type(key) is str for key in value):
            return {key: plain(inner) for key, inner in value.items()}
        return [[plain(key), plain(inner)] for key, inner in value.items()]
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    return [plain(inner) for inner in value]


class RowMaker:
    """`columns` maps a column's name to its source; `key` are the columns that name a row, if rows are replaced."""

    def __init__(self, columns: Mapping[str, str], key: Sequence[str], sink: SinkName) -> None:
        self._sink = sink
        self._getters = [(f"c{number}", column, path, getter(path, sink)) for number, (column, path) in enumerate(columns.items())]
        self._key = [f"c{number}" for number, column in enumerate(columns) if column in key]

    def rows(self, bundles: Sequence[Bundle]) -> list[Row]:
        """The rows of a delivery. Raises UserError that names the item which cannot be one."""
        placed = ((item, bundle) for bundle in bundles for item in decode_items(bundle.items))
        made = [(self._row(value, (meta, bundle.slot, bundle.sequence)), bundle.slot) for (meta, value), bundle in placed]
        return self._last_of_each_key(made) if self._key else [row for row, _ in made]

    def _row(self, value: Any, place: Place) -> Row:
        row = {}
        for name, column, path, get in self._getters:
            try:
                found = getattr(value, path) if get is None else get(value, place)
            except (AttributeError, LookupError, TypeError, ValueError):
                raise UserError(
                    f"{where(place)}: column {column!r} wants {path!r}, which a {type(value).__name__} has not: {value!r:.200}"
                ) from None
            row[name] = found if type(found) in _AS_IT_IS else plain(found)
        return row

    def _last_of_each_key(self, made: list[tuple[Row, Slot]]) -> list[Row]:
        last: dict[bytes, tuple[Row, Slot]] = {}
        for row, slot in made:
            key = _encode([row[name] for name in self._key])
            before = last.pop(key, None)
            if before is not None and before[1] != slot:
                raise UserError(
                    f"rows with the key {key.decode()} come from slots {before[1]} and {slot}, so which is the newer one is chance; "
                    f"let the graph's .sink({self._sink!r}, key=...) give the same as the table's key"
                )
            last[key] = (row, slot)
        return [row for row, _ in last.values()]


def encoded(rows: Sequence[Row]) -> bytes:
    """As one JSON document."""
    return _encode(rows)


def where(place: Place) -> str:
    """An item, for messages."""
    meta, slot, sequence = place
    return f"the item of the run at time {time_of_meta(Meta(meta))} (slot {slot}, bundle {sequence})"


def getter(path: str, sink: SinkName) -> Getter | None:
    """How a source is read from an item; None: the field of this name."""
    special: dict[str, Getter] = {
        "$payload": lambda value, place: value,
        "$meta": lambda value, place: place[0],
        "$time": lambda value, place: timestamp_of(time_of_meta(Meta(place[0]))),
        "$slot": lambda value, place: place[1],
        "$bundle": lambda value, place: place[2],
        "$sink": lambda value, place: sink,
    }
    if path.startswith("$"):
        return special[path]
    steps = path.split(".")
    if len(steps) == 1 and not path.isdecimal():
        return None
    return lambda value, place: _walk(value, steps)


def _walk(value: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        value = value[int(step)] if step.isdecimal() else value[step] if type(value) is Map else getattr(value, step)
    return value


SPECIAL: Final = ("$payload", "$meta", "$time", "$slot", "$bundle", "$sink")
