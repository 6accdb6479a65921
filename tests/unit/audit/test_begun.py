"""The note of what a job began with counts only if that was committed."""

from pathlib import Path

import pytest

from flamestream.audit.begun import MARK, Begun, begun, settle
from flamestream.core.protocol.job_record import JobRecord
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Attempt, Epoch, LayoutVersion, Slot, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import START
from flamestream.node.run_folder import RunFolder

W = WorkerId("w")


def record(committed: int) -> JobRecord:
    layout = Layout(version=LayoutVersion(1), owners=(W,) * Slot(1), fronts=(W,), acker=W)
    epoch = Epoch(committed)
    return JobRecord(
        attempt=Attempt(1),
        layout=layout,
        announced=epoch,
        committed=epoch,
        cut=START,
        index="",
        index_hash="",
    )


@pytest.mark.parametrize(
    ("found", "stays"), [(None, False), (record(0), False), (record(1), True), (record(9), True)]
)
def test_a_start_that_finds_no_epoch_forgets_the_history(
    tmp_path: Path, found: JobRecord | None, stays: bool
) -> None:
    folder = RunFolder(tmp_path).made()
    noted = Begun({"docs": "history"}, 7)
    folder.write(MARK, noted)
    settle(folder, found)
    assert begun(folder) == (noted if stays else None)


def test_a_damaged_note_is_corrupt_and_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.made()
    (tmp_path / MARK).write_bytes(b'{"cut": "\xff')
    with pytest.raises(Corrupt, match=f"{MARK} says how the job began and cannot be read"):
        begun(folder)
