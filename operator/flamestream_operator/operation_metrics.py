"""Figures of the operations of jobs, for Prometheus: items, time, keys and bytes of state by vertex of the graph.

Made anew at each scrape from what coordinators said last: a series that is kept costs a thousand jobs much memory.

Keeps: a job has as many series as its newest graph has vertices, 256 of each figure at most; a counter never goes back
while its vertex is there. Does not: have a label for each worker.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from flamestream.job.status import JobStatus, OperationFigures

MOST_WORKERS: Final = 4096
_GAUGES: Final = {
    "busy_ratio": ("busy", "Time that the operation takes a second, with what stands behind it."),
    "keys": ("keys", "Keys of the operation's state."),
    "state_bytes": ("state_bytes", "Bytes of the operation's state, as snapshots have it."),
}


@dataclass(slots=True)
class _Job:
    """A job's operations."""

    newest: list[OperationFigures] = field(default_factory=list)
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Items in and out of each, of all workers that there were."""
    known: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """The last word of each worker on each."""

    def hear(self, status: JobStatus) -> None:
        """A coordinator's word; it may know nothing of operations yet."""
        if not status.operations:
            return
        self.newest = status.operations
        self.counts = {each.operation: self.counts.get(each.operation, (0, 0)) for each in self.newest}
        for worker in status.workers:
            for name, *said in worker.operations:
                if name in self.counts:
                    self._add(worker.worker, name, (said[0], said[1]))
        while len(self.known) > MOST_WORKERS:  # every life of a worker has a name of its own
            del self.known[next(iter(self.known))]

    def _add(self, worker: str, name: str, said: tuple[int, int]) -> None:
        """Add what a worker has counted since it was heard last; it counts from its own beginning."""
        before = self.known.pop((worker, name), (0, 0))
        self.known[worker, name] = said
        items_in, items_out = self.counts[name]
        more_in, more_out = max(0, said[0] - before[0]), max(0, said[1] - before[1])
        self.counts[name] = (items_in + more_in, items_out + more_out)


class OperationMetrics(Collector):
    """The operations of all jobs."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Job] = {}

    def hear(self, job: str, status: JobStatus) -> None:
        """A coordinator's word."""
        self._jobs.setdefault(job, _Job()).hear(status)

    def forget(self, job: str) -> None:
        """A job that is gone has no figures."""
        self._jobs.pop(job, None)

    def collect(self) -> Iterator[Metric]:
        jobs = list(self._jobs.items())  # a copy: the loop may add one meanwhile
        items = CounterMetricFamily(
            "flamestream_job_operation_items",
            "Items that came to an operation, and that it led on; one that is taken back counts as one more.",
            labels=["job", "operation", "direction"],
        )
        for job, its in jobs:
            for operation, (items_in, items_out) in its.counts.items():
                items.add_metric([job, operation, "in"], items_in)
                items.add_metric([job, operation, "out"], items_out)
        yield items
        for name, (attribute, words) in _GAUGES.items():
            gauge = GaugeMetricFamily(f"flamestream_job_operation_{name}", words, labels=["job", "operation"])
            for job, its in jobs:
                for figures in its.newest:
                    gauge.add_metric([job, figures.operation], getattr(figures, attribute))
            yield gauge
