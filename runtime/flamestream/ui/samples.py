"""Samples: a job's figures by the second, from what its coordinator reports.

Most of what a status says only grows, so a second's figure is a difference of two statuses; percentiles are those
that the coordinator tells of the last minute (core/protocol/latency.py), of a second instead.

Keeps: an hour at most. Does not: read a file, or say what happened (marks.py).
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from flamestream.core.protocol.latency import quantile
from flamestream.job.status import JobStatus, WorkerFigures

EVERY: Final = 950_000
"""Microseconds between two samples, at least: status files are written on the beat of heartbeats, not of a second."""
MOST: Final = 3600


class Sample(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Figures since the sample before. In JSON an array, in this order."""

    at: int
    """Microseconds since 1970."""
    p50_ms: float | None
    """Latencies to acknowledgments; None: there was none."""
    p99_ms: float | None
    release_p50_ms: float | None
    """Latencies to releases."""
    release_p99_ms: float | None
    items_in: float | None
    """A second; None: another coordinator counts."""
    items_out: float | None
    gap_ms: float
    """The longest time without output that ended since then, or that has not ended."""
    epoch: int
    attempt: int
    busy: float
    """The greatest share of time in which a worker did not wait."""
    in_flight: int
    snapshot_size: int


class Samples:
    """The last hour of one job."""

    def __init__(self) -> None:
        self._all: deque[Sample] = deque(maxlen=MOST)
        self._before: JobStatus | None = None

    def all(self) -> list[Sample]:
        return list(self._all)

    def take(self, status: JobStatus) -> Sample | None:
        """The sample that a newer status makes; None: not yet, or it is the first."""
        before = self._before
        if before is not None and status.updated - before.updated < EVERY:
            return None
        self._before = status
        if before is None:
            return None
        self._all.append(sample := _between(before, status))
        return sample


def _between(before: JobStatus, status: JobStatus) -> Sample:
    seconds = (status.updated - before.updated) / 1e6
    same = before.pid == status.pid
    p50, p99 = _percentiles(before, status, lambda worker: worker.latencies)
    release_p50, release_p99 = _percentiles(before, status, lambda worker: worker.releases)
    return Sample(
        at=status.updated,
        p50_ms=p50,
        p99_ms=p99,
        release_p50_ms=release_p50,
        release_p99_ms=release_p99,
        items_in=max(0, status.items_in - before.items_in) / seconds if same else None,
        items_out=max(0, status.items_out - before.items_out) / seconds if same else None,
        gap_ms=_gap(before.updated, status) / 1000,
        epoch=status.epoch,
        attempt=status.attempt,
        busy=max((worker.busy for worker in status.workers), default=0.0),
        in_flight=sum(worker.in_flight for worker in status.workers),
        snapshot_size=status.snapshot_size,
    )


def _percentiles(
    before: JobStatus, status: JobStatus, of: Callable[[WorkerFigures], Sequence[int]]
) -> tuple[float | None, float | None]:
    """The median and the 99th of 100, of all workers together."""
    known = {worker.worker: of(worker) for worker in before.workers}
    # Who is new began with the last status at the earliest.
    new = [_grown(known.get(worker.worker, ()), of(worker)) for worker in status.workers if of(worker)]
    counts = [sum(each) for each in zip(*new, strict=True)]
    return (quantile(counts, 0.5), quantile(counts, 0.99)) if sum(counts) else (None, None)


def _grown(before: Sequence[int], now: Sequence[int]) -> list[int]:
    before = before or [0] * len(now)
    return [max(0, new - old) for old, new in zip(before, now, strict=True)]


def _gap(since: int, status: JobStatus) -> int:
    """Microseconds of the longest gap that ended after `since`, or that has not ended."""
    ended = next((length for end, length in status.gaps if end > since), 0)
    return max(ended, status.updated - status.last_output) if status.last_output else ended
