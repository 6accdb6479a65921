"""Latencies of a job that runs, by what its workers have counted: of the calls between two looks.

Does not: time a call.
"""

from flamestream.core.protocol.latency import quantile
from flamestream.job.status import JobStatus
from support.runs.cli_job import CliJob


def looked(job: CliJob) -> JobStatus:
    """What its coordinator has said last of a job that runs."""
    status = job.status()
    assert status is not None, "it runs"
    return status


def counts_between(before: JobStatus, after: JobStatus) -> list[int]:
    """Calls by their latency, of all workers."""
    first, last = (
        [sum(each) for each in zip(*(worker.latencies for worker in status.workers), strict=True)]
        for status in (before, after)
    )
    return [new - old for new, old in zip(last, first, strict=True)]


def percentiles(counts: list[int]) -> dict[str, float]:
    """Milliseconds of the median and of the 99th of 100."""
    return {"p50_ms": quantile(counts, 0.5), "p99_ms": quantile(counts, 0.99)}
