"""A job that was deleted: stop its stream, delete its pods, then its state if the policy says so, then let it go.

What belongs to the object goes by its owner references; the job record and the snapshots do not belong to it, and stay for a job of the
same name unless `deletionPolicy: Delete`.

Keeps: nothing still runs when the object is gone; no state is removed while a worker could write. Does not: wait for a node that is gone.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.jobs import actions as do
from flamestream_operator.jobs.desired import Wanted
from flamestream_operator.jobs.effects import settings_of
from flamestream_operator.jobs.observed import AT_ONCE, Seen, ip_of, is_going, lingers, node_of
from flamestream_operator.objects.meta import FINALIZER, is_owned
from flamestream_operator.objects.small import build_token

FORGET = "forget/deletion"


def deleted(seen: Seen, status: JobResourceStatus, want: Wanted) -> tuple[JobResourceStatus, list[do.Action]]:
    """The next status and what is to be done for it."""
    if FINALIZER not in (seen.job["metadata"].get("finalizers") or ()):
        return status, [do.Abandon()] if seen.coordinated is not None else []
    message = _message(seen, want)
    after = replace(status, phase="Deleting", drivers=[], message=message, run=replace(status.run, stage="Ended", cause=status.run.cause))
    return after, list(_actions(seen, status, want))


def _actions(seen: Seen, status: JobResourceStatus, want: Wanted) -> Iterator[do.Action]:
    if seen.coordinated is not None and not seen.coordinated.status.outcome:
        yield do.End()
    for pod in seen.of_role("driver"):
        if is_owned(pod, seen.job) and (lingers(pod) or node_of(pod) in seen.dead_nodes):
            grace = 0 if node_of(pod) in seen.dead_nodes else AT_ONCE
            yield do.DeletePod(pod["metadata"]["name"], pod["metadata"]["uid"], grace=grace)
    if seen.could_write:
        return
    if _deletes(seen) and seen.snapshots:
        for snapshot in seen.snapshots:
            if not is_going(snapshot):
                yield do.DeleteSnapshot(snapshot["metadata"]["name"])
        return
    yield do.Abandon()
    yield from _state(seen, status, want)


def _state(seen: Seen, status: JobResourceStatus, want: Wanted) -> Iterator[do.Action]:
    operation = seen.operations.get(FORGET)
    if _deletes(seen) and status.run.number and want.plan is not None and not (operation and operation.done and not operation.problem):
        if not seen.token:
            yield do.ReadSecrets(build_token(seen.job, status.run.number, ""), True, want.plan.spec.checkpoint.secret or "")
        else:
            yield do.Begin(FORGET, "forget", {"settings": settings_of(seen, status, want.plan)})
        return
    yield do.SetFinalizer(False)


def _deletes(seen: Seen) -> bool:
    return bool((seen.job.get("spec") or {}).get("deletionPolicy") == "Delete")


def _message(seen: Seen, want: Wanted) -> str:
    operation = seen.operations.get(FORGET)
    if operation is not None and operation.problem:
        return f"its state cannot be deleted: {operation.problem}; it is tried again, deletionPolicy: Keep lets the object go without"
    waiting = [pod["metadata"]["name"] for pod in seen.pods if ip_of(pod)]
    return f"waits for {', '.join(sorted(waiting)[:4])}" if waiting else ""
