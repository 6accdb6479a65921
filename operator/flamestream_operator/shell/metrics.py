"""The operator's figures, for Prometheus. Names as its conventions ask: base units, `_total` for counters.

Does not: have a label that grows without end (jobs are labelled only where one asks for them by name, and forgotten with the job).
"""

from collections import Counter as Counted
from collections.abc import Iterable

from prometheus_client import Counter, Gauge, Histogram

from flamestream.adapters.status_file import JobStatus

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
recoveries = Counter("flamestream_job_recoveries_total", "Recoveries.", ["job"])
recovery_seconds = Histogram(
    "flamestream_job_recovery_seconds", "From a recovery's cause to its replay.", ["job"], buckets=(0.03, 0.1, 0.3, 1, 3, 10, 30)
)


def observe(job: str, status: JobStatus, age: float) -> None:
    """A coordinator's word."""
    epoch_age.labels(job).set(age)
    attempt.labels(job).set(status.attempt)
    workers.labels(job, "layout").set(len(status.workers))
    workers.labels(job, "standby").set(len(status.standbys))
    items.labels(job, "in").set(sum(worker.items_in for worker in status.workers))
    items.labels(job, "out").set(sum(worker.items_out for worker in status.workers))


def count_phases(phases: Iterable[str]) -> None:
    """All jobs that are known."""
    jobs.clear()
    for phase, count in Counted(phases).items():
        jobs.labels(phase).set(count)


def forget(job: str) -> None:
    """A job that is gone has no figures."""
    for metric in (epochs, epoch_age, attempt, recoveries, recovery_seconds):
        _remove(metric, job)
    for role in ("layout", "standby"):
        _remove(workers, job, role)
    for direction in ("in", "out"):
        _remove(items, job, direction)


def _remove(metric: Counter | Gauge | Histogram, *labels: str) -> None:
    if tuple(labels) in metric._metrics:
        metric.remove(*labels)
