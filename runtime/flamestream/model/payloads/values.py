"""Values: what is a payload in one piece, and no scalar: a datetime with its zone, a date, a Decimal, a
member of an enum.

| value                | wire                                     |  |
|----------------------|------------------------------------------|-----|
| datetime with a zone | `[4, microseconds since 1970 UTC, zone]` | zone: offset in us, or a ZoneInfo's name |
| date                 | `[5, day]`                               | 1 is the first day of the year 1 |
| Decimal              | `[6, digits]`                            | as `str` writes them |
| member of an enum    | `[tag of its class, name]`               | the class has @fs.payload_type |

>>> _parts_of_datetime(datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))))
[0, 3600000000]

Keeps: one encoding for each value, the same in every process. A zone comes back as what it was, so one
instant in two zones is two payloads, as 1 and 1.0 are. Does not: read a clock, which is why it may import
`datetime`.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, Flag
from typing import Any, Final

from flamestream.model.errors import Corrupt, PayloadError
from flamestream.model.payloads.registry import Plan, Wire, name_of_type, register, tag_of, too_deep

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
MAX_DIGITS: Final = 1000
"""Digits of a Decimal: it counts as one number, whatever its length."""
_LEAST: Final = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
_MOST: Final = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
_FOREIGN: Final = (ArithmeticError, LookupError, OSError, PayloadError, TypeError, ValueError)
"""The errors that parts of a wire from outside lead to."""


def is_value(payload: object) -> bool:
    """Whether a payload is one of these."""
    return type(payload) in (datetime, date, Decimal) or isinstance(payload, Enum)


# --- datetimes ----------------------------------------------------------------------------------------------


def _parts_of_datetime(value: datetime) -> list[Wire]:
    zone, offset = value.tzinfo, value.utcoffset()
    if zone is None or offset is None:
        raise PayloadError(
            f"the datetime {value.isoformat()} has no zone, so which instant it is depends on who reads it: "
            "use .replace(tzinfo=datetime.UTC) if it is one of UTC, or ZoneInfo(...)"
        )
    microseconds = (value - EPOCH) // MICROSECOND
    # The way back goes by UTC, where no datetime is outside of these years.
    if not _LEAST <= microseconds <= _MOST:
        raise PayloadError(f"the datetime {value.isoformat()} is outside of the years 1 to 9999 in UTC")
    # CPython has one object for all nameless zones of offset 0, so a 0 on the wire means this one alone.
    if zone is UTC:
        return [microseconds, 0]
    if type(zone) is timezone:
        if zone.tzname(None) != timezone(offset).tzname(None):
            raise PayloadError(
                f"a datetime's zone with a name of its own ({zone.tzname(None)}) is not a payload: use "
                "timezone(offset)"
            )
        return [microseconds, offset // MICROSECOND]
    return [microseconds, _name_of_zone(zone, value, microseconds)]


def _name_of_zone(zone: tzinfo, value: datetime, microseconds: int) -> str:
    from zoneinfo import ZoneInfo  # imports much, for few

    if type(zone) is not ZoneInfo or zone.key is None:
        raise PayloadError(
            f"a datetime's zone of {type(zone).__module__}.{type(zone).__qualname__} is not a payload: "
            "use ZoneInfo(NAME)"
        )
    again = (EPOCH + microseconds * MICROSECOND).astimezone(zone)
    # put forward in spring: it would come back as another (!)
    if again.replace(tzinfo=None) != value.replace(tzinfo=None):
        raise PayloadError(
            f"there is no {value.replace(tzinfo=None).isoformat()} in {zone.key}, where clocks were put "
            "forward: use UTC"
        )
    return zone.key


def _datetime_back(microseconds: Any, zone: Any) -> datetime:
    value = EPOCH + timedelta(microseconds=microseconds)
    if zone == 0:
        return value
    if isinstance(zone, str):
        from zoneinfo import ZoneInfo

        return value.astimezone(ZoneInfo(zone))
    return value.astimezone(timezone(timedelta(microseconds=zone)))


# --- decimals -----------------------------------------------------------------------------------------------


def _parts_of_decimal(value: Decimal) -> list[Wire]:
    if not value.is_finite():
        raise PayloadError(f"the Decimal {value} is not a payload: use None or a float for what is no number")
    digits = len(value.as_tuple().digits)
    if digits > MAX_DIGITS:
        raise PayloadError(
            f"a Decimal of {digits} digits is not a payload: {MAX_DIGITS} are the most; use str(value)"
        )
    return [str(value).upper()]  # a context may want a small e


def _decimal_back(digits: Any) -> Decimal:
    if type(digits) is not str:
        raise TypeError(f"{type(digits).__name__} instead of digits")
    return Decimal(digits)


# --- enums, and how all are registered ----------------------------------------------------------------------


def register_enum(cls: type[Enum]) -> None:
    """Make an enum's members payloads. Raises PayloadError for flags, and for values that JSON would not tell
    apart."""
    name = name_of_type(cls)
    if issubclass(cls, Flag):
        raise PayloadError(f"{name} is a Flag, whose members can be combined to what has no name: use an int")
    if {type(member.value) for member in cls} not in ({str}, {int}):
        raise PayloadError(
            f"{name} cannot be a payload type: the values of an enum's members must be all str or all int"
        )

    def back(name_of_member: Any) -> Enum:
        return cls[name_of_member]

    _register(cls, tag_of(name), name, lambda member: [member.name], back)


def _register(
    cls: type, tag: int, name: str, parts: Callable[[Any], list[Wire]], back: Callable[..., Any]
) -> None:
    def to_wire(value: Any, room: int) -> list[Wire]:
        if room <= 0:
            raise too_deep()
        return [tag, *parts(value)]

    def from_wire(wire: list[Wire], room: int) -> Any:
        try:
            value = back(*wire[1:])
            written = parts(value)
        except _FOREIGN as error:
            raise Corrupt(f"what is stored as a {name} is none: {type(error).__name__}: {error}") from error
        # one encoding for each value (!)
        # also of the types in it: to `==` True is 1
        if written != wire[1:] or list(map(type, written)) != list(map(type, wire[1:])):
            raise Corrupt(f"what is stored as a {name} is not how one is written")
        return value

    def height(value: Any, room: int) -> int:
        # it refuses what is no payload, and has at least the tag
        return 1 if to_wire(value, room) else 0

    register(Plan(cls, tag, name, to_wire, from_wire, height))


_register(datetime, 4, "datetime", _parts_of_datetime, _datetime_back)
_register(date, 5, "date", lambda value: [value.toordinal()], date.fromordinal)
_register(Decimal, 6, "Decimal", _parts_of_decimal, _decimal_back)
