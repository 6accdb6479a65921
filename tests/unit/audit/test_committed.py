"""What a job has committed last is read whole, or it is an error: never taken for nothing."""

from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from flamestream.audit.committed import cluster_state_of, committed_here, read_commit, savepoint_named
from flamestream.core.dataflow.held_outputs import _row
from flamestream.core.protocol.actions import Bundle
from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.model.errors import Corrupt, Retryable, UserError
from flamestream.model.ids import Epoch, SequenceNumber, Slot
from flamestream.model.meta import meta_of
from flamestream.model.payload import encode_items
from flamestream.model.time import START, FrontId
from flamestream.node.run_folder import RunFolder
from flamestream.store.folder import LocalStore
from flamestream.store.segment import table_of
from flamestream.store.snapshot_index import encode_index, write_index
from flamestream.store.snapshots import put_segment
from support.records import Records
from support.runs.past_run import FRONT, going_on, run_time


@dataclass
class Kept:
    """A store and a record."""

    store: LocalStore
    records: Records

    @property
    def url(self) -> str:
        return str(self.store.root)

    def commit(self, index: SnapshotIndex, name: str = "indexes/one") -> JobRecord:
        digest = write_index(self.store, name, index)
        record = msgspec.structs.replace(going_on().record(), index=name, index_hash=digest)
        found = self.records.read()
        self.records.compare_and_set(record, None if found is None else found[1])
        return record


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(LocalStore(tmp_path / "store", create=True), Records())


def index() -> SnapshotIndex:
    found = going_on().index()
    assert found is not None
    return found


def test_a_job_that_never_ran_has_committed_nothing(kept: Kept) -> None:
    last = read_commit(kept.records, kept.url)
    assert (last.record, last.epoch, last.cut, last.completed) == (None, 0, START, False)


def test_a_commit_is_its_record_and_its_index(kept: Kept) -> None:
    record = kept.commit(index())
    last = read_commit(kept.records, kept.url)
    assert (last.record, last.index, last.epoch, last.cut) == (record, index(), 7, run_time(6))
    assert (position := last.position(FRONT)) is not None and position.offsets == {"lines.txt": 24}
    assert last.position(FrontId(3)) is None


@pytest.mark.parametrize("damage", ["missing", "other bytes"])
def test_a_index_that_is_not_whole_is_an_error_that_names_it(kept: Kept, damage: str) -> None:
    kept.commit(index())
    file = kept.store.root / "indexes" / "one"
    file.unlink() if damage == "missing" else file.write_bytes(
        encode_index(msgspec.structs.replace(index(), cut=run_time(1)))
    )
    with pytest.raises(Corrupt, match="indexes/one"):
        read_commit(kept.records, kept.url)


def test_a_index_that_a_newer_commit_has_removed_meanwhile_is_read_anew(kept: Kept) -> None:
    kept.commit(index())
    kept.store.delete("indexes/one")
    newer = msgspec.structs.replace(index(), epoch=Epoch(8))

    class Moving:
        """Somebody commits behind the first look."""

        looks = 0

        def read(self) -> tuple[JobRecord, int] | None:
            self.looks += 1
            if self.looks == 2:
                kept.commit(newer, "indexes/two")
            return kept.records.read()

        compare_and_set = kept.records.compare_and_set

    assert read_commit(Moving(), kept.url).index == newer


def test_commits_that_outrun_the_reader_are_told(kept: Kept) -> None:
    class Running(Records):
        looks = 0

        def read(self) -> tuple[JobRecord, int] | None:
            self.looks += 1
            return msgspec.structs.replace(going_on().record(), index=f"indexes/{self.looks}"), 0

    with pytest.raises(Retryable, match="faster than their indexes"):
        read_commit(Running(), kept.url)


def test_what_an_epoch_holds_is_not_due(kept: Kept) -> None:
    metas = [meta_of(run_time(5), place) for place in range(3)]
    bundle = Bundle(Slot(3), SequenceNumber(1), metas[-1], encode_items([(meta, "x") for meta in metas]))
    ref = put_segment(kept.store, "words/segments/held", table_of([_row(0, bundle, Epoch(7))]))
    kept.commit(msgspec.structs.replace(index(), held=(ref,)))
    assert read_commit(kept.records, kept.url).held == set(metas)


@pytest.mark.parametrize("names", [[], ["before-0123abcd", "before-89efabcd"], ["before-upgrade-0123abcd"]])
def test_a_savepoint_that_is_not_there_or_not_one_is_an_error(kept: Kept, names: list[str]) -> None:
    for name in names:
        write_index(kept.store, f"savepoints/default.words/{name}/index.json", index())
    with pytest.raises(UserError, match="savepoints of FlameStreamSnapshot 'before'"):
        savepoint_named("before", kept.url)


def test_a_savepoint_is_found_by_the_name_of_its_object(kept: Kept) -> None:
    write_index(kept.store, "savepoints/default.words/before-0123abcd/index.json", index())
    write_index(kept.store, "savepoints/default.words/before-upgrade-0123abcd/index.json", index())
    assert savepoint_named("before", kept.url).cut == run_time(6)


def test_a_run_folder_without_a_cluster_state_says_how_its_job_ended_at_most(
    kept: Kept, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.status_file.write_text(
        '{"job": "job", "pid": 1, "updated": 0, "phase": "finished", "outcome": "completed"}'
    )
    with cluster_state_of(folder) as zookeeper:
        last = committed_here(folder, zookeeper, "words", kept.url)
    assert (last.record, last.completed) == (None, True)


def test_of_a_job_that_has_never_run_it_is_said(kept: Kept, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with cluster_state_of(folder) as zookeeper, pytest.raises(UserError, match="'words' has not run here"):
        committed_here(folder, zookeeper, "words", kept.url)


def test_a_record_that_is_gone_is_an_error_where_epochs_were_told(kept: Kept, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.status_file.write_text(
        '{"job": "job", "pid": 1, "updated": 0, "phase": "finished", "outcome": "drained", "epoch": 3}'
    )
    with (
        cluster_state_of(folder) as zookeeper,
        pytest.raises(Corrupt, match=r"tells of epoch 3, and the job record in .* of none"),
    ):
        committed_here(folder, zookeeper, "words", kept.url)
