"""Rows as payloads: what stands in JSON, CSV or Parquet has dicts, lists and dates; a payload is an fs.Map, a
tuple, a number or a text, or the user's own class.

| there                                      | payload                                  |
|--------------------------------------------|------------------------------------------|
| object, struct                             | fs.Map, or the field's class             |
| array, list                                | tuple, or what the field is annotated as |
| timestamp, duration                        | int, microseconds (since 1970, UTC)      |
| date, time, decimal, UUID                  | str, as ISO 8601 writes it, or digits    |
| timestamp, date, decimal of a class's field | what the field is annotated as          |

>>> payload_of({"a": [1, None]})
Map({'a': (1, None)})

Keeps: what is given is a payload. Does not: guess types of CSV values (they are texts, unless a class says
otherwise).
"""

import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any, Final

from flamestream.model import payload as codec
from flamestream.model.collections import Map
from flamestream.model.decoding import json_decoder
from flamestream.model.errors import ManifestError, PayloadError
from flamestream.model.event_decoder import WRONG, Decoder
from flamestream.model.payloads.registry import PLANS
from flamestream.model.payloads.values import EPOCH, MICROSECOND

MAX_VALUES: Final = 1_000_000
JSON: Final = ",[{"
"""Each value of a JSON text but the first stands behind one of these."""
_any: Final = json_decoder()


def check_values(text: bytes | str, marks: str = JSON) -> None:
    """Raises ValueError for text that somebody else wrote with more than `MAX_VALUES`. `marks`: what stands
    before a value.

    `[[],[],...` of 16 MiB are five million lists, half a gigabyte. So values are counted before one is made,
    by what stands between them. What is inside of quotes counts too, which only a hundred pages of text come
    near."""
    if len(text) < MAX_VALUES:  # nearly every text ends here
        return
    values = 1 + sum(
        text.count(mark) if isinstance(text, str) else text.count(mark.encode()) for mark in marks
    )
    if values > MAX_VALUES:
        raise ValueError(f"it has up to {values} values, more than {MAX_VALUES}: make records of its parts")


def payload_of(value: Any) -> Any:
    """Any value of JSON or Parquet as a payload."""
    if type(value) in codec.SCALARS:
        return value
    if isinstance(value, dict):
        return Map({key: payload_of(inner) for key, inner in value.items()})
    if isinstance(value, list | tuple):
        return tuple(map(payload_of, value))
    return plain(value)


def plain(value: Any) -> Any:
    """Scalars that are no payloads as ones that are, in whatever dicts and lists they stand."""
    if type(value) in codec.SCALARS:
        return value
    match value:
        case dict():
            return {key: plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case datetime.datetime():
            return (value.replace(tzinfo=value.tzinfo or datetime.UTC) - EPOCH) // MICROSECOND
        case datetime.timedelta():
            return value // MICROSECOND
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal() | uuid.UUID():
            return str(value)
        case _:
            return value


class BadRow(ValueError):
    """A row cannot be the payload that is wanted."""


class Rows:
    """Rows as fs.Map, or as instances of one class. What does not fit raises BadRow."""

    def __init__(self, cls: type | None) -> None:
        self._decoder: Decoder[Any] | None = None if cls is None else Decoder(cls)

    def of_json(self, line: bytes | str) -> object:
        """A line of JSON. Raises ValueError too if it has too many values."""
        check_values(line)
        return self._made(lambda: _any(line) if self._decoder is None else self._decoder.of_json(line))

    def of_values(self, row: dict[str, Any]) -> object:
        """The payload of a row of Parquet."""
        return self._made(lambda: row if self._decoder is None else self._decoder.of_values(plain(row)))

    def of_texts(self, row: dict[str, str]) -> object:
        """A row of CSV. For a class, an empty value of a field that is no text counts as none."""
        return self._made(lambda: row if self._decoder is None else self._decoder.of_texts(row))

    def _made(self, make: Callable[[], object]) -> object:
        try:
            made = make()
            payload = payload_of(made) if self._decoder is None else made
            if type(payload) is not Map:  # which has checked what was put into it
                codec.check(payload)
        except (*WRONG, PayloadError) as error:
            raise BadRow(str(error)) from error
        return payload


def row_class(name: str | None, where: str) -> type | None:
    """The payload class that a manifest calls `name`: Order, or module:Order."""
    if name is None:
        return None
    found = [
        plan.cls
        for plan in PLANS.values()
        if plan.labels is not None and name in (plan.name, plan.name.partition(":")[2])
    ]
    if len(found) == 1:
        return found[0]
    mine = sorted(
        plan.name
        for plan in PLANS.values()
        if plan.labels is not None and not plan.name.startswith("flamestream.")
    )
    known = f"it has {', '.join(mine)}" if mine else "it has none"
    what = (
        "several classes have this name: write module:Class"
        if found
        else "no class of the application has this name"
    )
    raise ManifestError(
        f"{where}: {name!r}: {what}; decorate a frozen dataclass with @fs.payload_type ({known})"
    )
