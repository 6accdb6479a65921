"""From items to rows of a table: which part of a payload goes into which column.

A column names a field, fields of fields, or elements of tuples (`place.0`), or one of

    $payload    the whole payload            $time     its run's time, microseconds since 1970
    $meta       its place in the total order $slot, $bundle, $sink

Keeps: one row an item, in the order of the items; with a key, only the last row of a key in a delivery,
because one statement cannot change a row twice. Does not: know the table (postgres/sink_table.py).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from flamestream.core.protocol.actions import Bundle
from flamestream.model.collections import Map
from flamestream.model.errors import UserError
from flamestream.model.ids import SinkName, Slot
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.payload import decode_items
from flamestream.model.payloads.registry import PLANS
from flamestream.model.payloads.values import is_value
from flamestream.model.quoted import quoted
from flamestream.model.time import timestamp_of

Place = tuple[bytes, Slot, int]
"""meta, slot, sequence of the bundle."""
Getter = Callable[[Any, Place], Any]
Row = tuple[Any, ...]

_AS_IT_IS: Final = frozenset({str, int, bool, type(None)})
as_json: Final = msgspec.json.Encoder().encode


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
        return (
            value
            if math.isfinite(value)
            else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        )
    if kind is bytes:
        return bytea(value)
    if kind is Map:
        if all(type(key) is str for key in value):
            return {key: plain(inner) for key, inner in value.items()}
        return [[plain(key), plain(inner)] for key, inner in value.items()]
    if (plan := PLANS.get(kind)) is not None and plan.labels is not None:
        return {name: plain(getattr(value, name)) for name in plan.labels}
    if is_value(value):
        return msgspec.to_builtins(value)
    return [plain(inner) for inner in value]


class RowMaker:
    """`columns` maps a column's name to its source; `key` are the columns that name a row, if rows are
    replaced."""

    def __init__(self, columns: Mapping[str, str], key: Sequence[str], sink: SinkName) -> None:
        self._sink = sink
        self._getters = [(column, path, getter(path, sink)) for column, path in columns.items()]
        paths = list(columns.values())
        # Where all columns are fields, one call gives a row.
        self._fields = (
            attrgetter(*paths) if len(paths) > 1 and all(get is None for _, _, get in self._getters) else None
        )
        self._key = [number for number, column in enumerate(columns) if column in key]

    def rows(self, bundles: Sequence[Bundle]) -> list[Row]:
        """The rows of a delivery. Raises UserError that names the item which cannot be one."""
        made: list[Row] = []
        slots: list[Slot] = []
        for bundle in bundles:
            items = decode_items(bundle.items)
            # None at all also means that a payload lacks a field: then one by one, which names it.
            made += self._plain(items) or [
                self._row(value, (meta, bundle.slot, bundle.sequence)) for meta, value in items
            ]
            slots += [bundle.slot] * len(items)
        return self._last_of_each_key(made, slots) if self._key else made

    def _plain(self, items: Sequence[tuple[bytes, Any]]) -> list[Row]:
        """All rows at once, if the columns are fields; none if a payload lacks one."""
        if self._fields is None:
            return []
        try:
            return [self._fields(value) for _, value in items]
        except AttributeError:
            return []

    def _row(self, value: Any, place: Place) -> Row:
        row = []
        for column, path, get in self._getters:
            try:
                row.append(getattr(value, path) if get is None else get(value, place))
            except (AttributeError, LookupError, TypeError, ValueError):
                raise UserError(
                    f"{where(place)}: column {column!r} wants {path!r}, which a {type(value).__name__} has "
                    f"not: {quoted(f'{value!r:.200}')}"
                ) from None
        return tuple(row)

    def _last_of_each_key(self, made: Sequence[Row], slots: Sequence[Slot]) -> list[Row]:
        last: dict[bytes, tuple[Row, Slot]] = {}
        for row, slot in zip(made, slots, strict=True):
            # As JSON: values may be unhashable, and to Python 1 and True are one key.
            key = as_json([plain(row[number]) for number in self._key])
            # Taken out, so that the row stands where its key came last.
            before = last.pop(key, None)
            if before is not None and before[1] != slot:
                raise two_slots(
                    f"rows with the key {key.decode()}", before[1], slot, self._sink, "the table's key"
                )
            last[key] = (row, slot)
        return [row for row, _ in last.values()]


def two_slots(what: str, first: Slot, second: Slot, sink: SinkName, same: str) -> UserError:
    """An error for rows or entries of one key that come from two slots, whose order nobody keeps."""
    return UserError(
        f"{what} come from slots {first} and {second}, so which is the newer one is chance; "
        f"let the graph's .sink({sink!r}, key=...) give the same as {same}"
    )


def where(place: Place) -> str:
    """The item at a place, as messages name it."""
    meta, slot, sequence = place
    return f"the item of the run at time {time_of_meta(Meta(meta))} (slot {slot}, bundle {sequence})"


_SPECIAL: Final[dict[str, Callable[[Any, Place, SinkName], Any]]] = {
    "$payload": lambda value, place, sink: value,
    "$meta": lambda value, place, sink: place[0],
    "$time": lambda value, place, sink: timestamp_of(time_of_meta(Meta(place[0]))),
    "$slot": lambda value, place, sink: place[1],
    "$bundle": lambda value, place, sink: place[2],
    "$sink": lambda value, place, sink: sink,
}
SPECIAL: Final = tuple(_SPECIAL)


def getter(path: str, sink: SinkName) -> Getter | None:
    """The function that reads a source from an item; None: it is the field of this name."""
    if path.startswith("$"):
        special = _SPECIAL[path]
        return lambda value, place: special(value, place, sink)
    steps = path.split(".")
    if len(steps) == 1 and not path.isdecimal():
        return None
    return lambda value, place: _walk(value, steps)


def _walk(value: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        value = (
            value[int(step)]
            if step.isdecimal()
            else value[step]
            if type(value) is Map
            else getattr(value, step)
        )
    return value
