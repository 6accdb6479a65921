"""The journal: what was reported as durable counts for ever, a zombie's entries never count, and damage is
never taken for the end."""

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flamestream.core.protocol.actions import Append, SealJournal
from flamestream.core.protocol.events import JournalFailed, SourceFailed
from flamestream.journal.file import record
from flamestream.journal.folder import _Log, everything
from flamestream.journal.seal import Counted, FrontFolder
from flamestream.loop.reactor import EpollReactor
from flamestream.machine.disk import Disk, Done
from flamestream.model.errors import Bug, Corrupt, Fenced
from flamestream.model.ids import Attempt
from flamestream.model.time import START, Time
from flamestream.store.folder import LocalStore
from support.journals.folder import FRONT, Worker, entry, fence
from support.loops import reactor, turn_until


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with reactor() as made:
        made._helpers._limit = 1  # so that `trim` can see when a helper is done
        yield made


def logs(root: Path) -> list[Path]:
    return sorted((root / f"front-{FRONT}").glob("*.log"))


@pytest.mark.parametrize("fsync", [False, True])
def test_what_was_appended_is_sealed_by_the_next_attempt(
    loop: EpollReactor, tmp_path: Path, fsync: bool
) -> None:
    first = Worker(loop, tmp_path, 1, fsync=fsync)
    assert first.seal() == []
    assert first.append(10, 20) == first.appended(20), "one answer for all of a turn"
    assert first.append(30) == first.appended(30)
    assert Worker(loop, tmp_path, 2, fsync=fsync).seal(20) == [20, 30], "at or above the cut"
    assert everything(tmp_path, FRONT) == [entry(10), entry(20), entry(30)]


def test_nothing_is_reported_from_within_the_call(loop: EpollReactor, tmp_path: Path) -> None:
    worker = Worker(loop, tmp_path, 1)
    worker.seal()
    worker.journal.append(Append(worker.fence, FRONT, entry(10)))
    assert worker.events == []


def test_payloads_of_a_source_that_cannot_replay_come_back(loop: EpollReactor, tmp_path: Path) -> None:
    worker = Worker(loop, tmp_path, 1)
    worker.seal()
    worker.journal.append(Append(worker.fence, FRONT, entry(10, b"\0payload\0")))
    worker.next()
    assert everything(tmp_path, FRONT) == [entry(10, b"\0payload\0")]


@pytest.mark.parametrize("fsync", [False, True])
def test_a_zombie_is_not_told_durable_and_its_entries_never_count(
    loop: EpollReactor, tmp_path: Path, fsync: bool
) -> None:
    zombie = Worker(loop, tmp_path, 1, fsync=fsync)
    zombie.seal()
    zombie.append(10)
    second = Worker(loop, tmp_path, 2, fsync=fsync)
    assert second.seal() == [10]
    answer = zombie.append(20)
    assert isinstance(answer, JournalFailed)
    assert "attempt 2 has sealed it" in answer.message
    assert second.append(15) == second.appended(15)
    assert Worker(loop, tmp_path, 3).seal() == [10, 15]
    assert [e.time for e in everything(tmp_path, FRONT)] == [10, 15]


def test_a_zombie_that_seals_late_is_refused(loop: EpollReactor, tmp_path: Path) -> None:
    Worker(loop, tmp_path, 7).seal()
    zombie = Worker(loop, tmp_path, 6)
    zombie.journal.seal(SealJournal(zombie.fence, FRONT, START))
    answer = zombie.next()
    assert isinstance(answer, JournalFailed)
    assert "attempt 7" in answer.message


def test_a_sealer_that_was_asleep_changes_nothing(tmp_path: Path) -> None:
    """Attempt 2 got past its check, slept while attempt 3 sealed, then made its seal and wrote: none of it
    counts."""
    folder = FrontFolder(LocalStore(tmp_path), FRONT)
    write(tmp_path, folder, 1, [10, 20])
    (tmp_path / folder.name / "fences").joinpath("00000002").touch()
    assert times(folder.seal(Attempt(3), START)) == [10, 20]
    asleep = FrontFolder(LocalStore(tmp_path), FRONT)
    asleep.check = lambda fence: None  # type: ignore[method-assign]
    late = asleep.seal(Attempt(2), START)
    append_raw(tmp_path, folder, 2, late, [30])
    assert times(folder.seal(Attempt(4), START)) == [10, 20]


def test_two_sealers_of_one_attempt_agree(tmp_path: Path) -> None:
    folder = FrontFolder(LocalStore(tmp_path), FRONT)
    log = write(tmp_path, folder, 1, [10, 20])
    whole = log.read_bytes()
    log.write_bytes(whole[:-1])
    assert times(folder.seal(Attempt(2), START)) == [10]
    log.write_bytes(whole)  # the zombie's write goes on
    assert times(FrontFolder(LocalStore(tmp_path), FRONT).seal(Attempt(2), START)) == [10]


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


def test_a_log_whose_seal_was_not_seen_does_not_count(tmp_path: Path) -> None:
    """It was begun after its reader had looked for seals, so the sinks refused its attempt already."""
    folder = FrontFolder(LocalStore(tmp_path), FRONT)
    write(tmp_path, folder, 1, [10])
    write(tmp_path, folder, 2, [20])
    (tmp_path / folder.name / "seal-00000002").unlink()
    assert times(folder.seal(Attempt(3), START)) == [10]


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


def test_a_trim_deletes_whole_files_below_and_only_those(loop: EpollReactor, tmp_path: Path) -> None:
    worker = Worker(loop, tmp_path, 1, rotate=1)
    worker.seal()
    for time in (10, 20, 30, 40):
        worker.append(time)
    worker.trim(30)
    assert [path.name[-5:] for path in logs(tmp_path)] == ["2.log", "3.log"]
    second = Worker(loop, tmp_path, 2)
    assert second.seal(30) == [30, 40]
    second.append(50)
    second.trim(50)
    assert len(logs(tmp_path)) == 1
    assert Worker(loop, tmp_path, 3).seal(50) == [50]
    with pytest.raises(Corrupt):
        everything(tmp_path, FRONT)


def test_an_audit_of_a_journal_that_was_trimmed_is_refused(loop: EpollReactor, tmp_path: Path) -> None:
    for attempt in (1, 2, 3):
        worker = Worker(loop, tmp_path, attempt)
        worker.seal(attempt * 10)
        if attempt != 2:  # so that nothing is left that would name a file before it, but for the seal
            worker.append(attempt * 10)
        worker.trim(attempt * 10)
    with pytest.raises(Corrupt, match="missing"):
        everything(tmp_path, FRONT)


def test_a_journal_that_keeps_is_never_trimmed(loop: EpollReactor, tmp_path: Path) -> None:
    worker = Worker(loop, tmp_path, 1, rotate=1, keep=True)
    worker.seal()
    for time in (10, 20, 30):
        worker.append(time)
    worker.trim(1000)
    assert [e.time for e in everything(tmp_path, FRONT)] == [10, 20, 30]


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


def test_an_entry_out_of_order_or_before_the_seal_is_a_bug(loop: EpollReactor, tmp_path: Path) -> None:
    worker = Worker(loop, tmp_path, 1)
    with pytest.raises(Bug, match="before its journal is sealed"):
        worker.journal.append(Append(worker.fence, FRONT, entry(10)))
    worker.seal()
    worker.append(10)
    with pytest.raises(Bug, match="follows"):
        worker.journal.append(Append(worker.fence, FRONT, entry(10)))


def test_a_newer_fence_in_the_same_process_drops_what_was_never_reported(
    loop: EpollReactor, tmp_path: Path
) -> None:
    worker = Worker(loop, tmp_path, 1)
    worker.seal()
    worker.append(10)
    worker.journal.append(Append(worker.fence, FRONT, entry(20)))
    worker.fence = fence(2)
    assert worker.seal() == [10]
    worker.journal.append(Append(fence(1), FRONT, entry(30)))  # an older fence's action arrives late
    assert worker.append(15) == worker.appended(15)


# --- schedules ----------------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(
    st.lists(
        st.tuples(st.sampled_from(["seal", "append", "append", "zombie", "torn"]), st.integers(0, 10**6)),
        max_size=40,
    )
)
def test_in_any_schedule_the_durable_count_for_ever_and_zombies_never(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    root = tmp_path_factory.mktemp("journal")
    folder = FrontFolder(LocalStore(root), FRONT)
    writers: list[_Writer] = []
    durable: list[int] = []
    for clock, (step, number) in enumerate([("seal", 0), *steps, ("seal", 0)], 1):
        if step == "seal":
            counted = folder.seal(Attempt(len(writers) + 1), START)
            assert set(durable) <= set(times(counted))
            # a write that was never reported may count or not, but from now on for ever
            durable = times(counted)
            writers.append(_Writer(folder, len(writers) + 1, counted))
        elif step == "append":
            assert writers[-1].append(clock)
            durable.append(clock)
        elif step == "zombie" and len(writers) > 1:
            assert not writers[number % (len(writers) - 1)].append(clock)
        elif step == "torn":
            writers[-1].tear(number)
            counted = folder.seal(Attempt(len(writers) + 1), START)
            assert times(counted)[: len(durable)] == durable
            durable = times(counted)
            writers.append(_Writer(folder, len(writers) + 1, counted))
    assert times(Counted((), folder.everything(), ())) == durable
    for writer in writers:
        writer.log.abandon()


class _Writer:
    """One attempt's log."""

    def __init__(self, folder: FrontFolder, attempt: int, counted: Counted) -> None:
        self.log = _Log(folder, fence(attempt), counted, fsync=False, rotate=200)

    def append(self, time: int) -> bool:
        """True if it may be reported as durable."""
        self.log.add(entry(time))
        if not self.log.begin():
            return False
        try:
            self.log.write()
        except Fenced:
            self.log.end(failed=True)
            self.log.abandon()
            return False
        self.log.end(failed=False)
        return True

    def tear(self, length: int) -> None:
        """It dies in the middle of a write."""
        if self.log.fd >= 0:
            os.write(self.log.fd, b"".join([b"\x30\0\0\0", bytes(100)])[: length % 19])


def times(counted: Counted) -> list[int]:
    return [e.time for e in counted.entries]


def write(root: Path, folder: FrontFolder, attempt: int, written: list[int]) -> Path:
    """A sealed attempt that wrote entries; the file."""
    counted = folder.seal(Attempt(attempt), START)
    return append_raw(root, folder, attempt, counted, written)


def append_raw(root: Path, folder: FrontFolder, attempt: int, counted: Counted, written: list[int]) -> Path:
    writer = _Writer(folder, attempt, counted)
    for time in written:
        writer.append(time)
    writer.log.abandon()
    return logs(root)[-1]
