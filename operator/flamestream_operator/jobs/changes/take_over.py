"""A take-over: one job goes on where another one ends. This is what has to be so before that one is asked.

    leave      the other job says handOver: {to: this one}; until then nothing of it is given to this one
    trial      the code loads, and the committed snapshot fits it (preflight.py)
    pods       its drivers and workers run, and dial: results wait for them no longer than for a recovery
    asked      the other's coordinator ends it at a cut (stream_effects.py); its record says who holds it

A job of another cluster is not seen here. Its leave stands beside its record, which both operators reach, with
fingerprints of what both must say alike; and there it is asked (store/zookeeper_leave.py). Its own operator ends it, by
its own look at its spec.

Keeps: without the other's leave no name, key or login of it is used. Does not: ask, or say when (lifecycle.py).
"""

from flamestream.job.manifest import Spec
from flamestream.job.manifest_cluster import TakeOver
from flamestream.model.errors import ManifestError
from flamestream.store.zookeeper_leave import Leave
from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.jobs.observed import Observed
from flamestream_operator.jobs.spec import Plan, kept_by, read, unlike, unlike_kept
from flamestream_operator.objects.meta import Object, identity, key_beside, own_name, part


def other_of(job: Object) -> tuple[str, str] | None:
    """Namespace and name of the job that this one is to go on with; None: none."""
    written = part(job, "spec", "takeOver", "job")
    return key_beside(written, job) if isinstance(written, str) and written else None


def missing_leave(observed: Observed, plan: Plan) -> str:
    """The reason why this job may not go on with the other one now; "" if it may."""
    wanted, other = plan.spec.take_over, observed.other
    if wanted is None:
        return "spec.takeOver was removed: put it back, or make this job anew without it"
    if other is None:
        return _missing_elsewhere(observed, wanted, plan)
    mine, to = (observed.job["metadata"]["namespace"], observed.name), part(other, "spec", "handOver", "to")
    if not isinstance(to, str) or key_beside(to, other) != mine:
        return f"takeOver: the owner of job {wanted.job!r} has to write handOver: {{to: {'/'.join(mine)}}} in its spec"
    if wanted.origin is not None and ".".join(key_beside(wanted.origin, other)) != identity(other):
        return f"takeOver.origin: what job {wanted.job!r} keeps is called after {identity(other)}: leave it out here"
    try:
        theirs = read(other, other.get("spec") or {}).spec
    except ManifestError as error:
        return f"takeOver: the spec of job {wanted.job!r} cannot be read: {error}"
    if field := unlike(theirs, plan.spec):
        return (
            f"{field}: it is another than that of job {wanted.job!r}: write the same, for its stream goes on"
        )
    return ""


def _missing_elsewhere(observed: Observed, wanted: TakeOver, plan: Plan) -> str:
    """The same, of a job that is not seen here."""
    leave, me = observed.leave, own_name(observed.job)
    name, to = ".".join(key_beside(wanted.job, observed.job)), me.replace(".", "/", 1)
    if leave is None:
        return (
            f"takeOver: there is no FlameStreamJob {wanted.job!r} here: create it first. If it runs in another "
            f"cluster, its owner has to write handOver: {{to: {to}}} in its spec there, and both operators have to "
            "keep their jobs in the same ZooKeeper, with the same login"
        )
    if leave.job != name:
        return (
            f"takeOver: {identity_of_other(observed, wanted)} is {leave.job}'s now: take over from that one"
        )
    if leave.to != me:
        return f"takeOver: the leave of job {name} is for {leave.to}: its owner has to write handOver: {{to: {to}}}"
    if field := unlike_kept(leave.kept, plan.spec):
        return f"{field}: it is another than that of job {name}: write the same, for its stream goes on"
    return ""


def identity_of_other(observed: Observed, wanted: TakeOver) -> str:
    """The name that the other job's sinks, journal, snapshots and record are called after."""
    if observed.other is not None:
        return identity(observed.other)
    return ".".join(key_beside(wanted.origin or wanted.job, observed.job))


def leave_of(observed: Observed, spec: Spec) -> Leave | None:
    """The leave that the job gives to another one, as one of another cluster reads it."""
    if spec.hand_over is None:
        return None
    to = ".".join(key_beside(spec.hand_over.to, observed.job))
    return Leave(job=own_name(observed.job), to=to, kept=kept_by(spec))


def may_ask(observed: Observed, plan: Plan) -> bool:
    """Whether the other one may be asked: by its leave, or because it has ended, or is gone. Its record says then
    whom it was for."""
    over = observed.other is None or part(observed.other, "status", "run", "cause") == "HandedOver"
    return over or not missing_leave(observed, plan)


def may_begin(status: JobResourceStatus, plan: Plan | None) -> bool:
    """Whether its pods may be made: its code was tried, and it does not only shadow the other job."""
    trial = status.preflight
    shadow = plan is None or plan.spec.take_over is None or plan.spec.take_over.shadow
    return not shadow and trial is not None and trial.state == "Passed"


def have_pods(observed: Observed, status: JobResourceStatus) -> bool:
    """Whether all that will dial runs."""
    return bool(status.drivers) and all(
        len(observed.running(driver.launch)) >= driver.tasks for driver in status.drivers
    )
