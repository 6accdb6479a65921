"""A real Spark as a whole: lost executors, a lost driver, what it is started with, and what it leaves."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flamestream.machine import cache
from flamestream.machine.java import find_java
from flamestream.model.errors import Retryable, UserError
from flamestream.spark.streaming.make_class_archives import spark_archive
from flamestream.spark.streaming.session import SparkDriver, SparkSettings
from support.eventually import eventually
from support.processes import alive, children, kill, parent
from support.runs.lives import newest
from support.runs.spark_job import Job, Start, settings_in, started_in

pytestmark = pytest.mark.spark


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts jobs that end with the test."""
    yield from started_in(tmp_path)


def test_a_killed_executor_comes_back_with_its_worker_and_the_other_is_left_alone(
    tmp_path: Path, start: Start
) -> None:
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


def test_a_lost_driver_is_reported_and_leaves_nothing_behind(tmp_path: Path, start: Start) -> None:
    with SparkDriver(settings_in(tmp_path)) as driver:
        job = start(driver)
        before = job.settled()
        kill(driver.jvm.pid)
        (problem,) = eventually(lambda: list(job.ended), "the loss is reported")
    assert isinstance(problem, Retryable)
    assert "Spark gave up the worker tasks" in str(problem)
    eventually(
        lambda: not any(alive(trace.pid) or alive(trace.daemon) for trace in before.values()),
        "workers and daemon end",
    )
    assert not (tmp_path / "spark").exists()


def test_several_that_ask_for_it_at_once_get_the_same_context(tmp_path: Path) -> None:
    with SparkDriver(settings_in(tmp_path)) as driver, ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda _: driver.context, range(3)))
        assert found == [driver.context] * 3


def test_a_second_session_follows_the_first_in_one_process(tmp_path: Path) -> None:
    for scratch in (tmp_path / "first", tmp_path / "second"):
        with SparkDriver(SparkSettings(workers=1, scratch=scratch)) as driver:
            assert driver.context.parallelize(range(3), 1).sum() == 3
        assert not scratch.exists()


def test_a_master_that_is_none_is_the_users_error(tmp_path: Path) -> None:
    with (
        SparkDriver(settings_in(tmp_path, "lokal[2]")) as driver,
        pytest.raises(UserError, match=r"Spark does not start with 'lokal\[2\]'.*Could not parse Master URL"),
    ):
        _ = driver.context


def test_a_driver_that_cannot_start_says_why(tmp_path: Path) -> None:
    settings = SparkSettings(workers=1, scratch=tmp_path, conf={"spark.driver.memory": "much"})
    with (
        SparkDriver(settings) as driver,
        pytest.raises(
            Retryable, match=r"(?s)driver JVM ended with exit code 1.*Invalid maximum heap size: -Xmxmuch"
        ),
    ):
        _ = driver.context


@pytest.mark.slow  # it makes an archive; of another Java at each push
def test_the_driver_runs_on_the_packaged_java_and_its_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    java = find_java({"PATH": str(tmp_path)})
    archive = spark_archive(java)
    with SparkDriver(SparkSettings(workers=1, scratch=tmp_path / "spark"), java) as driver:
        assert driver.context.parallelize(range(3), 1).sum() == 3
        assert str(archive) in Path(f"/proc/{driver.jvm.pid}/maps").read_text()


def test_driver_and_executors_start_from_the_class_archive(tmp_path: Path, start: Start) -> None:
    archive = spark_archive(find_java())
    with SparkDriver(settings_in(tmp_path, "local-cluster[2,1,512]")) as driver:
        now = start(driver).settled()
        for pid in (driver.jvm.pid, parent(now[0].daemon)):
            assert str(archive) in Path(f"/proc/{pid}/maps").read_text()
