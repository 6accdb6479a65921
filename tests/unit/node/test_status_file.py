"""status.json: whole, current, and not written at every change."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from flamestream.job.status import JobStatus
from flamestream.loop.reactor import EpollReactor
from flamestream.node.status_file import StatusFile
from support import loops


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with loops.reactor() as made:
        yield made


def seen(path: Path) -> int:
    return msgspec.json.decode(path.read_bytes(), type=JobStatus).epoch


def test_the_first_change_is_there_at_once_and_the_last_of_many_soon(
    loop: EpollReactor, tmp_path: Path
) -> None:
    path, epochs, looks = tmp_path / "status.json", [1], [0]

    def look() -> JobStatus:
        looks[0] += 1
        return JobStatus(job="job", pid=1, updated=0, phase="running", epoch=epochs[-1])

    file = StatusFile(loop, path, look)
    file.changed()
    assert seen(path) == 1
    for epoch in range(2, 1_000):
        epochs.append(epoch)
        file.changed()
    loops.turn_until(loop, lambda: seen(path) == 999, "the last change")
    assert looks == [2]


def test_nothing_is_left_beside_the_file(loop: EpollReactor, tmp_path: Path) -> None:
    StatusFile(
        loop, tmp_path / "status.json", lambda: JobStatus(job="job", pid=1, updated=0, phase="running")
    ).write()
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]
