"""What ten viewers of the page cost a job: its p50 and p99 beside those with nobody looking, in turns.

    python benchmarks ui                           # some four minutes
    python benchmarks ui --rounds 1 --seconds 12   # a minute: rows are added to those that are there
    python benchmarks ui --table                   # what is there so far

A viewer takes the events of the job's view, as a browser does, in a process of its own. Latencies are those that the
job's workers count, to the consumer's acknowledgment.

Does not: measure what a browser costs the machine that it is on.
"""

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from harness.drive import where
from harness.job import noise
from harness.job_latency import counts_between, looked, percentiles
from harness.report import CACHE
from harness.rows import parser_of, tell
from harness.tables.ui import ui_table

from support.runs.cli_job import NAME, CliJob
from support.runs.page import feeding_job, ui

OUT: Final = CACHE / "ui.jsonl"
VIEWERS: Final = 10


def main() -> None:
    parser = parser_of(__doc__, OUT)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="of a turn, and before the first one")
    options = parser.parse_args()
    tell(options, _measured(options.rounds, options.seconds), ui_table)


def _measured(rounds: int, seconds: float) -> Iterator[dict[str, Any]]:
    before = noise()
    with tempfile.TemporaryDirectory() as place:
        job, feeder = feeding_job(Path(place))
        try:
            job.running()
            time.sleep(seconds)  # until it is warm
            for _ in range(rounds):
                for row in _round(job, seconds):
                    yield row | {"seconds": seconds, "noise": before} | where()
        finally:
            feeder.stop()
            job.close()


def _round(job: CliJob, seconds: float) -> Iterator[dict[str, Any]]:
    yield _turn(job, 0, seconds)
    with ui(str(job.run_folder.path), cwd=job.path) as address, _looking(address):
        yield _turn(job, VIEWERS, seconds)


def _turn(job: CliJob, viewers: int, seconds: float) -> dict[str, Any]:
    before = looked(job)
    time.sleep(seconds)
    counts = counts_between(before, looked(job))
    return {"viewers": viewers, **percentiles(counts), "calls": sum(counts)}


@contextmanager
def _looking(address: str) -> Iterator[None]:
    """Until all of them look: their own start is nothing that a page costs."""
    there = multiprocessing.get_context("spawn")
    ready = there.Semaphore(0)
    viewers = [there.Process(target=_look, args=(address, ready), daemon=True) for _ in range(VIEWERS)]
    for viewer in viewers:
        viewer.start()
    try:
        for _ in viewers:
            assert ready.acquire(timeout=60), "a viewer does not see the job"
        yield
    finally:
        for viewer in viewers:
            viewer.terminate()
            viewer.join()


def _look(address: str, ready: Any) -> None:
    parts = urlsplit(address)
    connection = HTTPConnection(parts.netloc)
    headers = {"Authorization": f"Bearer {parts.fragment.removeprefix('token=')}"}
    connection.request("GET", f"/api/v1/events?job={NAME}", headers=headers)
    for number, _ in enumerate(connection.getresponse()):
        if number == 0:
            ready.release()


if __name__ == "__main__":
    main()
