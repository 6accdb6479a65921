"""Savepoints by the clock: one FlameStreamSnapshot every `spec.savepoints.every`, the newest `keep` of them kept.

The moment is written to the status first and the snapshot's name follows from it, so a crash in between makes neither two nor none.

Keeps: snapshots that a person made are never counted or removed. Does not: take one (savepoints/reconciler.py).
"""

from collections.abc import Iterator

from msgspec.structs import replace

from flamestream.job.moments import moment, passed, written
from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.jobs import actions as do
from flamestream_operator.jobs.observed import Observed
from flamestream_operator.jobs.spec import Plan
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import API_VERSION, SCHEDULED, Object, labels

MADE_WITHIN = 60.0
"""Seconds after its moment in which it is made; later it was made, and somebody has deleted it."""


def with_savepoint_due(observed: Observed, status: JobResourceStatus, plan: Plan) -> JobResourceStatus:
    """The moment has come. The first one is a whole period after the start."""
    if (
        plan.spec.savepoints is None
        or status.run.stage != "Running"
        or observed.coordinated is None
        or not observed.coordinated.status.epoch
    ):
        return status
    due = passed(observed.now, status.last_savepoint or status.started_at, float(plan.spec.savepoints.every))
    return replace(status, last_savepoint=written(observed.now)) if due else status


def scheduled_savepoints(observed: Observed, status: JobResourceStatus, plan: Plan) -> Iterator[do.Action]:
    """Make the newest, remove the oldest."""
    if plan.spec.savepoints is None:
        return
    there = sorted(thing["metadata"]["name"] for thing in observed.snapshots if SCHEDULED in (thing["metadata"].get("labels") or {}))
    if status.last_savepoint and not passed(observed.now, status.last_savepoint, MADE_WITHIN):
        name = names.scheduled(observed.name, int(moment(status.last_savepoint)))
        if name not in there:
            yield do.Create(build_snapshot(observed.job, name), f"aside/{name}")
    for name in there[: max(0, len(there) - plan.spec.savepoints.keep)]:
        yield do.DeleteSnapshot(name)


def build_snapshot(job: Object, name: str) -> Object:
    """Not owned by the job: what happens to it then is for `deletionPolicy` to say."""
    meta = job["metadata"]
    marks = {**labels(meta["name"]), SCHEDULED: "true"}
    return {
        "apiVersion": API_VERSION,
        "kind": "FlameStreamSnapshot",
        "metadata": {"name": name, "namespace": meta["namespace"], "labels": marks},
        "spec": {"job": meta["name"], "deletionPolicy": "Delete"},
    }
