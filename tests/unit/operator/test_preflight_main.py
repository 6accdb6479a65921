"""The trial of new code reads a snapshot that the stream beside it replaces all the time."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from flamestream.core.protocol.job_record import JobRecord
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.model.errors import Corrupt
from flamestream.model.ids import NO_FENCE, Attempt, Epoch, LayoutVersion, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import Time
from flamestream.store.snapshot_index import write_index
from flamestream_operator.tools.preflight_main import newest


@dataclass
class Store:
    """What a store does that a commit in between changes."""

    objects: dict[str, bytes] = field(default_factory=dict)

    def get(self, name: str) -> bytes:
        if name not in self.objects:
            raise Corrupt(f"object {name!r} is missing")
        return self.objects[name]

    def put_new(self, name: str, data: bytes) -> bool:
        self.objects[name] = data
        return True


class Stream:
    """Commits an epoch whenever its record was read, so often as is asked; the index before goes."""

    def __init__(self, commits: int) -> None:
        self.store, self.commits, self.epoch = Store(), commits, 0
        self.record = self.commit()

    def commit(self) -> JobRecord:
        self.epoch += 1
        epoch, cut, name = Epoch(self.epoch), Time(self.epoch * 10), f"indexes/{self.epoch}"
        index = SnapshotIndex(
            job="j",
            graph="g",
            python="3.11",
            slots=1,
            epoch=epoch,
            fence=NO_FENCE,
            cut=cut,
            segments=(),
            fronts=(),
            outputs=(),
        )
        self.store.objects.clear()
        digest = write_index(self.store, name, index)  # type: ignore[arg-type]  # what it needs of a store
        layout = Layout(LayoutVersion(1), (WorkerId("w"),), (), WorkerId("w"))
        return JobRecord(
            attempt=Attempt(1), layout=layout, announced=epoch, committed=epoch, cut=cut, index=name,
            index_hash=digest, job="j", writer="",
        )  # fmt: skip

    def read(self) -> Any:
        found = self.record
        if self.commits:
            self.commits -= 1
            self.record = self.commit()
        return found, 1


def test_a_snapshot_that_is_replaced_while_it_is_looked_at_is_looked_up_again() -> None:
    stream = Stream(commits=3)
    found = newest(stream, stream.store)  # type: ignore[arg-type]  # what it needs of both
    assert found is not None
    assert found.epoch == 4


def test_a_snapshot_that_is_gone_for_good_is_an_error() -> None:
    stream = Stream(commits=0)
    stream.store.objects.clear()
    with pytest.raises(Corrupt, match="missing"):
        newest(stream, stream.store)  # type: ignore[arg-type]
