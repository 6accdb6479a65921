"""Worker tasks in a real Spark: whatever is killed comes back, alone, and nothing outlives what it belongs to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from flamestream.model.errors import ManifestError, Retryable
from flamestream.spark.session import INTERPRETER, SparkDriver, SparkSettings
from flamestream.spark.streaming import WorkerTasks, run_workers
from support.eventually import eventually
from support.lives import Trace, live, lives, newest
from support.processes import alive, children, kill, parent

pytestmark = pytest.mark.spark
TESTS = Path(__file__).parents[1]


@dataclass(slots=True)
class Job:
    """Two worker tasks that leave traces in `folder`."""

    driver: SparkDriver
    folder: Path
    tasks: WorkerTasks
    ended: list[Retryable | None] = field(default_factory=list)

    def settled(self) -> dict[int, Trace]:
        """Both tasks' newest lives, once both are alive."""
        return eventually(self._both_alive, "both tasks run", within=90)

    def again(self, index: int, before: Trace) -> Trace:
        """The life of a task after `before`."""
        return eventually(lambda: self._after(index, before), f"task {index} is started again", within=90)

    def told_to_stop(self, code: int = 0) -> None:
        (self.folder / "stop").write_text(str(code))

    def _both_alive(self) -> dict[int, Trace] | None:
        now = newest(self.folder)
        return now if len(now) == 2 and all(alive(trace.pid) for trace in now.values()) else None

    def _after(self, index: int, before: Trace) -> Trace | None:
        now = newest(self.folder).get(index)
        return now if now and now.name != before.name else None


Start = Callable[[SparkDriver], Job]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkDriver]:
    """A local Spark for the tests that leave it as it was."""
    with SparkDriver(settings_in(tmp_path_factory.mktemp("spark"))) as driver:
        yield driver


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts jobs that end with the test."""
    started: list[Job] = []

    def job(driver: SparkDriver) -> Job:
        folder = tmp_path / "lives"
        folder.mkdir()
        ended: list[Retryable | None] = []
        started.append(Job(driver, folder, run_workers(driver.context, 2, partial(live, str(folder)), ended.append), ended))
        return started[-1]

    yield job
    for one in started:
        one.tasks.stop()


def settings_in(folder: Path, master: str = "") -> SparkSettings:
    return SparkSettings(workers=2, scratch=folder / "spark", master=master, python_path=(TESTS,))


def test_a_killed_worker_is_started_again_and_its_peer_is_left_alone(local: SparkDriver, start: Start) -> None:
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
        eventually(lambda pid=trace.pid: not alive(pid), f"the orphan {trace.name} ends")
        again = job.again(index, trace)
        assert again.daemon != trace.daemon


def test_a_killed_executor_comes_back_with_its_worker_and_the_other_is_left_alone(tmp_path: Path, start: Start) -> None:
    with SparkDriver(settings_in(tmp_path, "local-cluster[2,1,512]")) as driver:
        check_a_killed_executor(start(driver))


def check_a_killed_executor(job: Job) -> None:
    before = job.settled()
    executor = parent(before[0].daemon)
    assert executor != parent(before[1].daemon), "the two workers share an executor"
    assert executor in children(job.driver.jvm.pid)
    kill(executor)
    eventually(lambda: not alive(before[0].pid), "the worker ends with its executor")
    again = job.again(0, before[0])
    assert parent(again.daemon) != executor
    assert newest(job.folder)[1] == before[1]
    assert alive(before[1].pid)


def test_workers_are_forked_ready_and_all_alike(local: SparkDriver, start: Start) -> None:
    for trace in start(local).settled().values():
        assert trace.environment == INTERPRETER
        assert trace.imported, "a worker had to import its own code"
        assert trace.threads == 1, "the daemon had threads when it forked"
        assert trace.frozen > 10_000, "what was imported is not out of the collector's reach"


def test_the_job_ends_well_when_every_worker_was_told_to_stop(local: SparkDriver, start: Start) -> None:
    job = start(local)
    job.settled()
    job.told_to_stop()
    assert job.tasks.wait(30)
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


def test_a_lost_driver_is_reported_and_leaves_nothing_behind(tmp_path: Path, start: Start) -> None:
    with SparkDriver(settings_in(tmp_path)) as driver:
        job = start(driver)
        before = job.settled()
        kill(driver.jvm.pid)
        (problem,) = eventually(lambda: list(job.ended), "the loss is reported")
    assert isinstance(problem, Retryable)
    assert "Spark gave up the worker tasks" in str(problem)
    eventually(lambda: not any(alive(trace.pid) or alive(trace.daemon) for trace in before.values()), "workers and daemon end")
    assert not (tmp_path / "spark").exists()


def test_more_workers_than_cores_are_refused_before_one_waits_for_ever(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, "local[1]")
    refused = pytest.raises(ManifestError, match=r"'local\[1\]' runs 1 tasks at a time, the job has 2 workers")
    with SparkDriver(settings) as driver, refused:
        run_workers(driver.context, 2, partial(live, str(tmp_path)), lambda _: None)
