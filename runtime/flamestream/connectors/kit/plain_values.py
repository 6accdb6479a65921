"""A payload as somebody else reads it: JSON values, and forms of them that can be compared and counted.

    text, numbers, bool, None    themselves; NaN, infinities: as `Words` says
    bytes                        text, as `Words` says
    a class                      an object of its fields
    tuple, Vector, Set           an array
    Map                          an object, or pairs where a key is no text
    datetime, date               text of ISO 8601, `Z` for UTC; a Decimal its digits
    a member of an enum          its value

This says once more, from the documents of the sinks alone (docs/reference/postgres.md,
docs/reference/redis.md, docs/reference/kafka.md, docs/reference/http.md), what their encoders do: an audit
that asked an encoder what to expect would agree with its mistakes.

Keeps: True is not 1, and "1" is not 1; 1 and 1.0 are one number, as in JSON. Does not: import a sink.
"""

import base64
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final

from flamestream.connectors.kit.standing import Wanted
from flamestream.model.collections import Map
from flamestream.model.decoding import DecodeError, from_json
from flamestream.model.errors import UserError
from flamestream.model.meta import time_of_meta
from flamestream.model.payloads.registry import PLANS
from flamestream.model.time import timestamp_of

BUNDLE: Final = "$bundle"
"""How items were put into bundles is the workers' doing: no reference knows it."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a medium for what JSON has none for."""

    of_bytes: Callable[[bytes], str | bytes]
    nan: str | float | None
    infinity: str | float | None


HEX: Final = Words(lambda data: f"\\x{data.hex()}", "NaN", "Infinity")
"""In tables, hashes, streams and events."""
BASE64: Final = Words(lambda data: base64.b64encode(data).decode(), None, None)
"""In a topic."""


def plain(payload: Any, words: Words) -> Any:
    """The value that a reader of JSON gets for a payload."""
    if isinstance(payload, Enum):
        return payload.value
    if payload is None or isinstance(payload, str | bool | int):
        return payload
    if isinstance(payload, float):
        return payload if math.isfinite(payload) else _strange(payload, words)
    if isinstance(payload, bytes):
        return words.of_bytes(payload)
    if isinstance(payload, Map):
        pairs = [(key, plain(value, words)) for key, value in payload.items()]
        named = all(isinstance(key, str) for key, _ in pairs)
        return dict(pairs) if named else [[plain(key, words), value] for key, value in pairs]
    if isinstance(payload, datetime | date):
        return payload.isoformat().replace("+00:00", "Z")
    if isinstance(payload, Decimal):
        return str(payload)
    if (plan := PLANS.get(type(payload))) is not None and plan.labels is not None:
        return {name: plain(getattr(payload, name), words) for name in plan.labels}
    return [plain(part, words) for part in payload]


def _strange(value: float, words: Words) -> str | float | None:
    if math.isnan(value):
        return words.nan
    if value > 0 or words.infinity is None:
        return words.infinity
    return f"-{words.infinity}" if isinstance(words.infinity, str) else -words.infinity


def form(value: Any) -> Hashable:
    """A hashable form of a plain value: equal forms are equal values."""
    # Before numbers, since True == 1 to Python.
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, dict):
        return "object", frozenset((str(name), form(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return "array", tuple(form(part) for part in value)
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, str):
        # A pair, so that no text has the form of NaN.
        return "text", value
    if isinstance(value, Hashable):
        return value
    return type(value).__name__, repr(value)


def form_of_text(data: bytes | str) -> Hashable:
    """The form of a text that stands somewhere: of the JSON that it is, else of the text itself."""
    try:
        return form(from_json(data))
    except DecodeError:
        return form(data.decode(errors="backslashreplace") if isinstance(data, bytes) else data)


def short(value: Any, length: int = 200) -> str:
    """A value as messages show it."""
    text = repr(value)
    return text if len(text) <= length else f"{text[:length]}..."


def value_of(source: str, item: Wanted, sink: str) -> Any:
    """The part of an item that a manifest names as the `source` of a column or field. Raises UserError if its
    payload has no such part."""
    try:
        return _part(source, item, sink)
    except (LookupError, AttributeError, TypeError) as error:
        raise UserError(
            f"sink {sink!r}: the reference's {short(item.payload)} has no {source!r}: {error}"
        ) from error


def _part(source: str, item: Wanted, sink: str) -> Any:
    match source:
        case "$payload":
            return item.payload
        case "$meta":
            return bytes(item.meta)
        case "$time":
            return timestamp_of(time_of_meta(item.meta))
        case "$slot":
            return int(item.slot)
        case "$sink":
            return sink
    found = item.payload
    for step in source.split("."):
        part = int(step) if step.isdecimal() else step
        found = found[part] if isinstance(part, int) or isinstance(found, Map) else getattr(found, part)
    return found
