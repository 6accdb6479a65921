"""Snapshots: what Uploaded names is there and whole, Loaded is exactly what was uploaded, and damage names
the object."""

import errno
import json
import os
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from flamestream.core.protocol.actions import Load, Prefetch, Upload
from flamestream.core.protocol.chain import Row, chains_of
from flamestream.core.protocol.events import Event, Loaded, LoadFailed, Prefetched, Uploaded, UploadFailed
from flamestream.core.protocol.formats import NEWEST
from flamestream.core.protocol.snapshot import FrontPosition, SegmentRef, SlotOutput, SnapshotIndex
from flamestream.loop.reactor import EpollReactor
from flamestream.model.errors import Corrupt, StoreUnavailable
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
from flamestream.model.state_names import LEAST_NUMBER
from flamestream.model.time import FrontId, Time
from flamestream.store import snapshots as module
from flamestream.store.folder import LocalStore
from flamestream.store.snapshot_index import delete_objects, read_index, write_index
from flamestream.store.snapshots import StoreSnapshots, checksum_of
from support.loops import reactor, turn_until
from support.segment_rows import decode_segment, encode_segment

FENCE = Fence(Attempt(4), LayoutVersion(2))
NEWER = Fence(Attempt(5), LayoutVersion(2))


class Faulty:
    """A store whose next calls fail in a chosen way."""

    def __init__(self, store: LocalStore) -> None:
        self.store = store
        self.fault = ""
        self.calls: list[str] = []
        self.hang = threading.Event()
        self.hang.set()

    def put_new(self, name: str, data: bytes | memoryview) -> bool:
        self.calls.append("put")
        assert self.hang.wait(30)
        if self.fault == "away":
            raise StoreUnavailable("the store is away")
        created = self.store.put_new(name, data)
        if self.fault == "answer lost" and created:
            raise StoreUnavailable("timed out")
        return created

    def get(self, name: str) -> bytes:
        self.calls.append("get")
        if self.fault == "away":
            raise StoreUnavailable("the store is away")
        return self.store.get(name)

    def delete(self, *names: str) -> None:
        if self.fault == "away":
            raise StoreUnavailable("the store is away")
        self.store.delete(*names)

    def names(self, prefix: str) -> list[str]:
        return self.store.names(prefix)


@pytest.fixture
def store(tmp_path: Path) -> Faulty:
    return Faulty(LocalStore(tmp_path))


class Port:
    def __init__(self, loop: EpollReactor, store: Faulty, nonces: Iterator[str]) -> None:
        self.loop = loop
        self.events: list[Event] = []
        writer = WorkerId("host/1")
        self.port = StoreSnapshots(
            store, loop, self.events.append, job="job", writer=writer, nonce=lambda: next(nonces)
        )

    def upload(self, rows: list[Row], compact: list[SegmentRef] | None = None, epoch: int = 7) -> Event:
        self.port.upload(Upload(FENCE, Epoch(epoch), rows, compact or []))
        return self.next()

    def uploaded(
        self, rows: list[Row], compact: list[SegmentRef] | None = None, epoch: int = 7
    ) -> list[SegmentRef]:
        event = self.upload(rows, compact, epoch)
        assert isinstance(event, Uploaded), event
        assert event.replaced == [ref.name for ref in compact or []]
        return list(event.segments)

    def load(self, segments: list[SegmentRef], slots: list[int]) -> Event:
        self.port.load(Load(FENCE, segments, [Slot(slot) for slot in slots]))
        return self.next()

    def next(self) -> Event:
        assert self.events == [], "nothing is posted from within a call"
        turn_until(self.loop, lambda: self.events, "an event")
        return self.events.pop(0)


@pytest.fixture
def port(store: Faulty) -> Iterator[Port]:
    with reactor() as loop:
        yield Port(loop, store, (f"n{i}" for i in count()))


def row(key: int, epoch: int = 7, *, full: bool = True, slot: int = 0) -> Row:
    return Row(1, Slot(slot), bytes([key]), Epoch(epoch), full, f"{key}@{epoch}".encode())


def test_a_merge_keeps_no_rows_of_operations_that_are_gone(port: Port) -> None:
    """Rows by place, of older releases, stay: what they are of is said by the index alone."""
    there, gone = LEAST_NUMBER | 1, LEAST_NUMBER | 2
    place, named, dropped = row(1), row(2)._replace(operation=there), row(3)._replace(operation=gone)
    old, lone = port.uploaded([place, named, dropped], epoch=5), port.uploaded([dropped], epoch=6)
    port.port.upload(Upload(FENCE, Epoch(7), [row(4)], [*old, *lone], kept=frozenset([there])))
    event = port.next()
    assert isinstance(event, Uploaded) and event.replaced == [ref.name for ref in (*old, *lone)]
    assert port.load(list(event.segments), [0]) == Loaded(FENCE, chains_of([place, row(4), named]))

    port.port.upload(Upload(FENCE, Epoch(8), [], lone, kept=frozenset([there])))
    event = port.next()
    assert isinstance(event, Uploaded) and (event.segments, event.replaced) == ([], [lone[0].name])


def test_what_was_uploaded_is_loaded(port: Port) -> None:
    rows = [row(1), row(2, slot=3), row(3, slot=5)]
    segments = port.uploaded(rows)
    assert [ref.name for ref in segments] == ["job/segments/000000000007-4-host_1-n0.parquet"]
    assert segments[0].rows == 3
    assert segments[0].slots == (0, 3, 5)
    assert port.load(segments, [0, 3, 5]) == Loaded(FENCE, chains_of(rows))
    assert port.load(segments, [3]) == Loaded(FENCE, chains_of([rows[1]]))
    assert port.load([], [3]) == Loaded(FENCE, [])


def test_no_rows_make_no_segment(port: Port, store: Faulty) -> None:
    assert port.uploaded([]) == []
    assert store.names("") == []


def test_a_big_upload_is_cut_into_several_segments(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 10)
    rows = [row(i) for i in range(9)]
    segments = port.uploaded(rows)
    assert len(segments) > 1
    assert sum(ref.rows for ref in segments) == 9
    assert port.load(segments, [0]) == Loaded(FENCE, chains_of(rows))


def test_segments_to_compact_are_merged_into_the_upload(port: Port, store: Faulty) -> None:
    old = port.uploaded([row(1, 3), row(2, 3)], epoch=3) + port.uploaded([row(1, 4, full=False)], epoch=4)
    [merged] = port.uploaded([row(2, 7), row(3, 7, slot=9)], compact=old)
    assert decode_segment(store.get(merged.name)) == [
        row(1, 3),
        row(1, 4, full=False),
        row(2, 7),
        row(3, 7, slot=9),
    ]
    assert merged.rows == 4
    assert merged.slots == (0, 9)
    assert store.get(old[0].name), "the old ones stay until a commit"


def test_own_segments_are_merged_without_reading_them_again(port: Port, store: Faulty) -> None:
    old = [port.uploaded([row(key, 3)], epoch=3)[0] for key in range(2)]
    [merged] = port.uploaded([row(2, 7)], compact=old)
    assert store.calls.count("get") == 0
    assert decode_segment(store.get(merged.name)) == [row(0, 3), row(1, 3), row(2, 7)]


def test_own_segments_that_there_was_no_room_for_are_read_again(
    store: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CACHED", 1)
    with reactor() as loop:
        port = Port(loop, store, (f"n{i}" for i in count()))
        old = [port.uploaded([row(key, 3)], epoch=3)[0] for key in range(2)]
        [merged] = port.uploaded([row(2, 7)], compact=old)
    assert store.calls.count("get") == 2
    assert decode_segment(store.get(merged.name)) == [row(0, 3), row(1, 3), row(2, 7)]


def test_segments_that_are_too_big_to_merge_stay_as_they_are(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = port.uploaded([row(1, 3)], epoch=3)
    monkeypatch.setattr(module, "MAX_MERGE", 1)
    event = port.upload([row(2)], compact=old)
    assert isinstance(event, Uploaded)
    assert event.replaced == []
    assert [ref.rows for ref in event.segments] == [1]


def test_an_upload_whose_answer_was_lost_counts_if_it_is_there(port: Port, store: Faulty) -> None:
    store.fault = "answer lost"
    segments = port.uploaded([row(1)])
    store.fault = ""
    assert port.load(segments, [0]) == Loaded(FENCE, chains_of([row(1)]))


def test_an_upload_that_may_be_lost_with_the_machine_fails_the_epoch(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it can be read: the name is there, and not on the disk."""
    port.uploaded([row(1)], epoch=6)  # the folder is there and durable

    def broken(_: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("flamestream.store.folder.sync_folder", broken)
    event = port.upload([row(1)])
    assert isinstance(event, UploadFailed)
    assert "EIO" in event.message


def test_a_store_that_is_away_fails_the_epoch_and_the_next_one_works(port: Port, store: Faulty) -> None:
    store.fault = "away"
    assert port.upload([row(1)]) == UploadFailed(FENCE, Epoch(7), "the store is away")
    store.fault = ""
    assert port.uploaded([row(1)], epoch=8)
    store.fault = "away"
    assert port.load(port_segments(store), [0]) == LoadFailed(FENCE, "retryable", "the store is away")


def test_a_name_that_exists_with_other_bytes_is_not_taken_for_ours(port: Port, store: Faulty) -> None:
    store.store.put_new("job/segments/000000000007-4-host_1-n0.parquet", b"another's")
    event = port.upload([row(1)])
    assert isinstance(event, UploadFailed)
    assert "exists with other bytes" in event.message


@pytest.mark.parametrize("damage", ["flipped", "short", "longer", "empty", "exchanged", "gone"])
def test_a_damaged_segment_is_corrupt_and_named(port: Port, store: Faulty, damage: str) -> None:
    [segment] = port.uploaded([row(1)])
    path = store.store.root / segment.name
    whole = path.read_bytes()
    flipped = whole[:50] + bytes([whole[50] ^ 1]) + whole[51:]
    exchanged = encode_segment([row(9)])
    path.write_bytes(
        {"flipped": flipped, "short": whole[:-1], "longer": whole + b"x", "exchanged": exchanged}.get(
            damage, b""
        )
    )
    if damage == "gone":
        path.unlink()
    another = Port(port.loop, store, (f"m{i}" for i in count()))
    for event in (port.load([segment], [0]), another.upload([row(2)], compact=[segment])):
        assert isinstance(event, LoadFailed | UploadFailed)
        assert segment.name in event.message
        assert not isinstance(event, LoadFailed) or event.category == "corrupt"


def test_a_newer_fence_does_not_wait_for_an_older_one_which_is_never_answered(
    port: Port, store: Faulty
) -> None:
    store.hang.clear()
    for epoch in range(5):
        port.port.upload(Upload(FENCE, Epoch(epoch), [row(1)], []))
    turn_until(port.loop, lambda: store.calls, "the first upload is under way")
    port.port.load(Load(NEWER, [], []))
    port.port.upload(Upload(FENCE, Epoch(9), [row(1)], []))
    assert port.next() == Loaded(NEWER, [])
    store.hang.set()
    turn_until(port.loop, lambda: port.loop._helpers._pending == 0, "all helpers are done")
    assert port.events == []
    assert store.calls == ["put"], "what had not begun never began"


def test_actions_of_one_fence_are_done_in_order_and_bounded(port: Port) -> None:
    asked = module.MAX_WAITING + 3
    for epoch in range(asked):
        port.port.upload(Upload(FENCE, Epoch(epoch), [row(1)], []))
    turn_until(port.loop, lambda: len(port.events) == asked, "all are answered")
    done = [event.epoch for event in port.events if isinstance(event, Uploaded)]
    refused = [event.epoch for event in port.events if isinstance(event, UploadFailed)]
    assert done == list(range(module.MAX_WAITING + 1))
    assert refused == [asked - 2, asked - 1]


# --- indexes ----------------------------------------------------------------------------------------------


def index(epoch: int = 7) -> SnapshotIndex:
    return SnapshotIndex(
        job="job",
        graph="g",
        python="3.11",
        slots=4,
        epoch=Epoch(epoch),
        fence=FENCE,
        cut=Time(2**63 + 5),
        segments=(SegmentRef("job/segments/a", 5, "00", 1, (Slot(1),)),),
        fronts=(FrontPosition(FrontId(0), Time(9), {Partition("ü"): Offset(3)}),),
        outputs=(SlotOutput(SinkName("out"), Slot(1), SequenceNumber(8), b"\0\xff"),),
    )


def test_a_index_is_read_as_it_was_written(store: Faulty) -> None:
    written = write_index(store, "job/indexes/7", index())
    assert read_index(store, "job/indexes/7", written) == index()
    assert write_index(store, "job/indexes/7", index()) == written, "the same again is fine"


def test_another_index_under_the_name_is_never_overwritten(store: Faulty) -> None:
    written = write_index(store, "job/indexes/7", index())
    with pytest.raises(Corrupt, match="job/indexes/7"):
        write_index(store, "job/indexes/7", index(8))
    assert read_index(store, "job/indexes/7", written) == index()


def test_a_index_whose_answer_was_lost_is_read_back(store: Faulty) -> None:
    store.fault = "answer lost"
    written = write_index(store, "job/indexes/7", index())
    assert read_index(store, "job/indexes/7", written) == index()
    store.fault = "away"
    with pytest.raises(StoreUnavailable, match="away"):
        write_index(store, "job/indexes/8", index())


def test_any_damage_to_a_index_is_corrupt(store: Faulty) -> None:
    written = write_index(store, "job/indexes/7", index())
    path = store.store.root / "job/indexes/7"
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(Corrupt, match="job/indexes/7"):
            read_index(store, "job/indexes/7", written)


def test_an_index_of_a_newer_release_is_refused_with_who_can_go_on(store: Faulty) -> None:
    written = write_index(store, "job/indexes/7", index())
    path = store.store.root / "job/indexes/7"
    newer = json.dumps(json.loads(path.read_bytes()) | {"format": NEWEST + 1}).encode()
    path.write_bytes(newer)
    with pytest.raises(
        Corrupt, match=r"of a newer FlameStream.*resume the job with the version that wrote it"
    ):
        read_index(store, "job/indexes/7", checksum_of(newer))
    path.write_bytes(json.dumps(json.loads(newer) | {"format": NEWEST, "more": "passed over"}).encode())
    assert read_index(store, "job/indexes/7", checksum_of(path.read_bytes())).epoch == index().epoch
    assert write_index(store, "job/indexes/8", index()) == written, "today's has no number"


def test_deleting_names_what_is_left(store: Faulty) -> None:
    store.put_new("a/1", b"")
    assert not delete_objects(store, ["a/1", "a/2"])
    store.fault = "away"
    assert delete_objects(store, ["a/3"]) == ["a/3"]


def port_segments(store: Faulty) -> list[SegmentRef]:
    [name] = store.names("")
    return [SegmentRef(name, 1, "", 1, (Slot(0),))]


def test_what_is_read_ahead_are_the_chains_of_newer_epochs(port: Port) -> None:
    segments = port.uploaded([row(1), row(2, slot=3)]) + port.uploaded([row(4, epoch=8, slot=3)], epoch=8)
    for number, (slots, after, found) in enumerate(
        [
            (None, -1, [row(1), row(2, slot=3), row(4, epoch=8, slot=3)]),
            ([Slot(3)], -1, [row(2, slot=3), row(4, epoch=8, slot=3)]),
            (None, 7, [row(4, epoch=8, slot=3)]),
        ]
    ):
        port.port.prefetch(Prefetch(number, segments, slots, after))
        assert port.next() == Prefetched(number, chains_of(found))


def test_what_cannot_be_read_ahead_is_said(port: Port, store: Faulty) -> None:
    segments = port.uploaded([row(1)])
    store.fault = "away"
    port.port.prefetch(Prefetch(1, segments))
    assert port.next() == Prefetched(1, None)


def test_a_load_behind_what_is_at_hand_is_of_newer_epochs(port: Port) -> None:
    segments = port.uploaded([row(1)]) + port.uploaded([row(1, 8, full=False)], epoch=8)
    port.port.load(Load(FENCE, segments, [Slot(0)], after=7))
    assert port.next() == Loaded(FENCE, chains_of([row(1, 8, full=False)]))
