"""Worker tasks in a real Spark: whatever is killed comes back, alone, and nothing outlives what it belongs
to."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from flamestream.machine.process_shell import INTERPRETER
from flamestream.model.errors import ManifestError
from flamestream.spark.streaming.session import SparkDriver
from flamestream.spark.streaming.streaming import run_workers
from support.eventually import eventually
from support.processes import alive, dead, kill
from support.runs.lives import live, lives, newest
from support.runs.spark_job import Start, settings_in, started_in

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    """A local Spark for the tests that leave it as it was."""
    with SparkDriver(settings_in(tmp_path_factory.mktemp("spark"))) as driver:
        yield driver


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts jobs that end with the test."""
    yield from started_in(tmp_path)


def test_a_killed_worker_is_started_again_and_its_peer_is_left_alone(
    local: SparkDriver, start: Start
) -> None:
    job = start(local)
    before = job.settled()
    for _ in range(3):
        victim = newest(job.folder)[0]
        kill(victim.pid)
        again = job.again(0, victim)
        assert again.ordinal == victim.ordinal + 1
        assert newest(job.folder)[1] == before[1]
        assert alive(before[1].pid)
    assert len({trace.name for trace in lives(job.folder)}) == 5, "no life has another's name"


def test_workers_of_a_killed_daemon_end_and_are_started_again(local: SparkDriver, start: Start) -> None:
    job = start(local)
    before = job.settled()
    assert before[0].daemon == before[1].daemon
    kill(before[0].daemon)
    for index, trace in before.items():
        eventually(partial(dead, trace.pid), f"the orphan {trace.name} ends")
        again = job.again(index, trace)
        assert again.daemon != trace.daemon


def test_workers_are_forked_ready_and_all_alike(local: SparkDriver, start: Start) -> None:
    for trace in start(local).settled().values():
        assert trace.environment == INTERPRETER
        assert trace.imported, "a worker had to import its own code"
        assert trace.daemon_threads == 1, "the daemon had threads when it forked"
        assert trace.frozen > 10_000, "what was imported is not out of the collector's reach"


def test_the_job_ends_well_when_every_worker_was_told_to_stop(local: SparkDriver, start: Start) -> None:
    job = start(local)
    job.settled()
    job.told_to_stop()
    assert job.tasks.wait(90)
    assert eventually(lambda: list(job.ended), "the end is reported") == [None]
    assert len(lives(job.folder)) == 2, "a task that had returned was started again"


def test_a_worker_that_fails_is_started_again(local: SparkDriver, start: Start) -> None:
    job = start(local)
    before = job.settled()
    job.told_to_stop(code=4)
    job.again(0, before[0])
    (job.folder / "stop").unlink(missing_ok=True)
    assert job.tasks.running
    assert not job.ended


def test_stopping_kills_workers_that_do_not_listen(local: SparkDriver, start: Start) -> None:
    job = start(local)
    before = job.settled()
    job.tasks.stop()
    assert job.ended == [None]
    eventually(lambda: not any(alive(trace.pid) for trace in before.values()), "the workers end")


def test_more_workers_than_cores_are_refused_before_one_waits_for_ever(
    local: SparkDriver, tmp_path: Path
) -> None:
    with pytest.raises(
        ManifestError, match=r"'local\[2,1000000\]' runs 2 tasks at a time, the job has 3 workers"
    ):
        run_workers(local.context, 3, partial(live, str(tmp_path)), lambda _: None)
