"""A files sink's folder, the cursor of its events, a Kafka sink's records, a rolling sink's place."""

from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

import flamestream as fs
from flamestream.connectors.kafka import control
from flamestream.connectors.kafka.control import Announcement, ControlTopic, SlotState, WriterState
from flamestream.connectors.kafka.items import HEADER, Place, Places, pack, place_in
from flamestream.connectors.kit.folder import Writing
from flamestream.connectors.rolling import reading
from flamestream.connectors.rolling.chain import Chain, Closed, Decision, Opened, OpenLog, Part, State
from flamestream.connectors.rolling.connector import Rolling
from flamestream.connectors.rolling.opening import Owner
from flamestream.connectors.rolling.parts import PartFormat, part_format
from flamestream.connectors.rolling.segments import Seal, Segment, decode, encode
from flamestream.connectors.rolling.writing import Log
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.protocol.events import LastBundle
from flamestream.fenced.fences import FencedFolder
from flamestream.fenced.reading import read_all, read_items, read_moments
from flamestream.fenced.tail import Cursor, _Place
from flamestream.model.ids import (
    Attempt,
    Fence,
    LayoutVersion,
    SequenceNumber,
    SinkName,
    Slot,
    WorkerId,
)
from flamestream.model.meta import Meta, meta_of
from flamestream.model.payload import encode_items
from flamestream.model.time import Time
from flamestream.store.folder import LocalStore
from support.golden.format import Format
from support.golden.payloads import Order

JOB, SINK, WRITER = "words", SinkName("out"), WorkerId("w/1")
SLOTS: Final = [Slot(0), Slot(1), Slot(2)]


def _fence(attempt: int) -> Fence:
    return Fence(Attempt(attempt), LayoutVersion(1))


def _meta(time: int) -> Meta:
    return meta_of(Time(time), 0)


def _bundle(slot: int, sequence: int, *items: tuple[int, Any]) -> Bundle:
    """Items, each of a time."""
    encoded = encode_items([(_meta(time), payload) for time, payload in items])
    return Bundle(Slot(slot), SequenceNumber(sequence), _meta(items[-1][0]), encoded)


DELIVERIES: Final = {
    3: [_bundle(0, 1, (5, "a"), (6, None)), _bundle(1, 1, (7, ("b", 1)))],
    4: [_bundle(0, 2, (8, "c"))],
}
"""What an attempt delivers."""
ITEMS: Final = [
    (_meta(5), 0, 1, "a"), (_meta(6), 0, 1, None), (_meta(7), 1, 1, ("b", 1)), (_meta(8), 0, 2, "c"),
]  # fmt: skip
LAST: Final = {
    Slot(0): LastBundle(SequenceNumber(2), _meta(8), encode_items([(_meta(8), "c")])),
    Slot(1): LastBundle(SequenceNumber(1), _meta(7), encode_items([(_meta(7), ("b", 1))])),
}
DELIVERED: Final = (ITEMS, LAST)
"""What readers find, and a next attempt."""
WRITTEN: Final = 1_764_292_800_000_000
"""By the clock of who writes a files sink."""
MOMENTS: Final = [(0, 1, WRITTEN), (0, 2, WRITTEN), (1, 1, WRITTEN)]


# --- files --------------------------------------------------------------------------------------------------


def _writing(folder: Path) -> Writing:
    return Writing(FencedFolder(folder), False, JOB, SINK, WRITER, lambda: WRITTEN)


def _write_files(folder: Path, _: object) -> None:
    for attempt, bundles in DELIVERIES.items():
        writing = _writing(folder)
        writing.open(OpenSink(_fence(attempt), SINK, SLOTS))
        writing.deliver(Deliver(_fence(attempt), SINK, 1, bundles))
        writing.close()


def _read_files(folder: Path) -> object:
    items = list(read_items(folder, (JOB, SINK)))
    assert sorted(read_all(folder)) == sorted(tuple(bundle) for its in DELIVERIES.values() for bundle in its)
    writing = _writing(folder)
    last = writing.open(OpenSink(_fence(5), SINK, SLOTS))
    writing.close()
    return items, last, sorted(read_moments(folder))


CURSOR: Final = Cursor(
    _fence(4), {"attempt-4-1-w%2F1-0.log": _Place(300, 2), "attempt-5-1-w%2F1-1.log": _Place(0)}
)
"""A client of events has it from one release, and shows it to the next."""


def _write_cursor(folder: Path, cursor: Cursor) -> None:
    (folder / "cursor").write_text(str(cursor))


def _read_cursor(folder: Path) -> Cursor:
    return Cursor.parse((folder / "cursor").read_text())


# --- Kafka --------------------------------------------------------------------------------------------------

PLACE: Final = Place(
    tag=b"tag of 8", attempt=3, layout=1, slot=7, sequence=300, count=2, meta=_meta(5), digest=b"hash of8"
)
ANNOUNCED: Final = Announcement(version=1, fence=_fence(3), writer="words-out-w", offsets={0: 17, 1: 0})
STATE: Final = WriterState(
    version=1, fence=_fence(3), writer="words-out-w", offsets={0: 17},
    slots=[
        SlotState(slot=7, sequence=300, t_last=_meta(5), digest=b"hash of8", last=encode_items([(_meta(5), "a")])),
        SlotState(slot=8, sequence=1, t_last=_meta(4), digest=b"hash of9", last=b""),
    ],
    present={7: [_meta(6)]}, topic="words id-1",
)  # fmt: skip


def _write_header(folder: Path, place: Place) -> None:
    before, after = Places(place.tag, place.attempt, place.layout).around(
        place.slot, place.sequence, place.count, place.digest
    )
    (folder / HEADER).write_bytes(before + pack(place.meta) + after)


def _read_header(folder: Path) -> Place | None:
    return place_in([(HEADER, (folder / HEADER).read_bytes())])


class _Records:
    """Clients and a producer of Kafka that write to a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def producer(self, **settings: object) -> "_Records":
        return self

    def produce(self, topic: str, value: bytes, key: bytes, partition: int, on_delivery: Any) -> None:
        (self._folder / ("announcement", "state")[partition]).write_bytes(value)
        on_delivery(None, None)

    def flush(self, seconds: float) -> None:
        pass


def _control(folder: Path) -> tuple[ControlTopic, Any]:
    records: Any = _Records(folder)
    return ControlTopic(records, "control", JOB, SINK, "sink out"), records


def _write_control(folder: Path, told: tuple[Announcement, WriterState]) -> None:
    topic, producer = _control(folder)
    topic.announce([told[0]])
    topic.store(producer, told[1], lambda error, message: None)


def _read_control(folder: Path) -> tuple[Announcement, WriterState]:
    topic, _ = _control(folder)
    announced, state = ((folder / name).read_bytes() for name in ("announcement", "state"))
    return (
        topic._decoded(control._decode_announcement, announced),
        topic._decoded(control._decode_state, state),
    )


# --- rolling ------------------------------------------------------------------------------------------------


def _log(folder: Path, attempt: int) -> Log:
    owner, settings = Owner(1, JOB, SINK, "jsonl", None), Rolling(path=str(folder), format="jsonl")
    form = part_format("jsonl", None, "sink out")
    return Log(
        LocalStore(folder, create=True), settings, form, owner, WRITER, OpenSink(_fence(attempt), SINK, SLOTS)
    )


def _write_rolling(folder: Path, _: object) -> None:
    """Attempt 3 makes a part; 4 seals and closes its log, and leaves a segment."""
    for attempt, bundles in DELIVERIES.items():
        log = _log(folder, attempt)
        if attempt > 3:
            log.close_older()
        log.deliver(Deliver(_fence(attempt), SINK, 1, bundles))
        if attempt == 3:
            log.roll()


def _read_rolling(folder: Path) -> object:
    items = list(reading.rows(LocalStore(folder), "sink out", (JOB, SINK)))
    return items, _log(folder, 5).last


SEGMENTS: Final = (
    Segment(
        fence=_fence(3),
        number=9,
        bundles=[(Slot(1), SequenceNumber(2), _meta(5), encode_items([]))],
        newest={Slot(1): 1, Slot(2): 7},
    ),
    Seal(_fence(4)),
)
"""A log's two kinds of objects."""
PART: Final = Part(
    log=63,
    first=1,
    last=40,
    file="part-000000000063-000000000001.parquet",
    rows=81920,
    size=1 << 26,
    least=_meta(5),
    most=b"\0\xff",
    newest=[(Slot(1), SequenceNumber(2), _meta(5), encode_items([]))],
)
DECISIONS: Final[list[Decision]] = [
    *(each for number in range(1, 63, 2) for each in (Opened(_fence(number), "w/1"), Closed(number))),
    Opened(_fence(63), "w/2"),
    PART,
]
CHECKPOINT: Final = State(
    index=64,
    newest=_fence(63),
    logs={63: OpenLog(fence=_fence(63), writer="w/2", absorbed=40)},
    last={Slot(1): PART.newest[0]},
    parts=[],
    before=64,
)
"""The state that DECISIONS come to, and the parts that are known then."""


def _write_segments(folder: Path, stored: tuple[Segment | Seal, ...]) -> None:
    for number, each in enumerate(stored, 1):
        (folder / f"{number}").write_bytes(encode(each))


def _read_segments(folder: Path) -> object:
    return tuple(decode(file.read_bytes(), file.name) for file in sorted(folder.iterdir()))


def _write_checkpoint(folder: Path, _: object) -> None:
    """Of 64 decisions the checkpoint stays, which stands for them, and one of each kind."""
    chain = Chain(LocalStore(folder, create=True))
    decisions = iter(DECISIONS)
    for _each in DECISIONS:
        chain.append(lambda state: next(decisions))
    for file in sorted((folder / "_flamestream/chain").iterdir())[2:-1]:
        file.unlink()


def _read_checkpoint(folder: Path) -> object:
    chain = Chain(LocalStore(folder))
    return chain.refresh(), list(chain.parts())


ROWS: Final = [
    (_meta(5), 0, 1, Order(user="ann", cents=5, positions=fs.Vector([1, 2]), shares=fs.Map({"a": 1.5}))),
    (_meta(6), 1, 1, ("no order", None, b"\xff")),
    (_meta(7), 1, 2, None),
]
TYPE: Final = "support.golden.payloads:Order"


def _forms() -> dict[str, PartFormat]:
    return {name: part_format(name, TYPE, "sink out") for name in ("parquet", "jsonl")}


def _write_part(folder: Path, rows: list[Any]) -> None:
    for name, form in _forms().items():
        (folder / f"part.{name}").write_bytes(form.encoded(rows))


def _read_part(folder: Path) -> object:
    parquet, jsonl = (
        list(form.rows((folder / f"part.{name}").read_bytes(), name)) for name, form in _forms().items()
    )
    assert parquet == jsonl
    return parquet


SINKS: Final = (
    Format(
        "files-sink",
        _write_files,
        _read_files,
        ((*DELIVERED, []), (*DELIVERED, MOMENTS)),
    ),
    Format("events-cursor", _write_cursor, _read_cursor, (CURSOR,)),
    Format("kafka-header", _write_header, _read_header, (PLACE,)),
    Format(
        "kafka-control",
        _write_control,
        _read_control,
        ((ANNOUNCED, replace(STATE, topic="")), (ANNOUNCED, STATE)),
    ),
    Format("rolling-sink", _write_rolling, _read_rolling, (DELIVERED,)),
    Format("rolling-segment", _write_segments, _read_segments, (SEGMENTS,)),
    Format("rolling-chain", _write_checkpoint, _read_checkpoint, ((CHECKPOINT, [PART]),)),
    Format("rolling-part", _write_part, _read_part, (ROWS,)),
)
