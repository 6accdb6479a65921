"""The operator's figures, for Prometheus. Names as its conventions ask: base units, `_total` for counters.

Does not: have a label that grows without end (jobs are labelled only where one asks for them by name, and
forgotten with the job).
"""

from collections import Counter as Counted
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, zip_longest
from typing import Final

from msgspec.structs import replace
from prometheus_client import REGISTRY, Counter, Gauge, Histogram, Metric, disable_created_metrics
from prometheus_client.core import HistogramMetricFamily, SummaryMetricFamily
from prometheus_client.registry import Collector

from flamestream.core.protocol.latency import BOUNDS
from flamestream.job.status import JobStatus, LastRecovery, WorkerFigures
from flamestream.model.event_time import END_OF_TIME
from flamestream_operator.api.conditions import TYPES
from flamestream_operator.operation_metrics import OperationMetrics

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series of each counter, which nobody reads
_counted: dict[str, dict[str, WorkerFigures]] = {}
"""The counts of each job's workers that were added last. A worker that is gone is forgotten with the job, or
when there are too many."""
MOST_WORKERS: Final = 4096
_FAST = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)
api_requests = Counter(
    "flamestream_operator_api_requests_total", "Requests to the API server.", ["verb", "kind"]
)
api_conflicts = Counter("flamestream_operator_api_conflicts_total", "Writes that met a newer version.")
reconcile_seconds = Histogram(
    "flamestream_operator_reconcile_seconds", "Time of one reconciliation.", ["kind"], buckets=_FAST
)
reconcile_errors = Counter(
    "flamestream_operator_reconcile_errors_total",
    "Reconciliations that failed and are tried again.",
    ["kind"],
)
for _kind in ("job", "snapshot", "drill", "figures"):
    # From 0: Prometheus sees no increase in a series that begins with its first error.
    reconcile_errors.labels(_kind)
queue_depth = Gauge("flamestream_operator_queue_depth", "Objects that wait for their reconciliation.")
queue_seconds = Histogram(
    "flamestream_operator_queue_seconds", "Time from a change to its reconciliation.", buckets=_FAST
)
actions = Counter("flamestream_operator_actions_total", "Actions carried out.", ["action"])
leader = Gauge("flamestream_operator_leader", "Whether this process leads a shard of the jobs.")
shards = Gauge("flamestream_operator_shards", "Shards that the jobs are divided into: so many should lead.")
jobs = Gauge("flamestream_operator_jobs", "Jobs of this shard by phase.", ["phase"])
epochs = Counter("flamestream_job_epochs_total", "Committed epochs.", ["job"])
epoch_age = Gauge("flamestream_job_epoch_age_seconds", "Time since the last commit.", ["job"])
attempt = Gauge("flamestream_job_attempt", "The fencing number.", ["job"])
workers = Gauge("flamestream_job_workers", "Connected workers.", ["job", "role"])
items = Counter(
    "flamestream_job_items_total",
    "Items that entered, and results that were delivered.",
    ["job", "direction"],
)
runs = Counter("flamestream_job_runs_total", "Runs that entered.", ["job"])
bundles = Counter(
    "flamestream_job_acknowledged_bundles_total", "Bundles that consumers have acknowledged.", ["job"]
)
in_flight = Gauge(
    "flamestream_job_in_flight_items",
    "Items that have entered and whose results are not all acknowledged.",
    ["job"],
)
waiting = Gauge(
    "flamestream_job_waiting_requests", "Requests of calls that have no answer yet.", ["job", "call"]
)
replayed = Counter(
    "flamestream_job_replayed_items_total", "Items of journalled runs that entered once more.", ["job"]
)
invalidated = Counter(
    "flamestream_job_invalidated_results_total", "Results taken back before their release.", ["job"]
)
transactions = Counter(
    "flamestream_job_transactions_total",
    "Transactions whose outcome is final; what a recovery decides again counts again.",
    ["job"],
)
decisions = Counter(
    "flamestream_job_transaction_decisions_total",
    "The same, and once more for each time that one was decided again.",
    ["job"],
)
aborted = Counter("flamestream_job_aborted_transactions_total", "Transactions that were aborted.", ["job"])
spans = Counter(
    "flamestream_job_spans_total",
    "Spans of traces that the collector took, or that were dropped.",
    ["job", "outcome"],
)
late = Counter(
    "flamestream_job_late_items_total",
    "Items that came too late for a window, a join or what else knows event time, once for each.",
    ["job", "source"],
)
skipped = Gauge(
    "flamestream_job_skipped_records",
    "Records that recoveries have skipped, since the job began: under at-most-once.",
    ["job", "source"],
)
busy = Gauge(
    "flamestream_job_busy_ratio",
    "Share of the last two seconds in which workers did not wait: their mean, and the busiest one's.",
    ["job", "workers"],
)
output_age = Gauge(
    "flamestream_job_output_age_seconds", "Time since a consumer acknowledged a result.", ["job"]
)
condition = Gauge(
    "flamestream_job_condition", "Whether a condition of the job's status is True.", ["job", "condition"]
)
audit_clean = Gauge(
    "flamestream_job_audit_clean",
    "Whether the audit of the newest drill that had one found no difference.",
    ["job"],
)
memory_bytes = Gauge(
    "flamestream_job_memory_bytes", "Resident memory of the workers' processes, the standbys' apart.", ["job"]
)
snapshot_bytes = Gauge("flamestream_job_snapshot_bytes", "Size of the committed snapshot.", ["job"])
lag = Gauge(
    "flamestream_job_minimal_time_lag_seconds",
    "How far minimal time is behind the clock, of a source with clock times.",
    ["job"],
)
event_time_lag = Gauge(
    "flamestream_job_event_time_lag_seconds",
    "How far a source's event time is behind the clock.",
    ["job", "source"],
)
recoveries = Counter("flamestream_job_recoveries_total", "Recoveries, by what caused them.", ["job", "cause"])
FAILURES: Final = ("lost", "link", "worker", "stuck")
"""Causes of recoveries that nobody has asked for."""
recovery_step_seconds = Histogram(
    "flamestream_job_recovery_step_seconds",
    "One step of a recovery.",
    ["job", "step"],
    buckets=(0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10),
)
recovery_seconds = Histogram(
    "flamestream_job_recovery_seconds",
    "From a recovery's cause to its replay.",
    ["job"],
    buckets=(0.03, 0.1, 0.3, 1, 3, 10, 30),
)

_BY_JOB = [
    each
    for each in list(globals().values())
    if isinstance(each, Counter | Gauge | Histogram) and "job" in each._labelnames[:1]
]
"""The metrics above whose first label is the job's name, so that none is left when a job is gone."""


def observe(job: str, status: JobStatus, age: float) -> None:
    """A coordinator's word."""
    _count(job, status)
    operations.hear(job, status)
    for cause in FAILURES:
        recoveries.labels(job, cause)  # from 0, so that the first one is seen
    epoch_age.labels(job).set(age)
    attempt.labels(job).set(status.attempt)
    workers.labels(job, "layout").set(len(status.workers))
    workers.labels(job, "standby").set(len(status.standbys))
    in_flight.labels(job).set(sum(worker.in_flight for worker in status.workers))
    for call, requests in status.waiting.items():
        waiting.labels(job, call).set(requests)
    for source, records in status.skipped.items():
        skipped.labels(job, source).set(records)
    memory_bytes.labels(job).set(sum(worker.memory for worker in status.workers))
    if status.workers:
        shares = [worker.busy for worker in status.workers]
        busy.labels(job, "mean").set(sum(shares) / len(shares))
        busy.labels(job, "most").set(max(shares))
    if status.last_output:
        output_age.labels(job).set(max(0.0, (status.updated - status.last_output) / 1e6))
    if status.snapshot_size:
        snapshot_bytes.labels(job).set(status.snapshot_size)
    for source, time in status.event_times.items():
        if time is not None and time < END_OF_TIME:
            event_time_lag.labels(job, source).set((status.updated - time) / 1e6)
    if status.latency is not None:
        lag.labels(job).set(
            max(0.0, (status.updated - min(worker.minimal for worker in status.workers)) / 1e6)
            if status.workers
            else 0.0
        )


def recovered(job: str, last: LastRecovery, count: int) -> None:
    """Count a job's recoveries since the last call, and observe what the last one took."""
    recoveries.labels(job, last.kind or "unknown").inc(count)
    recovery_seconds.labels(job).observe(last.duration_ms / 1000)
    for step, duration in last.steps_ms.items():
        if step != "replay":
            recovery_step_seconds.labels(job, step).observe(duration / 1000)


def replay_ended(job: str, last: LastRecovery) -> None:
    """Observe what the replay of a job's last recovery took, which is told behind all other steps."""
    recovery_step_seconds.labels(job, "replay").observe(last.steps_ms["replay"] / 1000)


def stated(job: str, conditions: Iterable[Mapping[str, object]]) -> None:
    """The conditions as the status of the job's object has them."""
    for each in conditions:
        if each.get("type") in TYPES:  # another version's are no labels of ours
            condition.labels(job, str(each["type"])).set(each.get("status") == "True")


def audited(verdicts: Mapping[str, bool]) -> None:
    """Whether the newest audit was clean, by job; of others nothing is known any more."""
    audit_clean.clear()
    for job, clean in verdicts.items():
        audit_clean.labels(job).set(clean)


def count_phases(phases: Iterable[str]) -> None:
    """Count all known jobs by phase."""
    jobs.clear()
    for phase, count in Counted(phases).items():
        jobs.labels(phase).set(count)


def forget(job: str) -> None:
    """A job that is gone has no figures."""
    for store in (_counted, _latencies, _releases, _snapshots):
        store.pop(job, None)
    operations.forget(job)
    for metric in _BY_JOB:
        # the job's name is the first of all labels
        for labels in [labels for labels in metric._metrics if labels[0] == job]:
            metric.remove(*labels)


@dataclass(slots=True)
class _Classes:
    """Samples by core.protocol.latency.BOUNDS, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total_us: int = 0

    def add(self, now: Sequence[int], before: Sequence[int], us: int) -> None:
        """Add what one worker has counted since it was heard last."""
        for place, (new, old) in enumerate(zip_longest(now, before, fillvalue=0)):
            self.counts[place] += new - old
        self.total_us += us


@dataclass(slots=True)
class _Snapshots:
    """Snapshots that the coordinators of a job took, one coordinator after another."""

    count: int = 0
    total_ms: float = 0
    last: tuple[int, int, float] = (0, 0, 0)
    """When the newest coordinator began, how many it has counted, and what they took."""

    def hear(self, status: JobStatus) -> None:
        """A coordinator counts from its own beginning."""
        began, count, total_ms = self.last
        if began == status.began:
            self.count, self.total_ms = self.count - count, self.total_ms - total_ms
        self.last = (status.began, status.snapshots, status.snapshots_ms)
        self.count, self.total_ms = self.count + status.snapshots, self.total_ms + status.snapshots_ms


_latencies: dict[str, _Classes] = {}
_releases: dict[str, _Classes] = {}
_snapshots: dict[str, "_Snapshots"] = {}
_NOTHING: Final = WorkerFigures(worker="", connected=False)


def _count(job: str, status: JobStatus) -> None:
    """Workers count from their own beginning: what each has counted since it was heard last is added, so
    nothing ever goes back."""
    known = _counted.setdefault(job, {})
    counters = {
        items.labels(job, "in"): "items_in", items.labels(job, "out"): "items_out", runs.labels(job): "runs",
        bundles.labels(job): "bundles", replayed.labels(job): "replayed",
        invalidated.labels(job): "invalidated", transactions.labels(job): "transactions",
        decisions.labels(job): "decisions", aborted.labels(job): "aborted",
        spans.labels(job, "exported"): "spans", spans.labels(job, "dropped"): "spans_dropped",
    }  # fmt: skip
    latencies, releases = _latencies.setdefault(job, _Classes()), _releases.setdefault(job, _Classes())
    for told in status.workers:
        # Taken out and put back behind all others: the bound below drops who was not heard of for longest.
        before = known.pop(told.worker, _NOTHING)
        # spans are told with how busy it is, so not at once when it has connected again
        now = _with_spans(told, before)
        if _went_back(now, before, counters.values()):
            known[now.worker] = before  # it has connected again, and has not said its counts yet
            continue
        for counter, name in counters.items():
            counter.inc(getattr(now, name) - getattr(before, name))
        for source, count in now.late.items():
            # less behind a recovery that gives runs to other workers, which then count theirs
            late.labels(job, source).inc(max(0, count - before.late.get(source, 0)))
        latencies.add(now.latencies, before.latencies, now.latencies_us - before.latencies_us)
        releases.add(now.releases, before.releases, now.releases_us - before.releases_us)
        known[now.worker] = now
    while len(known) > MOST_WORKERS:  # bounded: every life of a worker has a name of its own
        del known[next(iter(known))]
    _snapshots.setdefault(job, _Snapshots()).hear(status)


def _with_spans(now: WorkerFigures, before: WorkerFigures) -> WorkerFigures:
    """The figures with no fewer spans than were known of the worker."""
    spans, dropped = max(now.spans, before.spans), max(now.spans_dropped, before.spans_dropped)
    return replace(now, spans=spans, spans_dropped=dropped)


def _went_back(now: WorkerFigures, before: WorkerFigures, names: Iterable[str]) -> bool:
    """Whether any count is less than it was."""
    classes = [
        *zip_longest(now.latencies, before.latencies, fillvalue=0),
        *zip_longest(now.releases, before.releases, fillvalue=0),
    ]
    counts = [(getattr(now, name), getattr(before, name)) for name in (*names, "latencies_us", "releases_us")]
    return any(new < old for new, old in (*counts, *classes))


class _Counted(Collector):
    """Figures that workers and coordinators measure themselves, summed up."""

    def collect(self) -> Iterator[Metric]:
        yield _histogram(
            "flamestream_job_release_latency_seconds",
            "From a run's entry to the release of all its results, a sample a run.",
            _releases,
        )
        yield _histogram(
            "flamestream_job_latency_seconds",
            "From a record's entry to its results' acknowledgment, a sample a call.",
            _latencies,
        )
        family = SummaryMetricFamily(
            "flamestream_job_snapshot_seconds", "From an epoch's announcement to its commit.", labels=["job"]
        )
        for job, snapshots in list(_snapshots.items()):
            family.add_metric([job], snapshots.count, snapshots.total_ms / 1000)
        yield family


def _histogram(name: str, text: str, figures: dict[str, _Classes]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, text, labels=["job"])
    bounds = [*(str(bound / 1000) for bound in BOUNDS), "+Inf"]
    for job, classes in list(figures.items()):
        if any(classes.counts):
            family.add_metric(
                [job], list(zip(bounds, accumulate(classes.counts), strict=True)), classes.total_us / 1e6
            )
    return family


operations = OperationMetrics()
REGISTRY.register(operations)
REGISTRY.register(_Counted())
