"""Micro-batches under a cluster's coordinator: what a batch worker delivers through kills of everything, a
drain, a successor beside it and a change of the guarantee."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from flamestream.connectors import sinks
from flamestream.job.recorded import recorded_sources
from flamestream.job.validation import checked
from flamestream.model import payload as codec
from flamestream.model.time import END
from flamestream.reference import interpret
from support.eventually import eventually
from support.frames.batch_job import BatchJob
from support.frames.sums_job import APPLICATION, TABLES, write
from support.runs.local_job import COUNTER

pytestmark = pytest.mark.spark


@pytest.fixture
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BatchJob]:
    file = f"sums_{os.getpid()}_{next(COUNTER)}.py"  # a process imports each file under a name of its own
    generator, application = request.param
    write(tmp_path, "micro-batch", generator, file, application)
    with BatchJob(tmp_path / "job.yaml", f"tests.{Path(file).stem}") as made:
        made.start_coordinator()
        made.start_worker()
        yield made


def check(job: BatchJob) -> None:
    """The sink has the reference's bytes, once and in order."""
    found = checked(job.folder / "job.yaml")
    runs = [run for source in recorded_sources(found) for run in source.below(END)]
    wanted = [(bytes(meta), codec.encode(value)) for meta, value in interpret(found.graph, runs)["out"]]
    had = [(bytes(meta), codec.encode(value)) for meta, _, _, value in sinks.read(found.job.sink("out"))]
    assert had == wanted


RATED = "{count: 6000, rate: 1000}"
rated = pytest.mark.parametrize("job", [(RATED, APPLICATION)], indirect=True, ids=["sums"])


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(("{count: 3000}", APPLICATION), id="sums"),
        pytest.param(("{count: 0}", APPLICATION), id="none", marks=pytest.mark.slow),
    ],
    indirect=True,
)
def test_it_delivers_the_bytes_of_the_reference_and_completes(job: BatchJob) -> None:
    assert job.end() == "completed"
    check(job)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param((RATED, APPLICATION), id="sums", marks=pytest.mark.slow),
        pytest.param((RATED, TABLES), id="tables"),
    ],
    indirect=True,
)
def test_it_survives_kills_of_worker_and_coordinator(job: BatchJob) -> None:
    for epochs in (2, 4):
        job.await_epoch(epochs)
        job.workers[-1].kill()
        job.start_worker()
    job.await_epoch(job.status().epoch + 1)
    assert job.coordinator is not None
    job.coordinator.kill()
    job.coordinator.wait()
    job.start_coordinator()
    assert job.end() == "completed"
    check(job)


@pytest.mark.slow
@rated
def test_a_successor_goes_on_where_it_was_killed(job: BatchJob) -> None:
    job.start_worker()
    eventually(lambda: job.status().standbys, "the second one is a standby", within=120)
    job.await_epoch(1)
    (first,) = (worker.worker for worker in job.status().workers)
    job.workers[int(first[1:])].kill()
    eventually(lambda: job.status().recoveries > 1, "the other one goes on", within=60)
    assert job.end() == "completed"
    check(job)


@pytest.mark.slow
@rated
def test_a_drain_ends_at_an_epoch_and_another_run_goes_on(job: BatchJob) -> None:
    job.await_epoch(2)
    assert job.coordinator is not None
    os.kill(job.coordinator.pid, signal.SIGUSR1)
    assert job.end() == "drained"
    job.start_coordinator()
    job.start_worker()
    assert job.end() == "completed"
    check(job)
