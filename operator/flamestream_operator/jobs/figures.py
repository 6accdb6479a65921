"""The figures in a job's status, from its coordinator: attempt, epoch, workers, items, the last recovery.

Does not: decide; or hold more than the newest of anything.
"""

from msgspec.structs import replace

from flamestream.job.moments import event_moment, written
from flamestream.job.status import JobStatus, LatencyFigures
from flamestream_operator.api import job_status as api
from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.jobs.observed import Coordinated, Observed
from flamestream_operator.jobs.spec import Desired
from flamestream_operator.objects.meta import JOB, ROLE

HOSTED = ("Starting", "Running", "Draining")
"""Stages of a run that has a coordinator."""
MOST_PROBLEMS = 8
LONGEST = 512
FIRST = "start"
"""The cause of an attempt that repairs nothing."""


def with_figures(
    observed: Observed, before: JobResourceStatus, status: JobResourceStatus, desired: Desired
) -> JobResourceStatus:
    """The status with its figures up to date; what is not known now stays as it was. `before`: as it was
    written."""
    active = status.run.stage in HOSTED
    # in the look that ends a run as well (!): nobody asks its coordinator again for what it came to
    coordinated = observed.coordinated if active or before.run.stage in HOSTED else None
    status = replace(status, workers=_workers(observed, status, desired, coordinated if active else None))
    if desired.plan is not None:
        place = _snapshot(status, desired.plan.spec.checkpoint.store, coordinated)
        status = replace(status, guarantee=desired.plan.spec.guarantee, snapshot=place)
    if coordinated is None:
        return replace(status, problems=[])
    reported = coordinated.status
    # Sorted: the same troubles in another order would count as a transition, and be written.
    problems = sorted({problem[:LONGEST] for problem in reported.problems if active})[:MOST_PROBLEMS]
    return replace(
        status, run=replace(status.run, graph=reported.graph[:LONGEST] or status.run.graph),
        # a coordinator that has not read the record yet reports 0
        attempt=max(reported.attempt, status.attempt), epoch=_epoch(status, coordinated),
        items=_items(status, reported), recovery=_recovery(observed, status, reported),
        latency=_latency(status, reported), problems=problems,
        event_times=_event_times(reported) or status.event_times,
        late=dict(sorted(reported.late.items())[: api.MOST_SOURCES]) or status.late,
        skipped=dict(sorted(reported.skipped.items())[: api.MOST_SOURCES]) or status.skipped,
    )  # fmt: skip


def _workers(
    observed: Observed, status: JobResourceStatus, desired: Desired, coordinated: Coordinated | None
) -> api.WorkersStatus:
    asked = _asked(status, desired, coordinated)
    ready = len(coordinated.status.workers) if coordinated is not None else 0
    standby = len(coordinated.status.standbys) if coordinated is not None else 0
    # To its coordinator all executors of batches are one worker.
    if ready and desired.plan is not None and desired.plan.spec.batches:
        ready, standby = sum(len(observed.running(driver.launch)) for driver in status.drivers), 0
    selector = f"{JOB}={observed.name},{ROLE}=worker"
    return api.WorkersStatus(
        desired=asked, ready=ready, standby=standby, summary=f"{ready}/{asked}", selector=selector
    )


def _asked(status: JobResourceStatus, desired: Desired, coordinated: Coordinated | None) -> int:
    """How many workers take part: as many as the coordinator wants, where the spec leaves that open."""
    if desired.plan is None:
        return status.workers.desired
    wanted, workers = coordinated.status.wanted if coordinated is not None else 0, desired.plan.spec.workers
    # not known yet: as many as now
    return min(max(wanted or desired.plan.workers, workers.least), workers.most)


def _epoch(status: JobResourceStatus, coordinated: Coordinated) -> api.EpochStatus | None:
    reported = coordinated.status
    if not reported.epoch or (
        status.epoch is not None and status.epoch.number >= reported.epoch and status.run.stage == "Starting"
    ):
        return status.epoch
    if status.epoch is not None and status.epoch.number == reported.epoch:
        return status.epoch
    return api.EpochStatus(
        number=reported.epoch, cut=str(reported.cut), time=written(coordinated.epoch_since)
    )


def _event_times(reported: JobStatus) -> dict[str, str]:
    """Event times of as many sources as the status has room for."""
    return {
        source: event_moment(reported.event_times[source])
        for source in sorted(reported.event_times)[: api.MOST_SOURCES]
    }


def _items(status: JobResourceStatus, reported: JobStatus) -> api.ItemsStatus:
    entered, delivered = (
        sum(worker.items_in for worker in reported.workers),
        sum(worker.items_out for worker in reported.workers),
    )
    return api.ItemsStatus(input=entered, output=delivered) if entered or delivered else status.items


def _snapshot(status: JobResourceStatus, store: str, coordinated: Coordinated | None) -> api.SnapshotPlace:
    """A coordinator that has just adopted a stream does not know the size before the next commit."""
    known = status.snapshot.size if status.snapshot is not None else 0
    return api.SnapshotPlace(
        store=store, size=(coordinated.status.snapshot_size if coordinated else 0) or known
    )


def _latency(status: JobResourceStatus, reported: JobStatus) -> api.LatencyStatus | None:
    """Latency in the last minute; as it was before, if nothing was delivered in that."""
    if reported.latency is None or not reported.latency.calls:
        return status.latency
    released = reported.release or LatencyFigures()
    return api.LatencyStatus(
        p50_ms=released.p50_ms,
        p99_ms=released.p99_ms,
        delivered_p50_ms=reported.latency.p50_ms,
        delivered_p99_ms=reported.latency.p99_ms,
    )


def _recovery(
    observed: Observed, status: JobResourceStatus, reported: JobStatus
) -> api.RecoveryStatus | None:
    """The last recovery that is complete. They are counted by attempts: a coordinator counts only those that
    it drove itself."""
    last, before = reported.last_recovery, status.recovery
    if (
        last is None
        or not last.duration_ms
        or last.kind == FIRST
        or (before is not None and before.attempt == last.attempt)
    ):
        return before
    # One less: the first attempt of a run is its start, which repairs nothing.
    return api.RecoveryStatus(
        cause=last.cause[:LONGEST], time=written(observed.now), duration_ms=round(last.duration_ms, 1),
        replayed_from=str(last.replayed_from), count=max(1, last.attempt - status.run.attempt - 1),
        attempt=last.attempt, kind=last.kind,
    )  # fmt: skip
