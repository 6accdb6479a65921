"""The folder's journal: what was reported as durable counts for ever, and a zombie's entries never count."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flamestream.core.protocol.actions import Append, SealJournal
from flamestream.core.protocol.events import JournalFailed
from flamestream.journal.folder import everything
from flamestream.journal.seal import Counted, FrontFolder
from flamestream.loop.reactor import EpollReactor
from flamestream.model.errors import Bug, Corrupt
from flamestream.model.ids import Attempt
from flamestream.model.time import START
from flamestream.store.folder import LocalStore
from support.journals.folder import FRONT, Worker, entry, fence
from support.journals.front_logs import Writer, append_raw, logs, times, write


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


def test_a_log_whose_seal_was_not_seen_does_not_count(tmp_path: Path) -> None:
    """It was begun after its reader had looked for seals, so the sinks refused its attempt already."""
    folder = FrontFolder(LocalStore(tmp_path), FRONT)
    write(tmp_path, folder, 1, [10])
    write(tmp_path, folder, 2, [20])
    (tmp_path / folder.name / "seal-00000002").unlink()
    assert times(folder.seal(Attempt(3), START)) == [10]


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
    writers: list[Writer] = []
    durable: list[int] = []
    for clock, (step, number) in enumerate([("seal", 0), *steps, ("seal", 0)], 1):
        if step == "seal":
            counted = folder.seal(Attempt(len(writers) + 1), START)
            assert set(durable) <= set(times(counted))
            # a write that was never reported may count or not, but from now on for ever
            durable = times(counted)
            writers.append(Writer(folder, len(writers) + 1, counted))
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
            writers.append(Writer(folder, len(writers) + 1, counted))
    assert times(Counted((), folder.everything(), ())) == durable
    for writer in writers:
        writer.log.abandon()
