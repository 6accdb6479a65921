"""The job record in a file: one writer wins each round, and damage is never "no record"."""

import fcntl
import threading
from pathlib import Path

import msgspec
import pytest

from flamestream.model.errors import ClusterStateUnavailable, Corrupt
from flamestream.model.ids import Attempt, Epoch, LayoutVersion, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import Time
from flamestream.ports import JobRecord
from flamestream.store import record_file as module
from flamestream.store.record_file import RecordFile

WORKER = WorkerId("w")
RECORD = JobRecord(
    attempt=Attempt(1),
    layout=Layout(LayoutVersion(1), (WORKER,), (WORKER,), WORKER),
    announced=Epoch(0),
    committed=Epoch(0),
    cut=Time(0),
    manifest="",
    manifest_hash="",
)


def at(attempt: int) -> JobRecord:
    return msgspec.structs.replace(RECORD, attempt=Attempt(attempt))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.json"


def test_only_the_version_that_was_read_can_be_replaced(path: Path) -> None:
    records = RecordFile(path)
    assert records.read() is None
    assert records.compare_and_set(at(1), 0) is None, "there is none yet"
    first = records.compare_and_set(at(1), None)
    assert first is not None
    assert records.compare_and_set(at(9), None) is None, "there is one already"
    second = records.compare_and_set(at(2), first)
    assert second is not None
    assert second != first
    assert records.compare_and_set(at(9), first) is None
    assert RecordFile(path).read() == (at(2), second)


def test_of_many_writers_of_a_version_one_wins(path: Path) -> None:
    version = RecordFile(path).compare_and_set(at(0), None)
    for _ in range(10):
        ready = threading.Barrier(6)
        won: dict[int, int] = {}

        def write(attempt: int, ready: threading.Barrier = ready, won: dict[int, int] = won, version: int | None = version) -> None:
            records = RecordFile(path)
            ready.wait()
            if (new := records.compare_and_set(at(attempt), version)) is not None:
                won[attempt] = new

        threads = [threading.Thread(target=write, args=(attempt,)) for attempt in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        [(winner, version)] = won.items()
        assert RecordFile(path).read() == (at(winner), version)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"version": 1}', b"\0" * 100])
def test_a_damaged_record_is_corrupt(path: Path, damage: bytes) -> None:
    path.write_bytes(damage)
    with pytest.raises(Corrupt, match=str(path)):
        RecordFile(path).read()
    with pytest.raises(Corrupt, match=str(path)):
        RecordFile(path).compare_and_set(at(1), None)


def test_a_missing_folder_is_unavailable_and_not_a_first_start(tmp_path: Path) -> None:
    records = RecordFile(tmp_path / "volume" / "record.json")
    with pytest.raises(ClusterStateUnavailable, match="folder is missing"):
        records.read()
    with pytest.raises(ClusterStateUnavailable, match="cannot write"):
        records.compare_and_set(at(1), None)


def test_a_lock_that_is_never_let_go_is_given_up_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_PAUSE", 0)
    with open(f"{path}.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ClusterStateUnavailable, match="lock was held"):
            RecordFile(path).compare_and_set(at(1), None)
    assert RecordFile(path).compare_and_set(at(1), None) is not None
