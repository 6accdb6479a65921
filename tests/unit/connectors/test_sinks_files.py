"""The files sink beyond the contract: zombies, damage, full disks, foreign folders, and reading it back."""

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from fcntl import LOCK_NB, flock
from io import FileIO
from pathlib import Path

import pytest

from flamestream.connectors import sinks
from flamestream.connectors.kit import folder as files_sink
from flamestream.connectors.kit.folder import Writing
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, LastBundle, SinkFailed
from flamestream.fenced import fences
from flamestream.fenced.fences import FencedFolder
from flamestream.fenced.log import Delivery, Record, scan
from flamestream.model.errors import Corrupt, Fenced, UserError
from flamestream.model.ids import Fence, SequenceNumber, SinkName, Slot, WorkerId
from flamestream.model.payload import encode_items
from flamestream.store.folder import write_all
from flamestream.testing.consumer_contract import SINK, bundle, fence
from flamestream.testing.port_driver import PortDriver

SLOTS = [Slot(0), Slot(1)]


def writing(root: Path, writer: str, under: Fence | None = None, job: str = "job") -> Writing:
    made = Writing(FencedFolder(root), False, job, SinkName(SINK), WorkerId(writer))
    if under is not None:
        made.open(OpenSink(under, SINK, SLOTS))
    return made


def deliver(to: Writing, under: Fence, *bundles: Bundle) -> None:
    to.deliver(Deliver(under, SINK, 1, bundles))


def sequences(root: Path, slot: int = 0) -> list[int]:
    return [sequence for found, sequence, *_ in sinks.read_all(root) if found == slot]


def log_of(root: Path, writer: str) -> Path:
    (found,) = root.glob(f"attempt-*-{writer}-0.log")
    return found


def failing_with(number: int) -> Callable[[int, int], None]:
    def flock(fd: int, how: int) -> None:
        raise OSError(number, "no lock")

    return flock


def keep_delivering(worker: Writing, under: Fence, first: int, acknowledged: list[int]) -> None:
    """Until it is fenced."""
    with suppress(Fenced):
        for sequence in range(first, first + 100_000):
            deliver(worker, under, bundle(0, sequence))
            acknowledged.append(sequence)
    worker.close()


def test_what_a_zombie_adds_later_does_not_count(tmp_path: Path) -> None:
    zombie = writing(tmp_path, "w1", fence(1))
    deliver(zombie, fence(1), bundle(0, 1))
    writing(tmp_path, "w2", fence(2)).close()
    before = log_of(tmp_path, "w1").stat().st_size
    with pytest.raises(Fenced):
        deliver(zombie, fence(1), bundle(0, 2))
    zombie.close()
    assert log_of(tmp_path, "w1").stat().st_size > before, "the zombie did write"
    assert sequences(tmp_path) == [1]
    heir = writing(tmp_path, "w3", fence(3))
    deliver(heir, fence(3), bundle(0, 2))
    heir.close()
    assert sequences(tmp_path) == [1, 2]


def test_no_acknowledged_bundle_is_lost_to_a_fence_that_comes_meanwhile(tmp_path: Path) -> None:
    """Each attempt opens while the one before still delivers as fast as it can: what that one acknowledged
    counts, what not is known."""
    acknowledged = [0]
    threads: list[threading.Thread] = []
    for attempt in range(1, 16):
        worker = writing(tmp_path, f"w{attempt}")
        last = worker.open(OpenSink(fence(attempt), SINK, SLOTS))
        had = last[Slot(0)].sequence if Slot(0) in last else 0
        for thread in threads:
            thread.join()
        assert had >= max(acknowledged)
        assert had - max(acknowledged) <= 1, (
            "at most what was in flight counts without having been acknowledged"
        )
        threads = [
            threading.Thread(target=keep_delivering, args=(worker, fence(attempt), had + 1, acknowledged))
        ]
        threads[0].start()
        while threads[0].is_alive() and max(acknowledged) < had + 5:
            pass
    FencedFolder(tmp_path).open(fence(99))
    threads[0].join()
    assert sequences(tmp_path) == list(range(1, len(sequences(tmp_path)) + 1))
    assert len(sequences(tmp_path)) >= max(acknowledged) >= 75


def test_openers_of_one_attempt_agree(tmp_path: Path) -> None:
    """All of them race, while a zombie writes: every one gets the same last bundle."""
    zombie = writing(tmp_path, "w0", fence(1))
    deliver(zombie, fence(1), bundle(0, 1))
    found: list[int] = []

    def open_it(writer: str) -> None:
        worker = writing(tmp_path, writer)
        found.append(worker.open(OpenSink(fence(2), SINK, SLOTS))[Slot(0)].sequence)
        worker.close()

    threads = [threading.Thread(target=open_it, args=(f"w{number}",)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    keep_delivering(zombie, fence(1), 2, [])
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert set(found) == {sequences(tmp_path)[-1]}


def test_an_opening_reads_only_the_logs_of_the_attempt_before(tmp_path: Path) -> None:
    first = writing(tmp_path, "w1", fence(1))
    deliver(first, fence(1), bundle(0, 1))
    first.close()
    for attempt in (2, 3):
        worker = writing(tmp_path, f"w{attempt}", fence(attempt))
        deliver(worker, fence(attempt), bundle(0, attempt))
        worker.close()
    log_of(tmp_path, "w1").unlink()
    assert writing(tmp_path, "w4").open(OpenSink(fence(4), SINK, [Slot(0)]))[Slot(0)].sequence == 3
    with pytest.raises(Corrupt, match=r"w1-0.log is gone"):
        sequences(tmp_path)


def test_the_last_bundle_is_of_the_newest_log_also_behind_the_tenth(tmp_path: Path) -> None:
    """By their numbers: as a text 10 is before 2."""
    with ExitStack() as open_logs:
        for sequence in range(1, 13):
            writer = writing(tmp_path, "w", fence(1))
            open_logs.callback(writer.close)  # who has a log open keeps it
            deliver(writer, fence(1), bundle(0, sequence))
    assert len(list(tmp_path.glob("*.log"))) == 12
    fences._seen_of.cache_clear()  # another process has seen nothing
    last = writing(tmp_path, "w").open(OpenSink(fence(1), SINK, SLOTS))
    assert {slot: bundle.sequence for slot, bundle in last.items()} == {Slot(0): 12}
    assert sequences(tmp_path) == [*range(1, 13)]


def test_who_opens_again_writes_on_in_its_log(tmp_path: Path) -> None:
    """As each batch of a micro-batch job does: a folder has not a log for each."""
    for sequence in range(1, 6):
        writer = writing(tmp_path, "w", fence(1))
        deliver(writer, fence(1), bundle(0, sequence))
        writer.close()
    assert [path.name for path in tmp_path.glob("*.log")] == ["attempt-1-1-w-0.log"]
    assert sequences(tmp_path) == [1, 2, 3, 4, 5]


def test_who_opens_again_reads_each_record_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counting(file: FileIO, name: str, start: int) -> Iterator[Record]:
        for record in scan(file, name, start):
            read.append(record.start)
            yield record

    monkeypatch.setattr(fences, "scan", counting)
    for sequence in range(1, 6):
        writer = writing(tmp_path, "w", fence(1))
        deliver(writer, fence(1), bundle(0, sequence))
        writer.close()
    assert len(read) == len(set(read)) == 4


def test_behind_a_torn_end_another_log_begins(tmp_path: Path) -> None:
    for sequence in (1, 2):
        writer = writing(tmp_path, "w", fence(1))
        deliver(writer, fence(1), bundle(0, sequence))
        writer.close()
        if sequence == 1:
            with log_of(tmp_path, "w").open("ab") as log:
                log.write(b"\x00\x00\x01")
    assert len(list(tmp_path.glob("*.log"))) == 2
    assert sequences(tmp_path) == [1, 2]


def test_without_locks_each_opening_has_a_log_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fences, "flock", failing_with(errno.ENOLCK))
    for sequence in (1, 2, 3):
        writer = writing(tmp_path, "w", fence(1))
        deliver(writer, fence(1), bundle(0, sequence))
        writer.close()
    assert len(list(tmp_path.glob("*.log"))) == 3
    assert sequences(tmp_path) == [1, 2, 3]


@pytest.mark.parametrize("logs", [0, 1])
def test_a_lock_that_fails_leaves_no_file_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: int
) -> None:
    for _ in range(logs):
        writing(tmp_path, "w", fence(1)).close()
    monkeypatch.setattr(fences, "flock", failing_with(errno.EIO))
    with pytest.raises(OSError, match="no lock"):
        writing(tmp_path, "w", fence(1))
    opened = {path.resolve() for path in Path("/proc/self/fd").iterdir()}
    assert not opened & {path.resolve() for path in tmp_path.iterdir()}


def test_a_new_log_that_another_has_found_is_that_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of one name open: nobody waits for the other, and each has a log."""
    with ExitStack() as closing:

        def another_first(fd: int, how: int) -> None:
            monkeypatch.undo()
            assert how & LOCK_NB
            another = writing(tmp_path, "w", fence(1))
            closing.callback(another.close)
            deliver(another, fence(1), bundle(0, 1))
            flock(fd, how)

        monkeypatch.setattr(fences, "flock", another_first)
        writer = writing(tmp_path, "w", fence(1))
        closing.callback(writer.close)
        deliver(writer, fence(1), bundle(1, 1))
    assert {path.name: path.stat().st_size > 0 for path in tmp_path.glob("*.log")} == {
        "attempt-1-1-w-0.log": True,
        "attempt-1-1-w-1.log": True,
    }
    assert (sequences(tmp_path), sequences(tmp_path, slot=1)) == ([1], [1])


def test_a_folder_that_was_removed_and_made_again_has_nothing_of_the_one_before(tmp_path: Path) -> None:
    """One process, as a notebook's: what it has read of closed logs is of the folder that it read."""
    root = tmp_path / "out"
    for bundles in (3, 2):
        for number in range(bundles):
            worker = Writing(FencedFolder(root), False, "job", SinkName(SINK), WorkerId("w1"))
            last = worker.open(OpenSink(fence(1), SINK, SLOTS))
            assert {slot: bundle.sequence for slot, bundle in last.items()} == (
                {Slot(0): number} if number else {}
            )
            deliver(worker, fence(1), bundle(0, number + 1))
            worker.close()
        shutil.rmtree(root)


def test_an_opening_finds_all_while_another_is_half_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads open at once: neither takes for read what the other has only begun to read."""
    with ExitStack() as closing:
        writer = writing(tmp_path, "w", fence(1))
        closing.callback(writer.close)
        deliver(writer, fence(1), bundle(0, 1))
        found: list[dict[Slot, LastBundle]] = []

        class HalfWay:
            def __init__(self, record: Record) -> None:
                self.start, self.end, self._delivery = record.start, record.end, record.delivery

            @property
            def delivery(self) -> Delivery:
                monkeypatch.undo()
                another = writing(tmp_path, "another")
                closing.callback(another.close)
                found.append(another.open(OpenSink(fence(1), SINK, SLOTS)))
                return self._delivery

        monkeypatch.setattr(fences, "scan", lambda *args: map(HalfWay, scan(*args)))
        writer.open(OpenSink(fence(1), SINK, SLOTS))
    assert [last[Slot(0)].sequence for last in found] == [1]


def test_old_fence_files_are_removed(tmp_path: Path) -> None:
    for attempt in range(1, 6):
        writing(tmp_path, "w", fence(attempt)).close()
    assert sorted(os.listdir(tmp_path / "fences")) == [
        "0000000005-0000000001.announced",
        "0000000005-0000000001.record",
    ]


def test_damage_below_what_counts_is_an_error_that_names_the_log(tmp_path: Path) -> None:
    worker = writing(tmp_path, "w1", fence(1))
    for sequence in (1, 2, 3):
        deliver(worker, fence(1), bundle(0, sequence))
    worker.close()
    log = log_of(tmp_path, "w1")
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(Corrupt, match=r"w1-0.log"):
        sequences(tmp_path)
    with pytest.raises(Corrupt, match=r"w1-0.log"):
        writing(tmp_path, "w2", fence(2))


def test_a_missing_log_is_an_error(tmp_path: Path) -> None:
    for attempt in (1, 2):
        worker = writing(tmp_path, f"w{attempt}", fence(attempt))
        deliver(worker, fence(attempt), bundle(0, attempt))
        worker.close()
    log_of(tmp_path, "w1").unlink()
    with pytest.raises(Corrupt, match=r"w1-0.log is gone"):
        sequences(tmp_path)


def test_a_folder_belongs_to_one_sink_of_one_job(tmp_path: Path) -> None:
    writing(tmp_path, "w1", fence(1)).close()
    with pytest.raises(UserError, match=r"holds the output of job 'job', sink 'out'"):
        writing(tmp_path, "w1", fence(2), job="another")


def test_a_folder_that_is_no_sink_is_refused_by_readers(tmp_path: Path) -> None:
    with pytest.raises(Corrupt, match=r"is not the folder of a files sink"):
        list(sinks.read_all(tmp_path))


def test_a_failed_write_is_tried_again_and_leaves_nothing_torn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failures = write_all, [errno.ENOSPC, errno.EIO]

    def failing(fd: int, data: bytes) -> None:
        if failures:
            real(fd, data[: len(data) // 2])
            raise OSError(failures.pop(), "no room")
        real(fd, data)

    with PortDriver() as driver:
        consumer = sinks.build(
            {"files": {"path": str(tmp_path)}}, SINK, WorkerId("w1"), "job", driver.post, driver.reactor
        )
        driver.at_exit.append(consumer.close)
        consumer.open(OpenSink(fence(1), SINK, SLOTS))
        monkeypatch.setattr(files_sink, "write_all", failing)
        consumer.deliver(Deliver(fence(1), SINK, 1, [bundle(0, 1)]))
        driver.until(lambda: consumer.problem != "", "the problem to show")  # type: ignore[attr-defined]
        driver.take(BundlesAcknowledged)
        assert consumer.problem == ""  # type: ignore[attr-defined]
    assert sequences(tmp_path) == [1]


def test_a_foreign_folder_fails_the_sink(tmp_path: Path) -> None:
    writing(tmp_path, "w1", fence(1), job="another").close()
    with PortDriver() as driver:
        consumer = sinks.build(
            {"files": {"path": str(tmp_path)}}, SINK, WorkerId("w1"), "job", driver.post, driver.reactor
        )
        consumer.open(OpenSink(fence(2), SINK, SLOTS))
        failed = driver.take(SinkFailed)
    assert (failed.category, "give sink 'out'" in failed.message) == ("user", True)


def test_items_are_read_in_the_total_order(tmp_path: Path) -> None:
    workers = {slot: writing(tmp_path, f"w{slot}", fence(1)) for slot in SLOTS}
    for sequence in range(1, 40):
        for slot, worker in workers.items():
            items = [(bytes([sequence, slot, i]), f"{sequence}.{slot}.{i}") for i in range(2)]
            one = Bundle(slot, SequenceNumber(sequence), items[-1][0], encode_items(items))
            deliver(worker, fence(1), one)
    for worker in workers.values():
        worker.close()
    found = list(sinks.read({"files": {"path": str(tmp_path)}}))
    assert [value for *_, value in found] == [
        f"{sequence}.{slot}.{i}" for sequence in range(1, 40) for slot in SLOTS for i in range(2)
    ]
    assert found[2][1:3] == (Slot(1), 1)
