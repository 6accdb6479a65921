"""Faults of the disk under a folder's journal: nothing is durable before it says so, and damage is never
taken for the end."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flamestream.core.protocol.actions import Append, SealJournal
from flamestream.core.protocol.events import JournalFailed, SourceFailed
from flamestream.journal.file import record
from flamestream.journal.seal import FrontFolder
from flamestream.loop.reactor import EpollReactor
from flamestream.machine.disk import Disk, Done
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Attempt
from flamestream.model.time import START, Time
from flamestream.store.folder import LocalStore
from support.journals.folder import FRONT, Worker, entry
from support.journals.front_logs import logs, write
from support.loops import turn_until


def test_a_torn_tail_is_cut_at_the_last_whole_record(tmp_path: Path) -> None:
    folder = FrontFolder(LocalStore(tmp_path), FRONT)
    log = write(tmp_path, folder, 1, [10, 20, 30])
    whole = log.read_bytes()
    counts = []
    for length in range(len(whole) + 1):
        for rest in (b"", b"\0" * 40):  # zeros: a crash of the machine lost what was written
            log.write_bytes(whole[:length] + rest)
            counts.append(len(folder.everything()))
    assert counts == sorted(counts)
    assert set(counts) == {0, 1, 2, 3}


def test_a_flipped_bit_is_corrupt_with_file_and_offset_and_never_the_end(tmp_path: Path) -> None:
    folder = FrontFolder(LocalStore(tmp_path), FRONT)
    log = write(tmp_path, folder, 1, [10, 20, 30])
    whole = log.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        log.write_bytes(damaged)
        with pytest.raises(Corrupt, match=rf"{log} is damaged at byte \d+"):
            folder.everything()


@pytest.mark.parametrize("damage", ["torn", "zeros", "a record less"])
def test_below_the_sealed_length_a_torn_tail_is_damage_too(
    loop: EpollReactor, tmp_path: Path, damage: str
) -> None:
    folder = FrontFolder(LocalStore(tmp_path), FRONT)
    log = write(tmp_path, folder, 1, [10, 20])
    folder.seal(Attempt(2), START)
    whole, size = log.read_bytes(), len(record(entry(20)))
    log.write_bytes(
        {"torn": whole[:-1], "zeros": whole[:-9] + bytes(9), "a record less": whole[:-size]}[damage]
    )
    worker = Worker(loop, tmp_path, 3)
    worker.journal.seal(SealJournal(worker.fence, FRONT, START))
    answer = worker.next()
    assert isinstance(answer, SourceFailed)
    assert answer.category == "corrupt"
    assert log.name in answer.message


def test_a_damaged_seal_is_corrupt(tmp_path: Path) -> None:
    folder = FrontFolder(LocalStore(tmp_path), FRONT)
    write(tmp_path, folder, 1, [10])
    folder.seal(Attempt(2), START)
    seal = tmp_path / folder.name / "seal-00000002"
    whole = seal.read_bytes()
    for place in range(len(whole) - 1):
        seal.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(Corrupt, match="seal-00000002"):
            folder.seal(Attempt(3), START)


def test_a_file_that_is_needed_and_gone_is_corrupt(loop: EpollReactor, tmp_path: Path) -> None:
    worker = Worker(loop, tmp_path, 1, rotate=1)
    worker.seal()
    for time in (10, 20, 30):
        worker.append(time)
    logs(tmp_path)[1].unlink()
    folder = FrontFolder(LocalStore(tmp_path), FRONT)
    with pytest.raises(Corrupt, match="up to 20"):
        folder.everything()
    folder.seal(Attempt(2), Time(30))
    with pytest.raises(Corrupt, match="missing"):
        folder.seal(Attempt(3), START)


@pytest.fixture(params=["in the loop", "by a helper", "by the kernel's thread"])
def worker(
    request: pytest.FixtureRequest, loop: EpollReactor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Worker:
    """Three ways to write."""
    native = request.param == "by the kernel's thread"
    if native and not Disk.here():
        pytest.skip("this installation has no kernel")
    monkeypatch.setattr(Disk, "here", lambda: native)
    return Worker(loop, tmp_path, 1, fsync=request.param != "in the loop")


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Files may have so many bytes, by the operating system's limit: of a write beyond it a part is written,
    and then nothing."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_told_once_and_the_batch_is_written_when_there_is_room(
    worker: Worker, loop: EpollReactor, tmp_path: Path
) -> None:
    worker.seal()
    worker.append(10)
    (log,) = logs(tmp_path)
    with room_for(log.stat().st_size + 20):
        failed = worker.append(20, 30, 40)
        assert isinstance(failed, JournalFailed)
        assert os.strerror(errno.EFBIG) in failed.message
        worker.journal.append(Append(worker.fence, FRONT, entry(50)))
        turn_until(loop, lambda: len(logs(tmp_path)) > 1, "it was tried again")
    turn_until(loop, lambda: worker.appended(50) in worker.events, "all is durable")
    assert not any(isinstance(event, JournalFailed) for event in worker.events)
    assert Worker(loop, tmp_path, 2).seal() == [10, 20, 30, 40, 50]


@pytest.mark.parametrize("worker", ["by a helper", "by the kernel's thread"], indirect=True)
def test_nothing_is_durable_before_the_disk_says_so(
    worker: Worker, loop: EpollReactor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.seal()
    worker.append(10)
    sync, write, broken = os.fdatasync, Disk.write, [OSError(errno.EIO, os.strerror(errno.EIO))]

    def fdatasync(fd: int) -> None:
        if broken:
            raise broken.pop()
        sync(fd)

    def disk_write(disk: Disk, fd: int, data: bytes, done: Done) -> None:
        write(disk, fd, data, lambda error: done(broken.pop() if broken else error))

    monkeypatch.setattr("flamestream.journal.folder.os.fdatasync", fdatasync)
    monkeypatch.setattr(Disk, "write", disk_write)
    failed = worker.append(20)
    assert isinstance(failed, JournalFailed)
    assert "Input/output error" in failed.message
    assert worker.next() == worker.appended(20)
    assert Worker(loop, tmp_path, 2).seal() == [10, 20]


@pytest.mark.parametrize("worker", ["by a helper", "by the kernel's thread"], indirect=True)
def test_nothing_is_durable_in_a_file_whose_name_is_not(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.seal()
    durable, broken = set[Path](), [OSError(errno.EIO, os.strerror(errno.EIO))]

    def sync_folder(folder: Path) -> None:
        if broken:
            raise broken.pop()
        durable.update(logs(tmp_path))

    monkeypatch.setattr("flamestream.journal.folder.sync_folder", sync_folder)
    assert isinstance(worker.append(10), JournalFailed)
    assert worker.next() == worker.appended(10)
    assert {log for log in logs(tmp_path) if log.stat().st_size} <= durable
    assert Worker(worker.loop, tmp_path, 2).seal() == [10]
