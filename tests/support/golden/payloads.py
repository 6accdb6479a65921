"""Payloads of every kind, behind metas of every length."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import reduce
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

import flamestream as fs
from flamestream.core.dataflow.user_code import Nothing
from flamestream.model.calls.call import Answer, Intent
from flamestream.model.calls.loops import Round
from flamestream.model.event_time import Dated, Marker, Progress, Stamped, Undecoded
from flamestream.model.meta import Meta, child, components, first_component, meta_of, time_of_meta
from flamestream.model.payload import ErrorValue, decode_items, encode_items, payload_type
from flamestream.model.payloads.exact import exact
from flamestream.model.records import Document, KafkaRecord
from flamestream.model.time import Time
from flamestream.model.windows.expiry import Kept
from flamestream.model.windows.join import Waiting
from flamestream.model.windows.latest import Versions
from flamestream.model.windows.marks import Least, Mark
from flamestream.model.windows.panes import Windowed
from flamestream.model.windows.process import Shard, Side
from flamestream.model.windows.program import Failed, Late
from flamestream.model.windows.ranking import Best
from flamestream.model.windows.sessions import Open
from flamestream.model.windows.tables import Changed, Rows
from flamestream.model.windows.unfused import Accumulated, Contribution, Step
from support.golden.format import Format


@fs.event
class Order:
    """An event; its columns are a rolling sink's too."""

    user: str
    cents: int
    positions: fs.Vector[int]
    shares: fs.Map[str, float]


@payload_type
class Packed(msgspec.Struct, frozen=True):
    """A msgspec struct."""

    left: Any
    right: Any


@payload_type
@dataclass(frozen=True)
class Empty:
    """No field."""


@payload_type
class Size(Enum):
    SMALL = 1
    LARGE = 2


def meta(time: int, *steps: int) -> Meta:
    """The meta of a trace: a position in the run, and siblings."""
    return reduce(child, steps[1:], meta_of(Time(time), steps[0]))


ERROR: Final = ErrorValue("shop.price", "ValueError", "nö", "orders", 17)
"""With the fields that it has had from the beginning."""
KINDS: Final[tuple[Any, ...]] = (
    None, False, True, 0, 1, -1, 23, 127, 128, -32, -33, 1 << 16, 1 << 32, -(1 << 63), (1 << 64) - 1,
    0.0, -0.0, 1.0, 1.5e300, float("inf"), float("nan"), "", "wörd", "x" * 40, b"", b"\x00\xff" * 150,
    (), (1,), (1, (2, ("three",))), (None, True, 1, 1.0, "1", b"1"),
    fs.Vector(), fs.Vector([1, "a", (2,)]), fs.Vector(range(40)),
    fs.Map(), fs.Map({"b": 1, "a": fs.Vector([1]), (1, 2): None, 1: 1.0, b"k": True}),
    fs.Set(), fs.Set([3, 1, "2", (4,)]),
    datetime(2026, 3, 2, 9, 0, 0, 5, UTC), datetime(1, 1, 2, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
    datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")), date(1, 1, 1), date(9999, 12, 31),
    Decimal("1.50"), Decimal("-0"), Decimal("1E+5"), Size.SMALL, Size.LARGE,
    Order("ann", 5, fs.Vector([1, 2]), fs.Map({"a": 1.5})), Packed(Empty(), (None,)), Empty(),
)  # fmt: skip
_VALUE, _MAP = ("any", 1), fs.Map({"k": (1, None)})
_PROGRESS: Final = Progress("docs", 1, "p/1", 2, (5, 6), True)
OWN: Final[tuple[Any, ...]] = (
    ErrorValue("shop.price", "ValueError", "nö", "orders", 17, "p/1", 3, "Order(...)", ("shop.py:7 in price",)),
    Answer(meta(5, 0), b"16 bytes of hash", (1, "a"), None), Answer(meta(5, 0), b"16 bytes of hash", (), ERROR),
    Intent(meta(5, 0), b"16 bytes of hash"), Round(), Nothing(),
    Document("a.txt", "text"), KafkaRecord("t", 1, 2, 3, b"k", None, (("h", b"v"), ("n", None))),
    Dated(_VALUE, 5), _PROGRESS, Marker("idle"), Stamped(_VALUE, _PROGRESS), Undecoded(_VALUE),
    Mark(5, 1), Least(_MAP, _MAP, None, True), Late(_VALUE), Failed("f", "E", "m"), Side(1, _VALUE),
    Shard(5, _MAP, _MAP, (_VALUE,)), Windowed("k", 5, 9, _VALUE), Best(9, ("k",)), Open(9, 5, _VALUE),
    Waiting(((5, _VALUE, True),), ()), Changed(None, _VALUE), Rows((1,), (2,), (3,)), Kept(_VALUE, 5, 9),
    Versions(((5, _VALUE),), ((6, _VALUE),)), Contribution("k", _VALUE), Accumulated("k", _VALUE),
    Step("k", _VALUE, _VALUE, True),
)  # fmt: skip
"""One of each class of FlameStream's own: snapshots, journals and sinks have them by module and name."""
TRACES: Final = [
    (5, (0,)), (5, (0, 0)), (5, (0, 127)), (5, (0, 128)), (5, (0, 1 << 14)), (5, (0, 1 << 21)), (5, (0, 1 << 28)),
    (5, (200, 3, 1)), ((1 << 62) + 1, ((1 << 35) - 1, 4095, 4096)),
]  # fmt: skip
"""Times and steps, in the total order."""
Items = list[tuple[bytes, Any]]


def _write(folder: Path, items: Items) -> None:
    (folder / "items.msgpack").write_bytes(encode_items(items))


def _read(folder: Path) -> Items:
    return decode_items((folder / "items.msgpack").read_bytes())


def _write_metas(folder: Path, traces: list[tuple[int, tuple[int, ...]]]) -> None:
    _write(folder, [(meta(time, *steps), steps) for time, steps in traces])


def _read_metas(folder: Path) -> list[tuple[int, tuple[int, ...]]]:
    found = _read(folder)
    assert [each for each, _ in found] == sorted(each for each, _ in found), (
        "their bytes have the order of items"
    )
    for each, steps in found:
        assert (first_component(Meta(each)), components(Meta(each))) == (steps[0], len(steps))
        assert each == meta(time_of_meta(Meta(each)), *steps)
    return [(time_of_meta(Meta(each)), steps) for each, steps in found]


def _items(payloads: tuple[Any, ...]) -> Items:
    return [(meta(4096, number), payload) for number, payload in enumerate(payloads)]


def _exact(items: Items) -> list[tuple[bytes, object]]:
    return [(each, exact(payload)) for each, payload in items]


PAYLOADS: Final = (
    Format("payloads", _write, _read, (_items(KINDS),), _exact),
    Format("own-classes", _write, _read, (_items((ERROR,)), _items(OWN)), _exact),
    Format("metas", _write_metas, _read_metas, (TRACES,)),
)
