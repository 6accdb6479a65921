"""Workers as plain processes: who is started again when one dies, and when."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flamestream.local import workers
from flamestream.local.workers import TAKEN_OVER_WITHIN, PlainWorkers


class Loop:
    """A reactor whose time passes when it is told to."""

    def __init__(self) -> None:
        self.watched: dict[int, Callable[[], None]] = {}
        self.due: list[tuple[float, Callable[[], None]]] = []

    def watch(self, fd: int, readable: Callable[[], None]) -> None:
        self.watched[fd] = readable

    def unwatch(self, fd: int) -> None:
        del self.watched[fd]

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.due.append((seconds, call))


class Job:
    """Its processes do nothing."""

    def __init__(self, folder: Path, count: int, standby: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop, self.started, self.config = Loop(), list[subprocess.Popen[bytes]](), folder / "worker.json"
        self.ended = list[object]()
        monkeypatch.setattr(workers, "start_child", self._start)
        loop: Any = self.loop
        self.workers = PlainWorkers(loop, folder, standby, self.ended.append)
        self.workers.start(count, self.config)

    def _start(self, *_: object) -> subprocess.Popen[bytes]:
        self.started.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE))
        return self.started[-1]

    def dies(self, number: int, *, code: int = -9) -> None:
        """The process that was started as this one, by a signal; or it ends with code 0."""
        process = self.started[number]
        if code:
            process.kill()
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        for over in list(self.loop.watched.values()):
            over()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, int], Job]]:
    made = list[Job]()

    def make(count: int, standby: int) -> Job:
        made.append(Job(tmp_path, count, standby, monkeypatch))
        return made[-1]

    yield make
    for each in made:
        each.workers.stop()
        for process in each.started:
            assert process.stdin is not None
            process.stdin.close()


def test_without_a_standby_the_dead_is_started_again_at_once(job: Callable[[int, int], Job]) -> None:
    its = job(2, 0)
    its.dies(0)
    assert (len(its.started), its.loop.due) == (3, [])


def test_a_standby_has_the_processors_until_it_has_taken_over(job: Callable[[int, int], Job]) -> None:
    its = job(3, 1)
    its.dies(0)
    assert (len(its.started), its.workers.running(its.config)) == (3, 3), "it counts, and is not there yet"
    ((seconds, start),) = its.loop.due
    start()
    assert (len(its.started), seconds) == (4, TAKEN_OVER_WITHIN)


def test_when_more_die_than_stand_by_all_are_started_at_once(job: Callable[[int, int], Job]) -> None:
    its = job(3, 1)
    its.dies(0)
    its.dies(1)
    assert len(its.started) == 5
    its.loop.due[0][1]()
    assert len(its.started) == 5, "each once"


def test_a_job_that_ends_starts_nobody_who_was_due(job: Callable[[int, int], Job]) -> None:
    its = job(2, 1)
    its.dies(0)
    its.dies(1, code=0)
    its.loop.due[0][1]()
    assert (len(its.started), its.ended) == (2, [None])
