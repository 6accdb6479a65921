"""What lies on disk and in the object store: journal, segments, logs of sinks. Damage is Corrupt, never
another value."""

import io
import struct
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import msgspec
from msgspec.structs import replace

from flamestream.connectors.http import keys as http_keys
from flamestream.connectors.rolling import chain, segments
from flamestream.core.protocol.actions import Bundle
from flamestream.core.protocol.chain import Row
from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import CodeSpan, FrontPosition, SegmentRef, SlotOutput, SnapshotIndex
from flamestream.fenced import log
from flamestream.journal import batches as journal_batches
from flamestream.journal import file as journal_file
from flamestream.journal import seal as journal_seal
from flamestream.model.decoding import DecodeError, from_json
from flamestream.model.errors import Corrupt
from flamestream.model.ids import (
    Attempt,
    Epoch,
    Fence,
    LayoutVersion,
    Offset,
    Partition,
    SequenceNumber,
    SinkName,
    Slot,
    WorkerId,
)
from flamestream.model.layout import Layout
from flamestream.model.time import END, START, FrontId, Time
from flamestream.store.segment import chains_in, merged, part_of, read_segment, slots_in, table_of, written
from flamestream.store.snapshot_index import encode_index
from fuzz.target import Target, attempt

FENCE = Fence(Attempt(3), LayoutVersion(2))
ENTRIES = [
    Entry(Time(5), Partition(""), Offset(0), 2, b"\x92\x01\x02"),
    Entry(Time(4096), Partition("p/1"), Offset(7), 1, b"", Offset(90)),
    Entry(Time(1 << 60), Partition("wörd"), Offset(1 << 40), 4096),
]


# --- the journal --------------------------------------------------------------------------------------------


def journal(data: bytes) -> None:
    """A file as it is; and the same bytes as the body of a record whose checksums are right, which no chance
    would find."""
    _scanned(data)
    if data:
        _scanned(journal_file.head(START) + journal_file.record(ENTRIES[0]) + _checked(data))


def _checked(body: bytes) -> bytes:
    front = journal_file._HEAD.pack(len(body), ENTRIES[1].time, crc32(body))
    return front + crc32(front).to_bytes(4, "little") + body + b"\xff"


def _scanned(data: bytes) -> None:
    found = attempt(lambda given: journal_file.scan(given, "file"), data, Corrupt)
    if found is not None and found.length:
        _summed(data[journal_file.FIRST : found.length])
        again = journal_file.head(found.after) + b"".join(map(journal_file.record, found.entries))
        assert journal_file.scan(again, "file", sealed=True).entries == found.entries, (
            "entries are written as others"
        )
        assert journal_file.scan(data[: found.length], "file", sealed=True).entries == found.entries, (
            "what counts is not what was read"
        )


def _summed(records: bytes) -> None:
    """Each has the checksums that docs/reference/formats.md says."""
    while records:
        length, _, of_body, of_head = struct.unpack_from("<IQII", records)
        body = records[20 : 20 + length]
        assert (crc32(records[:16]), crc32(body), records[20 + length : 21 + length]) == (
            of_head,
            of_body,
            b"\xff",
        ), "damage is read"
        records = records[21 + length :]


def _journals() -> Iterator[bytes]:
    whole = journal_file.head(START) + b"".join(map(journal_file.record, ENTRIES))
    yield whole
    yield whole[:-9]
    yield whole + bytes(20)
    yield msgspec.msgpack.encode(["p", 1, 2, b"", None])


def batch(data: bytes) -> None:
    """Entries as they stand in ZooKeeper and in a topic."""
    found = attempt(lambda given: journal_batches.decoded(given, "batch"), data, Corrupt)
    assert found is None or journal_batches.decoded(journal_batches.encoded(found), "batch") == found


def seal(data: bytes) -> None:
    """With a checksum that is right, too."""
    for given in (data, b"%08x %s\n" % (crc32(data), data)):
        found = attempt(lambda line: journal_seal._decode(line, "seal"), given, Corrupt)
        assert found is None or journal_seal._decode(journal_seal._encode(found), "seal") == found


def _seals() -> Iterator[bytes]:
    yield journal_seal._encode((journal_seal.SealedFile("attempt-00000001-0.log", 17, Time(5)),))
    yield b'[["attempt-00000001-0.log", 17, 5]]'


# --- snapshots ----------------------------------------------------------------------------------------------


def segment(data: bytes) -> None:
    """A Parquet file that somebody else has written."""
    table = attempt(read_segment, data, Corrupt)
    if table is not None:
        part = part_of(table)
        assert len(part.states) == table.num_rows
        chains_in([part])
        if table.num_rows:
            slots_in(table)
            merged([table])
        assert read_segment(bytes(written(table))).equals(table), "a segment is written as another one"


def _segments() -> Iterator[bytes]:
    rows = [
        Row(1, Slot(place % 3), b"k%d" % place, Epoch(place), place % 2 == 0, b"s" * place)
        for place in range(6)
    ]
    yield bytes(written(table_of(rows)))
    yield bytes(written(table_of([])))


MANIFEST = SnapshotIndex(
    job="j", graph="g", python="3.11", slots=4, epoch=Epoch(2), fence=FENCE, cut=Time(9),
    segments=(SegmentRef("j/segments/1.parquet", 9, "00", 3, (Slot(1),)),),
    fronts=(FrontPosition(FrontId(0), Time(8), {Partition(""): Offset(3)}),),
    outputs=(SlotOutput(SinkName("out"), Slot(1), SequenceNumber(2), b"meta"),),
    code=(CodeSpan(START, "abc"),),
)  # fmt: skip
LAYOUT = Layout(
    LayoutVersion(2),
    (WorkerId("a"), WorkerId("b"), WorkerId("a"), WorkerId("b")),
    (WorkerId("a"),),
    WorkerId("b"),
)
RECORD = JobRecord(
    attempt=Attempt(3), layout=LAYOUT, announced=Epoch(2), committed=Epoch(2), cut=Time(9), index="m",
    index_hash="00", job="j", code="abc", writer="n",
)  # fmt: skip


def manifest(data: bytes) -> None:
    """What a committed snapshot consists of."""
    found = attempt(lambda given: from_json(given, SnapshotIndex), data, DecodeError)
    assert found is None or from_json(encode_index(found), SnapshotIndex) == found


def record(data: bytes) -> None:
    """The job record: a coordinator may go on from whatever is taken for one."""
    found = attempt(lambda given: from_json(given, JobRecord), data, DecodeError)
    if found is not None:
        assert from_json(msgspec.json.encode(found), JobRecord) == found
        assert START <= found.cut <= END and found.committed <= found.announced
        # as messages carry it
        msgspec.msgpack.encode((found.fence, found.layout, found.announced, found.committed))


# --- sinks and keys -----------------------------------------------------------------------------------------


def sink_log(data: bytes) -> None:
    """A files sink's log, with a checksum that is right, too; and a rolling sink's segment."""
    for given in (data, log.framed(data)):
        found: Any = attempt(lambda file: list(log.scan(io.BytesIO(file), "log")), given, Corrupt)  # type: ignore[arg-type]
        for each in found or ():
            assert log.framed(given[each.start + log.HEADER : each.end]) == given[each.start : each.end], (
                "damage is read"
            )
            assert log._decode(msgspec.msgpack.encode(each.delivery)) == each.delivery
        stored = attempt(lambda file: segments.decode(file, "segment"), given, Corrupt)
        assert stored is None or segments.decode(segments.encode(stored), "segment") == stored


def _logs() -> Iterator[bytes]:
    bundle = Bundle(Slot(1), SequenceNumber(2), b"meta", b"\x90")
    yield log.encode_record(FENCE, 1, [bundle]) + log.encode_record(FENCE, 2, [])
    yield segments.encode(segments.Seal(FENCE))
    yield segments.encode(segments.Segment(FENCE, 1, [bundle], {Slot(1): 1}))


def decision(data: bytes) -> None:
    """An entry of a rolling sink's chain."""
    found = attempt(lambda given: segments.decoded(chain._decode, given, "decision"), data, Corrupt)
    assert found is None or segments.decoded(chain._decode, chain._encode(found), "decision") == found


def _decisions() -> Iterator[bytes]:
    yield chain._encode(chain.Opened(FENCE, "w"))
    yield chain._encode(chain.Closed(1))
    yield chain._encode(
        chain.Part(
            1, 1, 2, "part-1.parquet", 5, 90, b"a", b"z", [(Slot(1), SequenceNumber(2), b"z", b"\x90")]
        )
    )


class _File:
    """A path that says what it is told to."""

    name = "file"

    def __init__(self, data: bytes) -> None:
        self.read_bytes = lambda: data


def key_log(data: bytes) -> None:
    """Idempotency keys of an HTTP source."""
    found = attempt(lambda given: http_keys._read(_File(given)), data, Corrupt)  # type: ignore[arg-type]
    assert found is None or all(
        later.first >= note.first for note, later in zip(found.notes, found.notes[1:], strict=False)
    )


TARGETS = (
    Target("journal", journal, _journals),
    Target("journal-batch", batch, lambda: [journal_batches.encoded(ENTRIES)], runs=20_000),
    Target("journal-seal", seal, _seals, runs=20_000),
    Target("segment", segment, _segments, runs=1500, largest=4096),
    Target("snapshot-manifest", manifest, lambda: [encode_index(MANIFEST)], runs=20_000),
    Target(
        "job-record",
        record,
        lambda: [msgspec.json.encode(RECORD), msgspec.json.encode(replace(RECORD, cut=END))],
        runs=20_000,
    ),
    Target("sink-log", sink_log, _logs),
    Target("rolling-decision", decision, _decisions, runs=20_000),
    Target("key-log", key_log, lambda: [b'{"start":4}\n[4,2,"a","0a"]\n[6,1,"b","0b"]\n[7'], runs=20_000),
)
