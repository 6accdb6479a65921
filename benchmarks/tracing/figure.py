"""What a job costs without traces and with them, at the usual sample: its p50 and p99, and processor time of all
its processes an item. "off again" is the same as "off": what these two differ by is the noise of the measurement.

    python benchmarks tracing                           # some five minutes
    python benchmarks tracing --rounds 1 --seconds 10   # a minute and a half: rows are added to those that are there
    python benchmarks tracing --table                   # what is there so far

Each turn is a job of its own, and a round begins with another one than the round before. Spans go to OpenTelemetry's
collector.

Does not: count instructions (figures/instructions.py).
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from harness.cost import Cost
from harness.drive import where
from harness.job import noise
from harness.job_latency import counts_between, looked, percentiles
from harness.report import CACHE
from harness.rows import parser_of, tell
from harness.suite import rotated
from harness.tables.tracing import OFF, OFF_AGAIN, ON, tracing_table

from support.processes import descendants
from support.runs.cli_job import CliJob
from support.runs.page import feeding_job
from support.traces.collector import Collector

OUT: Final = CACHE / "tracing.jsonl"
RATE: Final = 2000
"""Records a second."""


def main() -> None:
    parser = parser_of(__doc__, OUT)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=15.0, help="of a turn, behind as long a warm-up")
    options = parser.parse_args()
    tell(options, _measured(options.rounds, options.seconds), tracing_table)


def _measured(rounds: int, seconds: float) -> Iterator[dict[str, Any]]:
    before = noise()
    for number in range(rounds):
        for what in rotated([OFF, ON, OFF_AGAIN], number):
            yield _turn(what, seconds) | {"seconds": seconds, "rate": RATE, "noise": before} | where()


def _turn(what: str, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        collector = Collector(Path(place) / "collector")
        if what == ON:
            collector.start()
        tracing = {"tracing": {"endpoint": collector.endpoint}} if what == ON else {}
        job, feeder = feeding_job(Path(place), {"workers": {"replicas": 2, "slots": 64}, **tracing}, RATE)
        try:
            job.running()
            time.sleep(seconds)  # until it is warm
            before, since = looked(job), _processor(job)
            time.sleep(seconds)
            after, used = looked(job), _processor(job) - since
        finally:
            feeder.stop()
            job.close()
            collector.stop()
    items = after.items_in - before.items_in
    found = percentiles(counts_between(before, after))
    return {"what": what, **found, "items": items, "us_an_item": used * 1e6 / items}


def _processor(job: CliJob) -> float:
    """Seconds of processor time that its processes have taken."""
    assert job.launcher is not None
    return Cost([job.launcher.pid, *descendants(job.launcher.pid)]).cpu()


if __name__ == "__main__":
    main()
