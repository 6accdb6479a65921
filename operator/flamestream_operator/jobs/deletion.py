"""A job that was deleted: stop its stream, delete its pods, then its state if the policy says so, then let it
go.

What belongs to the object goes by its owner references; the job record and the snapshots do not belong to it,
and stay for a job of the same name unless `deletionPolicy: Delete`.

Keeps: nothing still runs when the object is gone; no state is removed while a worker could write. Does not:
wait for a node that is gone.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.jobs import actions as do
from flamestream_operator.jobs.effects import settings_of
from flamestream_operator.jobs.observed import AT_ONCE, Observed, ip_of, is_going, lingers, node_of
from flamestream_operator.jobs.spec import Desired
from flamestream_operator.objects.meta import FINALIZER, is_owned
from flamestream_operator.objects.small import build_token

FORGET = "forget/deletion"


def decide_deletion(
    observed: Observed, status: JobResourceStatus, desired: Desired
) -> tuple[JobResourceStatus, list[do.Action]]:
    """The next status and what is to be done for it."""
    # The object goes whatever is done here: nothing but the coordinator is left to be let go.
    if FINALIZER not in (observed.job["metadata"].get("finalizers") or ()):
        return status, [do.Abandon()] if observed.coordinated is not None else []
    message = _message(observed, desired)
    after = replace(
        status,
        phase="Deleting",
        drivers=[],
        message=message,
        run=replace(status.run, stage="Ended", cause=status.run.cause),
    )
    return after, list(_actions(observed, status, desired))


def _actions(observed: Observed, status: JobResourceStatus, desired: Desired) -> Iterator[do.Action]:
    if observed.coordinated is not None and not observed.coordinated.status.outcome:
        yield do.End()
    for pod in observed.of_role("driver"):
        if is_owned(pod, observed.job) and (lingers(pod) or node_of(pod) in observed.dead_nodes):
            grace = 0 if node_of(pod) in observed.dead_nodes else AT_ONCE
            yield do.DeletePod(pod["metadata"]["name"], grace=grace)
    if observed.could_write:  # no state is removed under a worker that may still write (!)
        return
    # Before the state: `forget` leaves their copies, which their own reconciler removes meanwhile.
    if _deletes(observed) and observed.snapshots:
        for snapshot in observed.snapshots:
            if not is_going(snapshot):
                yield do.DeleteSnapshot(snapshot["metadata"]["name"])
        return
    yield do.Abandon()
    yield from _state(observed, status, desired)


def _state(observed: Observed, status: JobResourceStatus, desired: Desired) -> Iterator[do.Action]:
    operation = observed.operations.get(FORGET)
    if (
        _deletes(observed)
        and status.run.number
        and desired.plan is not None
        and not (operation and operation.done and not operation.problem)
    ):
        if not observed.token:
            yield do.ReadSecrets(
                build_token(observed.job, status.run.number, ""),
                True,
                desired.plan.spec.checkpoint.secret or "",
            )
        else:
            yield do.Begin(FORGET, "forget", settings_of(observed, desired.plan))
        return
    yield do.SetFinalizer(False)  # last: from here on nobody looks after the object


def _deletes(observed: Observed) -> bool:
    return bool((observed.job.get("spec") or {}).get("deletionPolicy") == "Delete")


def _message(observed: Observed, desired: Desired) -> str:
    operation = observed.operations.get(FORGET)
    if operation is not None and operation.problem:
        return (
            f"its state cannot be deleted: {operation.problem}; it is tried again, deletionPolicy: Keep lets "
            "the object go without"
        )
    waiting = [pod["metadata"]["name"] for pod in observed.pods if ip_of(pod)]
    return f"waits for {', '.join(sorted(waiting)[:4])}" if waiting else ""
