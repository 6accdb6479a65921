"""Disk: each write is answered once, in its order, behind its sync; what went wrong is told and not
hidden."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flamestream.loop.reactor import EpollReactor
from flamestream.machine.disk import Disk
from support.loops import reactor, turn_until

pytestmark = pytest.mark.skipif(not Disk.here(), reason="this installation has no kernel")


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with reactor() as made:
        yield made


def test_each_write_is_answered_in_its_order_when_all_of_it_is_in_the_file(
    loop: EpollReactor, tmp_path: Path
) -> None:
    fd, told = os.open(tmp_path / "log", os.O_CREAT | os.O_APPEND | os.O_WRONLY), []
    pieces = [b"%d" % number * (number * 1000) for number in range(1, 9)]
    disk = Disk(loop)
    for at, piece in enumerate(pieces):
        disk.write(fd, piece, lambda error, at=at: told.append((at, error)))  # type: ignore[misc]
    assert told == [], "nothing from within the call"
    turn_until(loop, lambda: len(told) == len(pieces), "every answer")
    assert told == [(at, None) for at in range(len(pieces))]
    assert (tmp_path / "log").read_bytes() == b"".join(pieces)


@pytest.mark.parametrize(
    "wrong", ["a file that cannot be written", "a file that cannot be synced", "no file"]
)
def test_what_went_wrong_is_told_and_the_next_write_goes_on(
    loop: EpollReactor, tmp_path: Path, wrong: str
) -> None:
    reads, writes = os.pipe()
    fd, code = {
        "a file that cannot be written": (os.open("/dev/full", os.O_WRONLY), errno.ENOSPC),
        "a file that cannot be synced": (writes, errno.EINVAL),
        "no file": (-1, errno.EBADF),
    }[wrong]
    told: list[OSError | None] = []
    disk = Disk(loop)
    disk.write(fd, b"x", told.append)
    disk.write(os.open(tmp_path / "log", os.O_CREAT | os.O_WRONLY), b"y", told.append)
    turn_until(loop, lambda: len(told) == 2, "both answers")
    assert told[0] is not None
    assert (told[0].errno, told[1]) == (code, None)
    os.close(reads)


def test_the_thread_runs_where_the_process_may(loop: EpollReactor) -> None:
    """A loop that keeps to one processor would share it with the disk otherwise."""
    everywhere = os.sched_getaffinity(0)
    before = set(os.listdir("/proc/self/task"))
    os.sched_setaffinity(0, {min(everywhere)})
    try:
        Disk(loop)
        (thread,) = set(os.listdir("/proc/self/task")) - before
        assert os.sched_getaffinity(int(thread)) == everywhere
        assert os.sched_getaffinity(0) == {min(everywhere)}
    finally:
        os.sched_setaffinity(0, everywhere)
