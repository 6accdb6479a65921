"""What ten viewers of the page cost a job: its p50 and p99 beside those with nobody looking, in turns.

    python benchmarks ui                       # some four minutes; one JSON line a turn, then the medians
    python benchmarks ui --rounds 1 --seconds 10

A viewer takes the events of the job's view, as a browser does, in a process of its own. Latencies are those that the
job's workers count, to the consumer's acknowledgment.

Does not: measure what a browser costs the machine that it is on.
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from flamestream.core.protocol.latency import quantile
from support.runs.cli_job import NAME, CliJob
from support.runs.page import feeding_job, ui

VIEWERS = 10


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        job, feeder = feeding_job(Path(place))
        try:
            job.running()
            time.sleep(given.seconds)  # until it is warm
            rows = [row for number in range(given.rounds) for row in _round(job, number, given.seconds)]
        finally:
            feeder.stop()
            job.close()
    for viewers in (0, VIEWERS):
        of = [row for row in rows if row["viewers"] == viewers]
        p50, p99 = (statistics.median(float(row[name]) for row in of) for name in ("p50_ms", "p99_ms"))
        print(f"{viewers:>2} viewers: p50 {p50:.2f} ms, p99 {p99:.2f} ms, median of {len(of)} turns")


def _round(job: CliJob, number: int, seconds: float) -> Iterator[dict[str, float]]:
    yield _turn(job, 0, number, seconds)
    with ui(str(job.run_folder.path), cwd=job.path) as address, _looking(address):
        yield _turn(job, VIEWERS, number, seconds)


def _turn(job: CliJob, viewers: int, number: int, seconds: float) -> dict[str, float]:
    before = _counts(job)
    time.sleep(seconds)
    counts = [new - old for new, old in zip(_counts(job), before, strict=True)]
    p50, p99 = quantile(counts, 0.5), quantile(counts, 0.99)
    row = {"round": number, "viewers": viewers, "p50_ms": p50, "p99_ms": p99, "calls": sum(counts)}
    print(json.dumps(row), flush=True)
    return row


def _counts(job: CliJob) -> list[int]:
    status = job.status()
    assert status is not None, "it runs"
    return [sum(each) for each in zip(*(worker.latencies for worker in status.workers), strict=True)]


@contextmanager
def _looking(address: str) -> Iterator[None]:
    there = multiprocessing.get_context("spawn")
    viewers = [there.Process(target=_look, args=(address,), daemon=True) for _ in range(VIEWERS)]
    for viewer in viewers:
        viewer.start()
    try:
        yield
    finally:
        for viewer in viewers:
            viewer.terminate()
            viewer.join()


def _look(address: str) -> None:
    parts = urlsplit(address)
    connection = HTTPConnection(parts.netloc)
    headers = {"Authorization": f"Bearer {parts.fragment.removeprefix('token=')}"}
    connection.request("GET", f"/api/v1/events?job={NAME}", headers=headers)
    for _ in connection.getresponse():
        pass


if __name__ == "__main__":
    main()
