"""A savepoint's objects in the store: one savepoint a name, however often it is tried."""

from pathlib import Path

from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import SegmentRef, SnapshotIndex
from flamestream.model.ids import NO_FENCE, Attempt, Epoch, LayoutVersion, Slot, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import Time
from flamestream.store.folder import LocalStore
from flamestream.store.snapshot_index import write_index
from flamestream.store.snapshots import checksum_of
from flamestream_operator.coordination.savepoints import take


def committed(store: LocalStore, number: int) -> JobRecord:
    """The record of a job that has committed this epoch."""
    epoch, cut, rows = Epoch(number), Time(number * 10), f"rows of epoch {number}".encode()
    segment = SegmentRef(f"j/segments/{number}.parquet", len(rows), checksum_of(rows), 1, (Slot(0),))
    assert store.put_new(segment.name, rows)
    index = SnapshotIndex(
        job="j", graph="g", python="3.11", slots=1, epoch=epoch, fence=NO_FENCE, cut=cut, segments=(segment,),
        fronts=(), outputs=(),
    )  # fmt: skip
    name = f"indexes/{number}"
    return JobRecord(
        attempt=Attempt(1), layout=Layout(LayoutVersion(1), (WorkerId("w"),), (), WorkerId("w")),
        announced=epoch, committed=epoch, cut=cut, index=name,
        index_hash=write_index(store, name, index), job="j",
    )  # fmt: skip


def test_a_second_try_answers_with_what_the_first_has_taken_though_the_job_has_gone_on(
    tmp_path: Path,
) -> None:
    store = LocalStore(tmp_path, durable=False)
    first = take(store, "url", committed(store, 1), "j", "before-1")
    assert first.epoch == 1
    assert take(store, "url", committed(store, 2), "j", "before-1") == first
