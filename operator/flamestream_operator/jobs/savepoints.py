"""Savepoints as jobs know them: made by the clock, and restored from.

By the clock there is one FlameStreamSnapshot every `spec.savepoints.every`, and the newest `keep` of them
stay. The moment is written to the status first and the snapshot's name follows from it, so a crash in between
makes neither two nor none.

Keeps: snapshots that a person made are never counted or removed. Does not: take one
(savepoints/reconciler.py).
"""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from flamestream.job.moments import moment, passed, written
from flamestream.model.errors import Retryable, UserError
from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.api.snapshot import SnapshotStatus
from flamestream_operator.coordination.hosting import Savepoint
from flamestream_operator.jobs import actions as do
from flamestream_operator.jobs.observed import Observed
from flamestream_operator.jobs.spec import Plan
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import SCHEDULED, Object, labels, whole

MADE_WITHIN = 60.0
"""Seconds after its moment in which it is made; later it was made, and somebody has deleted it."""


def with_savepoint_due(observed: Observed, status: JobResourceStatus, plan: Plan) -> JobResourceStatus:
    """The status with the moment of the next savepoint, if that has come. The first one is a whole period
    after the start."""
    asked, coordinated = plan.spec.savepoints, observed.coordinated
    if asked is None or status.run.stage != "Running" or coordinated is None or not coordinated.status.epoch:
        return status
    due = passed(observed.now, status.last_savepoint or status.started_at, float(asked.every))
    return replace(status, last_savepoint=written(observed.now)) if due else status


def scheduled_savepoints(observed: Observed, status: JobResourceStatus, plan: Plan) -> Iterator[do.Action]:
    """Make the newest, remove the oldest."""
    if plan.spec.savepoints is None:
        return
    there = sorted(
        thing["metadata"]["name"]
        for thing in observed.snapshots
        if SCHEDULED in (thing["metadata"].get("labels") or {})
    )
    # later its absence is somebody's wish
    if status.last_savepoint and not passed(observed.now, status.last_savepoint, MADE_WITHIN):
        name = names.scheduled(observed.name, int(moment(status.last_savepoint)))
        if name not in there:
            yield do.Create(build_snapshot(observed.job, name), f"aside/{name}")
    for name in there[: max(0, len(there) - plan.spec.savepoints.keep)]:
        yield do.DeleteSnapshot(name)


def snapshot_status(thing: Object) -> SnapshotStatus:
    """The status of a FlameStreamSnapshot as it was written; one that cannot be read starts empty."""
    try:
        return msgspec.convert(thing.get("status") or {}, SnapshotStatus)
    except msgspec.ValidationError:
        return SnapshotStatus()


def restorable(snapshot: Object | None, name: str) -> SnapshotStatus:
    """The status of a FlameStreamSnapshot that can be restored. Raises Retryable while it may still come,
    UserError if it will not."""
    if snapshot is None:
        raise Retryable(
            f"spec.restoreFrom: there is no FlameStreamSnapshot {name!r} in this namespace: create one, or "
            "remove the field"
        )
    status = snapshot_status(snapshot)
    if status.phase == "Failed":
        raise UserError(
            f"spec.restoreFrom: FlameStreamSnapshot {name!r} has failed: {status.message}: take another"
        )
    if status.phase != "Completed":
        raise Retryable(
            f"spec.restoreFrom: FlameStreamSnapshot {name!r} is {status.phase}: "
            f"{status.message or 'wait for it'}"
        )
    return status


def savepoint_in(status: SnapshotStatus) -> Savepoint:
    """The savepoint that a FlameStreamSnapshot with this status stands for."""
    return Savepoint(
        job=status.job, name=status.name, store=status.store, epoch=status.epoch, cut=int(status.cut or 0),
        index=status.index, index_hash=status.index_hash, graph=status.graph, size=status.size,
        objects=status.objects,
    )  # fmt: skip


def build_snapshot(job: Object, name: str) -> Object:
    """Not owned by the job: what happens to it then is for `deletionPolicy` to say."""
    meta = job["metadata"]
    named = {
        "name": name,
        "namespace": meta["namespace"],
        "labels": {**labels(meta["name"]), SCHEDULED: "true"},
    }
    return whole("FlameStreamSnapshot", named, spec={"job": meta["name"], "deletionPolicy": "Delete"})
