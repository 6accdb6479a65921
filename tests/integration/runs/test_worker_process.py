"""A whole job in real processes, without Spark: it ends with the reference's bytes, whoever dies on the
way."""

import random
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flamestream.model import payload as codec
from flamestream.model.time import FrontId, Time, Timestamp, time_of
from flamestream.reference import interpret
from support.eventually import eventually
from support.processes import suspend
from support.runs.local_job import LocalJob

WORDS = """
import flamestream as fs

graph = fs.Graph("words")
counts = graph.source("numbers").flat_map(lambda n: [(n % 17, n), (n % 5, n)]).reduce(
    key=lambda p: p[0], initial=str, combine=lambda a, p: (a + str(p[1]))[-12:], emit=lambda a, p: (p[0], a)
)
counts.sink("out", key=lambda c: c[0])
"""
RUN = 64
Make = Callable[..., LocalJob]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Jobs whose processes end with the test."""
    with ExitStack() as stack:

        def made(
            application: str = WORDS, *, count: int = 20_000, rate: float | None = None, **options: Any
        ) -> LocalJob:
            source: dict[str, Any] = {
                "generator": {"count": count} | ({} if rate is None else {"rate": rate})
            }
            job = LocalJob(tmp_path, application, source, **options)
            stack.callback(job.close)
            return job

        yield made


def contents(items: list[tuple[bytes, Any]]) -> list[bytes]:
    """What is compared: payloads in the total order, byte for byte."""
    return [codec.encode_many([payload]) for _, payload in items]


def expected(job: LocalJob, count: int) -> list[bytes]:
    """The reference's output. Times do not matter here: one front, so its order is the order of the
    numbers."""
    runs = [(time_of(Timestamp(1 + number), FrontId(0)), [number]) for number in range(count)]
    return contents([(meta, payload) for meta, payload in interpret(job.graph, runs)["out"]])


def test_a_job_runs_to_its_end(make: Make) -> None:
    job = make(count=20_000).start()
    assert job.ended() == 0, job.logs()
    assert contents(job.delivered()) == expected(job, 20_000)
    status = job.status()
    assert status is not None
    assert (status.phase, status.outcome, status.message) == ("finished", "completed", "")
    assert [process.returncode for process in job.workers.values()] == [0, 0]


def test_a_killed_worker_is_replaced_and_nothing_is_lost_doubled_or_reordered(make: Make) -> None:
    job = make(count=20_000, rate=8_000)
    # the newcomer takes over, however slowly it starts
    job.settings = replace(job.settings, grace_us=60_000_000)
    job.start()
    survivor, victim = sorted(job.workers)
    job.until_delivered(4_000)
    job.workers[victim].kill()
    newcomer = job.start_worker()
    status = job.until_running(attempt=2)
    assert {worker.worker for worker in status.workers} == {survivor, newcomer}
    assert status.last_recovery is not None
    assert victim in status.last_recovery.cause
    assert job.ended() == 0, job.logs()
    assert contents(job.delivered()) == expected(job, 20_000)


def test_the_stream_goes_on_without_a_coordinator_and_the_next_one_finds_its_workers(make: Make) -> None:
    job = make(count=24_000, rate=8_000).start()
    job.until_delivered(2_000)
    assert job.coordinator is not None
    job.coordinator.kill()
    job.coordinator.wait()
    before = len(job.delivered())
    eventually(lambda: len(job.delivered()) > before + 4_000, "more output without a coordinator")
    job.start_coordinator()
    assert job.until_running().attempt == 1, "nobody was lost, so nothing was recovered"
    assert job.ended() == 0, job.logs()
    assert contents(job.delivered()) == expected(job, 24_000)


def test_a_worker_that_stood_still_comes_back_as_a_zombie_and_changes_nothing(make: Make) -> None:
    job = make(count=16_000, rate=4_000)
    job.settings = replace(job.settings, heartbeat_us=500_000)
    job.start()
    job.until_delivered(2_000)
    zombie = job.workers[sorted(job.workers)[-1]]
    suspend(zombie.pid)
    job.start_worker()
    job.until_running(attempt=2)
    zombie.send_signal(signal.SIGCONT)
    assert job.ended() == 0, job.logs()
    assert contents(job.delivered()) == expected(job, 16_000)


@pytest.mark.parametrize("seed", range(2))
def test_random_kills_of_workers_and_coordinator(make: Make, seed: int) -> None:
    chance = random.Random(seed)
    job = make(count=30_000, rate=5_000).start()
    for _ in range(4):
        status = job.until_running()
        if chance.random() < 0.3:
            assert job.coordinator is not None
            job.coordinator.kill()
            job.coordinator.wait()
            job.start_coordinator()
            job.until_running(status.attempt)
        else:
            job.workers[chance.choice(status.workers).worker].kill()
            job.start_worker()
            job.until_running(status.attempt + 1)
    assert job.ended() == 0, job.logs()
    assert contents(job.delivered()) == expected(job, 30_000)


def test_a_stopped_job_resumes_where_it_stopped(make: Make) -> None:
    job = make(count=16_000, rate=8_000).start()
    job.until_delivered(3_000)
    assert job.coordinator is not None
    job.coordinator.terminate()
    assert job.ended() == 0, job.logs()
    stopped = job.status()
    assert stopped is not None
    assert stopped.outcome == "stopped"
    assert 0 < len(job.delivered()) < 32_000
    job.start()
    assert job.ended() == 0, job.logs()
    assert contents(job.delivered()) == expected(job, 16_000)


def test_a_drained_job_has_delivered_all_that_entered(make: Make) -> None:
    job = make(count=16_000, rate=4_000).start()
    job.until_delivered(3_000)
    assert job.coordinator is not None
    job.coordinator.send_signal(signal.SIGUSR1)
    assert job.ended() == 0, job.logs()
    drained = job.status()
    assert drained is not None
    assert drained.outcome == "drained"
    count = len(job.delivered())
    assert contents(job.delivered()) == expected(job, 16_000)[:count]


FAILS = """
import flamestream as fs

def half(n):
    return 1 // (n - 5000) + n

graph = fs.Graph("fails")
graph.source("numbers").map(half).sink("out")
"""


def test_a_function_that_raises_ends_the_job_with_its_name_and_record(make: Make) -> None:
    job = make(FAILS, count=20_000).start()
    assert job.ended() == 1, job.logs()
    status = job.status()
    assert status is not None
    assert (status.outcome, status.category) == ("failed", "user")
    assert "half raised ZeroDivisionError" in status.message
    assert contents(job.delivered()) == expected_until_error(job)


def expected_until_error(job: LocalJob) -> list[bytes]:
    """Everything below the run that raised, and nothing of it."""
    runs = [
        (Time(time_of(Timestamp(1 + first), FrontId(0))), list(range(first, first + RUN)))
        for first in range(0, 20_000, RUN)
    ]
    return contents([(meta, payload) for meta, payload in interpret(job.graph, runs, "fail")["out"]])


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"application": "nowhere.py"}, 1, "nowhere.py: the application file is not there"),
        ({"graph": "grph"}, 1, "there is no graph named 'grph'; it has graph"),
        ({"graph": "fs"}, 1, "fs is a module, not a flamestream.Graph"),
        ({"sinks": {"out": {"fils": {}}}}, 1, "spec.sinks.out.fils: there is no such kind; choose one of"),
    ],
)
def test_a_worker_that_cannot_load_its_job_says_why_and_ends(
    make: Make, changes: dict[str, Any], code: int, message: str
) -> None:
    job = make()
    name = job.start_worker(**changes)
    assert job.workers[name].wait(60) == code, job.logs()
    assert message in job.logs()


def test_an_application_that_raises_is_told_with_its_place(make: Make) -> None:
    job = make()
    broken = job.folder / "broken_app.py"
    broken.write_text("import flamestream\n\n1 / 0\n")
    name = job.start_worker(application=str(broken))
    assert job.workers[name].wait(60) == 1
    assert "broken_app.py:3: the application does not load" in job.logs()
    assert "ZeroDivisionError: division by zero" in job.logs()


def test_a_store_that_is_away_stops_epochs_and_not_the_stream(make: Make) -> None:
    job = make(count=16_000, rate=8_000)
    (job.folder / "store").rename(job.folder / "away")
    job.start()
    job.until_delivered(8_000)
    status = eventually(
        lambda: found if (found := job.status()) and "store" in " ".join(found.problems) else None,
        "the problem is shown",
    )
    assert status.epoch == 0
    (job.folder / "away").rename(job.folder / "store")
    assert job.ended() == 0, job.logs()
    assert contents(job.delivered()) == expected(job, 16_000)
