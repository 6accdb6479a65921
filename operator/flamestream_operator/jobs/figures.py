"""What the coordinator says, in the status: attempt, epoch, workers, items, the last recovery.

Does not: decide; or hold more than the newest of anything.
"""

from msgspec.structs import replace

from flamestream.job.status import JobStatus, LatencyFigures
from flamestream_operator.api.job_status import (
    EpochStatus,
    ItemsStatus,
    JobResourceStatus,
    LatencyStatus,
    RecoveryStatus,
    SnapshotPlace,
    WorkersStatus,
)
from flamestream_operator.jobs.clock import written
from flamestream_operator.jobs.desired import Wanted
from flamestream_operator.jobs.observed import Coordinated, Seen
from flamestream_operator.objects.meta import JOB, ROLE

MOST_PROBLEMS = 8
LONGEST = 512
FIRST = "start"
"""The cause of an attempt that repairs nothing."""


def with_figures(seen: Seen, status: JobResourceStatus, want: Wanted) -> JobResourceStatus:
    """Bring them up to date; what is not known now stays as it was."""
    active = status.run.stage in ("Starting", "Running", "Draining")
    coordinated = seen.coordinated if active else None
    status = replace(status, workers=_workers(seen, status, want, coordinated))
    if want.plan is not None:
        place = _snapshot(status, want.plan.spec.checkpoint.store, coordinated)
        status = replace(status, guarantee=want.plan.spec.guarantee, snapshot=place)
    if coordinated is None:
        return replace(status, problems=[])
    told = coordinated.status
    problems = sorted({problem[:LONGEST] for problem in told.problems})[:MOST_PROBLEMS]
    return replace(
        status, run=replace(status.run, graph=told.graph[:LONGEST] or status.run.graph),
        attempt=max(told.attempt, status.attempt), epoch=_epoch(status, coordinated), items=_items(status, told),
        recovery=_recovery(seen, status, told), latency=_latency(status, told), problems=problems,
    )  # fmt: skip


def _workers(seen: Seen, status: JobResourceStatus, want: Wanted, coordinated: Coordinated | None) -> WorkersStatus:
    desired = want.plan.spec.workers.replicas if want.plan is not None else status.workers.desired
    ready = len(coordinated.status.workers) if coordinated is not None else 0
    standby = len(coordinated.status.standbys) if coordinated is not None else 0
    selector = f"{JOB}={seen.name},{ROLE}=worker"
    return WorkersStatus(desired=desired, ready=ready, standby=standby, summary=f"{ready}/{desired}", selector=selector)


def _epoch(status: JobResourceStatus, coordinated: Coordinated) -> EpochStatus | None:
    told = coordinated.status
    if not told.epoch or (status.epoch is not None and status.epoch.number >= told.epoch and status.run.stage == "Starting"):
        return status.epoch
    if status.epoch is not None and status.epoch.number == told.epoch:
        return status.epoch
    return EpochStatus(number=told.epoch, cut=str(told.cut), time=written(coordinated.epoch_since))


def _items(status: JobResourceStatus, told: JobStatus) -> ItemsStatus:
    entered, delivered = sum(worker.items_in for worker in told.workers), sum(worker.items_out for worker in told.workers)
    return ItemsStatus(input=entered, output=delivered) if entered or delivered else status.items


def _snapshot(status: JobResourceStatus, store: str, coordinated: Coordinated | None) -> SnapshotPlace:
    """A coordinator that has just adopted a stream does not know the size before the next commit."""
    known = status.snapshot.size if status.snapshot is not None else 0
    return SnapshotPlace(store=store, size=(coordinated.status.snapshot_size if coordinated else 0) or known)


def _latency(status: JobResourceStatus, told: JobStatus) -> LatencyStatus | None:
    """Of the last minute; what was, if nothing was delivered in it."""
    if told.latency is None or not told.latency.calls:
        return status.latency
    released = told.release or LatencyFigures()
    return LatencyStatus(
        p50_ms=released.p50_ms, p99_ms=released.p99_ms, delivered_p50_ms=told.latency.p50_ms, delivered_p99_ms=told.latency.p99_ms
    )


def _recovery(seen: Seen, status: JobResourceStatus, told: JobStatus) -> RecoveryStatus | None:
    """One that is complete. Attempts count them, and not the coordinator, which counts those that it drove itself."""
    last, before = told.last_recovery, status.recovery
    if last is None or not last.duration_ms or last.kind == FIRST or (before is not None and before.attempt == last.attempt):
        return before
    return RecoveryStatus(
        cause=last.cause[:LONGEST], time=written(seen.now), duration_ms=round(last.duration_ms, 1), replayed_from=str(last.replayed_from),
        count=max(1, last.attempt - status.run.attempt - 1), attempt=last.attempt, kind=last.kind,
    )  # fmt: skip
