"""Datetimes, dates, decimals and members of enums are payloads with one encoding; what would come back as
another is refused."""

import enum
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal, localcontext
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from flamestream.connectors.kafka.plain import plain_of
from flamestream.connectors.kit import item_columns, plain_values
from flamestream.model import payload
from flamestream.model.errors import Corrupt, PayloadError
from flamestream.model.payloads import encoding
from flamestream.model.payloads.exact import exact

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 1, 2, 12, 0, 0, 5, tzinfo=UTC)


@payload.payload_type
class Colour(enum.Enum):
    RED = "red"
    ROUGE = "red"  # noqa: PIE796 (another name of it)
    BLUE = "blue"


@payload.payload_type
class Level(enum.IntEnum):
    LOW = 1


VALUES = [
    NOON,
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    NOON.astimezone(timezone(timedelta(hours=-3, minutes=-30))),
    NOON.astimezone(BERLIN),
    datetime(2026, 10, 25, 2, 30, fold=0, tzinfo=BERLIN),
    datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN),
    date(2026, 1, 2),
    Decimal("1.50"),
    Decimal("-0"),
    Decimal("1E+30"),
    Colour.BLUE,
    Level.LOW,
]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    for codec in (payload, encoding):
        back = codec.decode(codec.encode((value,)))[0]
        assert (type(back), repr(back)) == (type(value), repr(value))
        assert getattr(back, "fold", 0) == getattr(value, "fold", 0)
        assert codec.checked_size((value,)) == encoding.checked_size((value,))
    assert payload.encode(value) == encoding.encode(value)


def test_all_values_have_bytes_and_exact_forms_of_their_own() -> None:
    assert len({payload.encode(value) for value in VALUES}) == len(VALUES)
    assert len({exact(value) for value in VALUES}) == len(VALUES), "fold is part of what a datetime is"


def test_the_encoding_is_fixed() -> None:
    """These bytes are in journals, snapshots and sinks: a change of them is a change of format."""
    assert payload.encode(datetime(1970, 1, 1, 1, tzinfo=BERLIN)) == b"\x93\x04\x00\xadEurope/Berlin"
    assert payload.encode(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == b"\x93\x04\xce\x00\x0f\x42\x40\x00"
    assert payload.encode(date(1, 1, 1)) == b"\x92\x05\x01"
    assert payload.encode(Decimal("1.50")) == b"\x92\x06\xa41.50"


def test_a_decimal_is_written_alike_in_every_context() -> None:
    with localcontext() as context:
        context.capitals, context.prec = 0, 1
        assert payload.decode(payload.encode(Decimal("1.5E+30"))) == Decimal("1.5E+30")
        assert payload.encode(Decimal("1.5E+30")).endswith(b"1.5E+30")


class Own(tzinfo):
    def utcoffset(self, at: datetime | None) -> timedelta:
        return timedelta(hours=1)

    def dst(self, at: datetime | None) -> timedelta | None:
        return None

    def tzname(self, at: datetime | None) -> str:
        return "own"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (datetime(2026, 1, 2), r"2026-01-02T00:00:00 has no zone.*\.replace\(tzinfo=datetime\.UTC\)"),  # noqa: DTZ001
        (datetime(2026, 1, 2, tzinfo=Own()), r"Own is not a payload: use ZoneInfo\(NAME\)"),
        (datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=1), "X")), r"a name of its own \(X\)"),
        (datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN), "there is no 2026-03-29T02:30:00 in Europe/Berlin"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "outside of the years 1 to 9999"),
        (Decimal("NaN"), "the Decimal NaN is not a payload"),
        (Decimal("1" * 1001), "a Decimal of 1001 digits"),
    ],
)
def test_what_would_come_back_as_another_is_refused_with_the_way_out(value: Any, message: str) -> None:
    for refuse in (payload.check, payload.encode, payload.checked_size, encoding.encode):
        with pytest.raises(PayloadError, match=message):
            refuse((1, value))
    with pytest.raises(PayloadError, match=r"\(at payload\[1\]\)"):
        payload.encode((1, value))


@pytest.mark.parametrize(
    "wire",
    [
        [4], [4, 0], [4, 0, 0, 0], [4, 0, None], [4, 0.5, 0], [4, True, 0], [4, 1 << 63, 0], [4, 0, 1 << 62],
        [4, 0, "No/Zone"], [4, 0, "../etc/passwd"], [4, 0, "Europe"], [4, 0, "\0"], [4, 0, False],
        [4, "0", 0], [4, [0], 0], [5, 0], [5, "1"], [5, True], [5, 1 << 40], [6, "1_0"], [6, " 1"], [6, 1],
        [6, "NaN"], [6, "x"], [6, "1e5"], [6, [1]],
    ],
    ids=str,
)  # fmt: skip
def test_foreign_bytes_are_corrupt_and_nothing_else(wire: list[Any]) -> None:
    with pytest.raises(Corrupt):
        payload.decode(msgspec.msgpack.encode(wire))


@pytest.mark.parametrize("name", ["ROUGE", "GREEN", 1, None])
def test_a_member_that_is_not_there_is_corrupt(name: Any) -> None:
    tag = msgspec.msgpack.decode(payload.encode(Colour.RED))[0]
    with pytest.raises(Corrupt, match="Colour"):
        payload.decode(msgspec.msgpack.encode([tag, name]))


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Mixed(enum.Enum):
    A = 1
    B = "b"


def test_enums_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(PayloadError, match="is a Flag"):
        payload.payload_type(Rights)
    with pytest.raises(PayloadError, match="all str or all int"):
        payload.payload_type(Mixed)


@pytest.mark.parametrize("value", VALUES[:6] + VALUES[8:], ids=str)
def test_sinks_and_audits_say_the_same_plain_value(value: Any) -> None:
    said = msgspec.to_builtins(value)
    assert item_columns.plain((value,)) == [said]
    assert plain_values.plain((value,), plain_values.HEX) == [said]
    assert msgspec.to_builtins(plain_of((value,))) == [said]
