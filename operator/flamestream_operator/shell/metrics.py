"""The operator's figures, for Prometheus. Names as its conventions ask: base units, `_total` for counters.

Does not: have a label that grows without end (jobs are labelled only where one asks for them by name, and forgotten with the job).
"""

from collections import Counter as Counted
from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, Metric, disable_created_metrics
from prometheus_client.core import HistogramMetricFamily, SummaryMetricFamily
from prometheus_client.registry import Collector

from flamestream.adapters.status_file import JobStatus, LastRecovery, LatencyFigures
from flamestream.core.latency import BOUNDS

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series of each counter, which nobody reads
told: dict[str, JobStatus] = {}
"""By job, as its coordinator said last."""
_FAST = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)
api_requests = Counter("flamestream_operator_api_requests_total", "Requests to the API server.", ["verb", "kind"])
api_conflicts = Counter("flamestream_operator_api_conflicts_total", "Writes that met a newer version.")
reconcile_seconds = Histogram("flamestream_operator_reconcile_seconds", "Time of one reconciliation.", ["kind"], buckets=_FAST)
reconcile_errors = Counter("flamestream_operator_reconcile_errors_total", "Reconciliations that failed and are tried again.", ["kind"])
queue_depth = Gauge("flamestream_operator_queue_depth", "Objects that wait for their reconciliation.")
queue_seconds = Histogram("flamestream_operator_queue_seconds", "Time from a change to its reconciliation.", buckets=_FAST)
actions = Counter("flamestream_operator_actions_total", "Actions carried out.", ["action"])
leader = Gauge("flamestream_operator_leader", "Whether this process leads.")
jobs = Gauge("flamestream_operator_jobs", "Jobs by phase.", ["phase"])
epochs = Counter("flamestream_job_epochs_total", "Committed epochs.", ["job"])
epoch_age = Gauge("flamestream_job_epoch_age_seconds", "Time since the last commit.", ["job"])
attempt = Gauge("flamestream_job_attempt", "The fencing number.", ["job"])
workers = Gauge("flamestream_job_workers", "Connected workers.", ["job", "role"])
items = Gauge("flamestream_job_items", "Items since the workers began.", ["job", "direction"])
runs = Gauge("flamestream_job_runs", "Runs since the workers began.", ["job"])
bundles = Gauge("flamestream_job_acknowledged_bundles", "Bundles that consumers have acknowledged since the workers began.", ["job"])
in_flight = Gauge("flamestream_job_in_flight_items", "Items that have entered and whose results are not all acknowledged.", ["job"])
replayed = Gauge("flamestream_job_replayed_items", "Items of journalled runs that entered once more, since the workers began.", ["job"])
invalidated = Gauge("flamestream_job_invalidated_results", "Results taken back before their release, since the workers began.", ["job"])
memory_bytes = Gauge("flamestream_job_memory_bytes", "Resident memory of the workers' processes, the standbys' apart.", ["job"])
snapshot_bytes = Gauge("flamestream_job_snapshot_bytes", "Size of the committed snapshot.", ["job"])
lag = Gauge("flamestream_job_minimal_time_lag_seconds", "How far minimal time is behind the clock, of a source with clock times.", ["job"])
recoveries = Counter("flamestream_job_recoveries_total", "Recoveries, by what caused them.", ["job", "cause"])
recovery_step_seconds = Histogram(
    "flamestream_job_recovery_step_seconds", "One step of a recovery.", ["job", "step"], buckets=(0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)
)
recovery_seconds = Histogram(
    "flamestream_job_recovery_seconds", "From a recovery's cause to its replay.", ["job"], buckets=(0.03, 0.1, 0.3, 1, 3, 10, 30)
)

_GAUGES = (epoch_age, attempt, workers, items, runs, bundles, in_flight, replayed, invalidated, memory_bytes, snapshot_bytes, lag)
"""By job."""


def observe(job: str, status: JobStatus, age: float) -> None:
    """A coordinator's word."""
    told[job] = status
    epoch_age.labels(job).set(age)
    attempt.labels(job).set(status.attempt)
    workers.labels(job, "layout").set(len(status.workers))
    workers.labels(job, "standby").set(len(status.standbys))
    items.labels(job, "in").set(sum(worker.items_in for worker in status.workers))
    items.labels(job, "out").set(sum(worker.items_out for worker in status.workers))
    runs.labels(job).set(sum(worker.runs for worker in status.workers))
    bundles.labels(job).set(sum(worker.bundles for worker in status.workers))
    in_flight.labels(job).set(sum(worker.in_flight for worker in status.workers))
    replayed.labels(job).set(sum(worker.replayed for worker in status.workers))
    invalidated.labels(job).set(sum(worker.invalidated for worker in status.workers))
    memory_bytes.labels(job).set(sum(worker.memory for worker in status.workers))
    if status.snapshot_size:
        snapshot_bytes.labels(job).set(status.snapshot_size)
    if status.latency is not None:
        lag.labels(job).set(max(0.0, (status.updated - min(worker.minimal for worker in status.workers)) / 1e6) if status.workers else 0.0)


def recovered(job: str, last: LastRecovery, count: int) -> None:
    """So many more recoveries, and what the last one took."""
    recoveries.labels(job, last.kind or "unknown").inc(count)
    recovery_seconds.labels(job).observe(last.duration_ms / 1000)
    for step, duration in last.steps_ms.items():
        recovery_step_seconds.labels(job, step).observe(duration / 1000)


def count_phases(phases: Iterable[str]) -> None:
    """All jobs that are known."""
    jobs.clear()
    for phase, count in Counted(phases).items():
        jobs.labels(phase).set(count)


def forget(job: str) -> None:
    """A job that is gone has no figures."""
    told.pop(job, None)
    for metric in (*_GAUGES, epochs, recoveries, recovery_seconds, recovery_step_seconds):
        _remove(metric, job)


def _remove(metric: Counter | Gauge | Histogram, job: str) -> None:
    """With all its labels; the job's name is the first."""
    for labels in [labels for labels in metric._metrics if labels[0] == job]:
        metric.remove(*labels)


class _Counted(Collector):
    """What workers and coordinators count themselves, as they say it."""

    def collect(self) -> Iterator[Metric]:
        known = list(told.items())
        yield _histogram(
            "flamestream_job_release_latency_seconds", "From a run's entry to the release of all its results, a sample a run.",
            [(job, status.release) for job, status in known],
        )  # fmt: skip
        yield _histogram(
            "flamestream_job_latency_seconds", "From a record's entry to its results' acknowledgment, a sample a call.",
            [(job, status.latency) for job, status in known],
        )  # fmt: skip
        snapshots = SummaryMetricFamily(
            "flamestream_job_snapshot_seconds", "From an epoch's announcement to its commit, since the coordinator began.", labels=["job"]
        )
        for job, status in known:
            snapshots.add_metric([job], status.snapshots, status.snapshots_ms / 1000)
        yield snapshots


def _histogram(name: str, text: str, figures: Iterable[tuple[str, LatencyFigures | None]]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, text, labels=["job"])
    bounds = [*(str(bound / 1000) for bound in BOUNDS), "+Inf"]
    for job, latency in figures:
        if latency is not None and latency.classes:
            family.add_metric([job], list(zip(bounds, accumulate(latency.classes), strict=True)), latency.total_us / 1e6)
    return family


REGISTRY.register(_Counted())
