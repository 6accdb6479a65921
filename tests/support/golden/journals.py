"""The journal in a folder, in ZooKeeper and in a topic; idempotency keys of an HTTP source."""

from pathlib import Path
from typing import Any, Final

from flamestream.connectors.http.keys import KeyLog, Note
from flamestream.core.protocol.events import Entry
from flamestream.journal.batches import Batch, decoded, encoded
from flamestream.journal.file import head, record
from flamestream.journal.kafka import SEAL, Row, TopicPlace, judged
from flamestream.journal.seal import FrontFolder
from flamestream.model.ids import Attempt, Fence, LayoutVersion, Offset, Partition
from flamestream.model.payload import encode_many
from flamestream.model.time import START, FrontId, Time
from flamestream.store.folder import LocalStore
from support.golden.format import Format
from support.journals.topic import JOB, Here, Partitions

FRONT: Final = FrontId(0)
WITHOUT_END: Final = [
    Entry(Time(5), Partition(""), Offset(0), 2, encode_many(["a", None])),
    Entry(Time(4096), Partition("p/1"), Offset(7), 1),
    Entry(Time(1 << 60), Partition("wörd"), Offset(1 << 40), 4096),
]
"""Before a source's offsets could have gaps."""
ENTRIES: Final = [
    WITHOUT_END[0],
    Entry(Time(4096), Partition("p/1"), Offset(7), 1, b"", Offset(90)),
    Entry(Time(8192), Partition(""), Offset(0), 0),
    WITHOUT_END[2],
]
"""Each kind: with records, with a gap behind it, a pledge, great numbers."""


def _write_folder(folder: Path, entries: list[Entry]) -> None:
    """Attempt 7 writes all but the last entry; 8 seals that, and writes the last."""
    front = FrontFolder(LocalStore(folder, create=True), FRONT)
    for attempt, its, after in ((7, entries[:-1], START), (8, entries[-1:], entries[-2].time)):
        front.seal(Attempt(attempt), START)
        log = front.path / front.next_log(Attempt(attempt))
        log.write_bytes(head(after) + b"".join(map(record, its)))


def _read_folder(folder: Path) -> list[Entry]:
    front = FrontFolder(LocalStore(folder), FRONT)
    entries = front.everything()
    assert front.seal(Attempt(9), START).entries == entries, "the next attempt goes on with the same"
    return entries


def _write_batch(folder: Path, entries: list[Entry]) -> None:
    (folder / "batch.msgpack").write_bytes(encoded(entries))


def _read_batch(folder: Path) -> list[Entry]:
    return decoded((folder / "batch.msgpack").read_bytes(), "batch")


def _write_topic(folder: Path, entries: list[Entry]) -> None:
    """The values alone: keys are unique to a try."""
    topic, here = Partitions(), Here()
    reactor: Any = here
    writer = TopicPlace(topic, JOB, reactor, reactor).seal(FRONT, Attempt(7), START).writer
    writer.send(Batch(1, START, entries[-1].time, encoded(entries)), lambda error: None)
    for name, row in zip(("seal", "batch.msgpack"), topic.rows, strict=True):
        assert row.value is not None
        (folder / name).write_bytes(row.value)


def _read_topic(folder: Path) -> list[Entry]:
    seal, batch = (folder / "seal").read_bytes(), (folder / "batch.msgpack").read_bytes()
    assert seal == SEAL
    rows = [
        Row(0, b"%b/0/seal/00000007/n-1" % JOB.encode(), seal),
        Row(1, b"%b/0/batch/00000007/n-2" % JOB.encode(), batch),
    ]
    found = judged(rows, JOB, FRONT, "journal", START)
    assert (found.newest, found.last) == (7, found.entries[-1].time)
    return found.entries


def _write_keys(folder: Path, notes: list[Note]) -> None:
    log = KeyLog(folder, 10, fsync=False)
    log.open(Fence(Attempt(3), LayoutVersion(1)), notes[0].first)
    log.append(notes)
    log.close()


def _read_keys(folder: Path) -> list[Note]:
    log = KeyLog(folder, 10, fsync=False)
    found = log.open(Fence(Attempt(4), LayoutVersion(1)), 1 << 40)
    log.close()
    return found


JOURNALS: Final = (
    Format("journal-folder", _write_folder, _read_folder, (WITHOUT_END, ENTRIES)),
    Format("journal-batch", _write_batch, _read_batch, (WITHOUT_END, ENTRIES)),
    Format("journal-topic", _write_topic, _read_topic, (ENTRIES,)),
    Format(
        "http-keys",
        _write_keys,
        _read_keys,
        (
            [
                Note(first=1200, count=2, key="örder-17", digest="0a1b"),
                Note(first=1202, count=1, key="b", digest="ff"),
            ],
        ),
    ),
)
