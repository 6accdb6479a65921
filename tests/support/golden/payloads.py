"""Payloads of every kind, behind metas of every length."""

from dataclasses import dataclass, replace
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
from flamestream.model.tables.kept_changes import KeptChange
from flamestream.model.tables.ledger import Rows as Ledger
from flamestream.model.tables.transaction import Aborted, Decision, Write
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
from flamestream.model.windows.unfused import Accumulated, Contribution, Step, Unbegun
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


ERROR: Final = ErrorValue(function="shop.price", error="ValueError", message="nö", source="orders", offset=17)
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
    Order(user="ann", cents=5, positions=fs.Vector([1, 2]), shares=fs.Map({"a": 1.5})),
    Packed(left=Empty(), right=(None,)), Empty(),
)  # fmt: skip
_VALUE, _MAP = ("any", 1), fs.Map({"k": (1, None)})
_PROGRESS: Final = Progress(source="docs", front=1, partition="p/1", fronts=2, times=(5, 6), idle=True)
_BEFORE_TABLES: Final[tuple[Any, ...]] = (
    ErrorValue(
        function="shop.price",
        error="ValueError",
        message="nö",
        source="orders",
        offset=17,
        partition="p/1",
        operation=3,
        payload="Order(...)",
        traceback=("shop.py:7 in price",),
    ),
    Answer(request=meta(5, 0), hash=b"16 bytes of hash", results=(1, "a"), error=None),
    Answer(request=meta(5, 0), hash=b"16 bytes of hash", results=(), error=ERROR),
    Intent(request=meta(5, 0), hash=b"16 bytes of hash"),
    Round(),
    Nothing(),
    Document(name="a.txt", text="text"),
    KafkaRecord(
        topic="t",
        partition=1,
        offset=2,
        timestamp=3,
        key=b"k",
        value=None,
        headers=(("h", b"v"), ("n", None)),
    ),
    Dated(item=_VALUE, time=5),
    _PROGRESS,
    Marker("idle"),
    Stamped(record=_VALUE, progress=_PROGRESS),
    Undecoded(_VALUE),
    Mark(time=5, shard=1),
    Least(partitions=_MAP, fronts=fs.Map({1: 5}), mark=None, moved=True),
    Late(_VALUE),
    Failed(function="f", error="E", message="m"),
    Side(number=1, item=_VALUE),
    Shard(mark=5, states=_MAP, due=fs.Map({5: ("k",)}), results=(_VALUE,)),
    Windowed(key="k", start=5, end=9, value=_VALUE),
    Best(end=9, keys=("k",)),
    Open(end=9, start=5, folded=_VALUE),
    Waiting(left=((5, _VALUE, True),), right=()),
    Changed(before=None, after=_VALUE),
    Rows(left=(1,), right=(2,), replaced=(3,)),
    Kept(accumulator=_VALUE, last=5, alarm=9),
    Versions(waiting=((5, _VALUE),), versions=((6, _VALUE),)),
    Contribution(key="k", payload=_VALUE),
    Accumulated(key="k", accumulator=_VALUE),
    Step(key="k", accumulator=1, payload=_VALUE, failed=True),
)
_WRITE = Write(table="t", key="k", before=0, after=_VALUE)
_KEPT = KeptChange(number=3, slots=2, key="k", before=0, after=_VALUE, deleted=False)
_BEFORE_DELETIONS: Final[tuple[Any, ...]] = (
    *_BEFORE_TABLES,
    Aborted(transaction=_VALUE, reason="a check", table="t", key="k"),
    _WRITE,
    Decision(result=_VALUE, writes=(_WRITE,)),
    Ledger(rows=fs.Map({("t", "k"): _VALUE}), number=1, decision=Decision(result=None, aborted=True)),
)
_BEFORE_WATCHES: Final = (*_BEFORE_DELETIONS, replace(_WRITE, deleted=True))
_BEFORE_UNBEGUN: Final = (*_BEFORE_WATCHES, _KEPT)
OWN: Final = (*_BEFORE_UNBEGUN, Unbegun())
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


OWN_BY_VERSION: Final = tuple(
    map(_items, [(ERROR,), _BEFORE_TABLES, _BEFORE_DELETIONS, _BEFORE_WATCHES, _BEFORE_UNBEGUN, OWN])
)
PAYLOADS: Final = (
    Format("payloads", _write, _read, (_items(KINDS), _items(KINDS)), _exact),
    Format("own-classes", _write, _read, OWN_BY_VERSION, _exact),
    Format("metas", _write_metas, _read_metas, (TRACES,)),
)
