"""From a status that is written to what must be done for it. Every effect follows from what the status
announces, never from a plan alone.

Order within a launch: rights, Service, application, the trial of a worker's pod, the driver's ConfigMap, the
driver's pod. What is there already is fine, but for the ConfigMap: it is made once, so a launch that was
interrupted behind it is given up and its pod's name never used twice. The shell stops at the first refusal
and reports it under the launch's key.

Keeps: no effect that the written status does not name; deletions only of pods that are ours. Does not: decide
(decide.py).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from msgspec.structs import replace as replaced

from flamestream.core.coordinator.coordination import Settings
from flamestream.job.manifest import Spec
from flamestream.job.moments import passed
from flamestream.job.settings import coordinator_settings
from flamestream_operator.api.job_status import DriverStatus, JobResourceStatus
from flamestream_operator.coordination.hosting import JobToCoordinate
from flamestream_operator.jobs import actions as do
from flamestream_operator.jobs.changes.preflight import may_restore, trial_of
from flamestream_operator.jobs.changes.take_over import (
    have_pods,
    identity_of_other,
    leave_of,
    may_ask,
    other_of,
)
from flamestream_operator.jobs.changes.upgrade import desired_for, known_as, running_of
from flamestream_operator.jobs.conditions import is_taking_over
from flamestream_operator.jobs.figures import HOSTED
from flamestream_operator.jobs.launching import files_of, launch_of
from flamestream_operator.jobs.observed import (
    AT_ONCE,
    Observed,
    answers,
    ip_of,
    is_going,
    lingers,
    node_of,
    phase_of,
    waits_for_condition,
)
from flamestream_operator.jobs.savepoints import scheduled_savepoints
from flamestream_operator.jobs.spec import Desired, Plan
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import Object, is_owned, own_name
from flamestream_operator.objects.network import build_network_policy
from flamestream_operator.objects.pods import build_driver_pod, build_trial_pod
from flamestream_operator.objects.queries import build_query_service, build_query_token
from flamestream_operator.objects.rights import build_role, build_role_binding, build_service_account
from flamestream_operator.objects.small import (
    build_budget,
    build_config,
    build_service,
    build_token,
    build_zookeeper,
)

_BEFORE = ("Restoring", "TakingOver")
SILENCE: Final = 2_000_000
"""Microseconds without a word after which a worker of the layout is lost: a node that is cut off says nothing
at all."""


def effects(observed: Observed, status: JobResourceStatus, desired: Desired) -> Iterator[do.Action]:
    """The actions that the status asks for and the cluster does not show yet."""
    if desired.waits_for:
        yield do.ReadApplication(desired.waits_for)
    yield from _coordination(observed, status, desired)
    yield from _operations(observed, status, desired)
    if desired.plan is not None and status.run.stage in ("Starting", "Running", "TakingOver"):
        yield from _drivers(observed, status, desired)
    if desired.plan is not None and status.run.stage in ("Starting", "Running"):
        yield from scheduled_savepoints(observed, status, desired.plan)
    if desired.plan is not None and status.run.stage in ("Starting", "Running", *_BEFORE, "Ended"):
        yield from trial_of(observed, status, desired, desired.plan)
    yield from _strays(observed, status)
    yield from _workers(observed, status, desired.plan.workers if desired.plan is not None else 0)
    if desired.plan is not None and desired.plan.spec.queries is not None:
        yield from _answering(observed)
    running = running_of(observed, status, desired).plan
    # before a driver is there nobody can be reached, and its launch makes the same
    seen = any(driver.uid for driver in status.drivers)
    # behind the workers of a stream that runs: clients reach it as ever, and a new leader has many to find
    late = is_taking_over(observed, status)
    if running is not None and seen and not late and status.run.stage in ("Starting", "Running"):
        yield _reached(observed, status, running.spec)


def _coordination(observed: Observed, status: JobResourceStatus, desired: Desired) -> Iterator[do.Action]:
    stage = status.run.stage
    if stage in (*HOSTED, *_BEFORE, "Forgetting") and not observed.token and desired.plan is not None:
        # Made only while a run begins: later its workers prove themselves with the one that is lost.
        token = build_token(observed.job, status.run.number, "")
        yield do.ReadSecrets(
            token, stage in ("Starting", *_BEFORE, "Forgetting"), desired.plan.spec.checkpoint.secret or ""
        )
        return
    running = running_of(observed, status, desired).plan
    if stage in HOSTED and running is not None and observed.token:
        job = settings_of(observed, running, status.run.digest)
        yield do.Coordinate(replaced(job, before=_before_of(observed, status, desired)), status.run.number)
        yield do.Upgrade(_next_of(observed, status, desired))
        leave = leave_of(observed, running.spec)
        if stage == "Running" and (leave is not None or observed.given is not None):
            yield do.GiveLeave(observed.identity, leave)
    if stage == "Draining" and observed.coordinated is not None and not observed.coordinated.status.outcome:
        # a run that could not begin has nothing to drain
        yield do.Suspend() if status.run.cause != "Rollback" else do.End()
    if stage in ("Stopped", "Ended") and observed.coordinated is not None:
        yield from () if observed.coordinated.status.outcome else (do.End(),)
        # Once all have gone: who is connected has still to hear that the job has ended.
        if not observed.members:
            yield do.Abandon()


def _next_of(observed: Observed, status: JobResourceStatus, desired: Desired) -> JobToCoordinate | None:
    """The job as it goes on, once the workers of the next code are there; None: as it is."""
    plan, trial = desired.plan, status.preflight
    if plan is None or trial is None or not status.run.next or status.run.next != plan.code:
        return None
    return settings_of(observed, plan, trial.digest)


def _before_of(observed: Observed, status: JobResourceStatus, desired: Desired) -> Settings | None:
    """The settings of the code that it has gone on from, as long as its workers are kept; None: none are."""
    run = status.run
    known = known_as(observed, status, desired, run.before) if run.before else None
    if known is None or known.plan is None:
        return None
    return settings_of(observed, known.plan, run.before_digest).settings


def settings_of(observed: Observed, plan: Plan, code: str = "") -> JobToCoordinate:
    """The job as its coordinator is told of it; the shell adds token and keys. `code`: the digest that its
    workers say, if it is known."""
    spec = plan.spec
    settings = replace(
        coordinator_settings(spec, observed.identity, plan.sources.values()), heartbeat_us=SILENCE, code=code,
        workers=1 if spec.batches else plan.workers,
        takes_over_as=own_name(observed.job) if observed.identity != own_name(observed.job) else "",
    )  # fmt: skip
    return JobToCoordinate(name=own_name(observed.job), settings=settings, store=spec.checkpoint.store)


def _operations(observed: Observed, status: JobResourceStatus, desired: Desired) -> Iterator[do.Action]:
    run = status.run
    restore = desired.plan.spec.restore_from if desired.plan is not None else None
    if (
        run.stage == "Restoring"
        and desired.plan is not None
        and restore is not None
        and observed.token
        and may_restore(observed, status)
    ):
        yield do.Begin(
            f"restoring/{run.number}",
            "restore",
            settings_of(observed, desired.plan),
            snapshot=restore.snapshot,
        )
    taken = desired.plan.spec.take_over if desired.plan is not None else None
    if run.stage == "TakingOver" and taken is not None and observed.other is None:
        yield do.ReadLeave(identity_of_other(observed, taken))
    if (
        run.stage == "TakingOver"
        and desired.plan is not None
        and observed.token
        and status.identity
        and have_pods(observed, status)
        and may_ask(observed, desired.plan)
    ):
        other, settings = other_of(observed.job), settings_of(observed, desired.plan)
        elsewhere = observed.other is None
        name = ".".join(other or ())
        yield do.Begin(f"takingover/{run.number}", "take over", settings, other=name, elsewhere=elsewhere)
    # As in a deletion: nothing is removed under a worker that may still write (!).
    if run.stage == "Forgetting" and desired.plan is not None and observed.token and not observed.could_write:
        yield do.Begin(
            f"forgetting/{run.number}", "forget", settings_of(observed, desired.plan), begins_anew=True
        )


# --- drivers ------------------------------------------------------------------------------------------------


def _drivers(observed: Observed, status: JobResourceStatus, desired: Desired) -> Iterator[do.Action]:
    for driver in status.drivers:
        if driver.state == "Retiring":
            # Not before the coordinator has found them (!): it would let none of them in, and adopt nothing.
            if not is_taking_over(observed, status):
                yield from _retire(observed, driver)
        elif (
            observed.pod(driver.name) is None
            and observed.token
            and f"launch/{driver.launch}" not in observed.refusals
        ):
            if driver.name not in observed.absent:
                yield do.LookFor(driver.name)
            elif not driver.uid:  # one that was seen is never made again (!)
                its = desired_for(observed, status, desired, driver)
                if its.plan is not None:
                    yield from _launch(observed, status, its, its.plan, driver)


def _launch(
    observed: Observed, status: JobResourceStatus, desired: Desired, plan: Plan, driver: DriverStatus
) -> Iterator[do.Action]:
    key = f"launch/{driver.launch}"
    launch = launch_of(
        observed,
        status,
        desired,
        plan,
        application=driver.application,
        number=driver.launch,
        tasks=driver.tasks,
        beside=status.run.stage == "TakingOver" or _succeeds(observed, status, driver),
    )
    yield do.Ensure(build_service(observed.job), key)
    yield do.Ensure(build_zookeeper(observed.job, observed.site.zookeeper), key)
    if not plan.spec.pods.service_account_name:
        yield do.Ensure(build_service_account(observed.job), key)
    yield do.Ensure(build_role(observed.job), key)
    yield do.Ensure(build_role_binding(observed.job, launch.account), key)
    if observed.site.network_policies:
        yield do.Ensure(build_network_policy(observed.job, plan.spec), key)
    yield do.Ensure(build_budget(observed.job, plan.workers), key)
    if (queries := plan.spec.queries) is not None:
        yield do.Ensure(build_query_service(observed.job, queries), key)
        if queries.token_file is None:
            yield do.Draw(build_query_token(observed.job), key)
    if plan.spec.application.config_map and desired.app_digest:
        yield do.EnsureCopy(plan.spec.application.config_map, launch.app_config_map, key)
    # before the driver: an executor that is refused later is only seen in its log
    yield do.Try(build_trial_pod(launch), key)
    # The mark of a launch (!): who finds it cannot know whether its pod has been, and gives it up.
    yield do.Create(
        build_config(observed.job, driver.name, files_of(observed, launch, desired)), key, once=True
    )
    yield do.Create(build_driver_pod(launch), key)


def _succeeds(observed: Observed, status: JobResourceStatus, driver: DriverStatus) -> bool:
    """Whether it starts beside another driver of its application, whose workers run."""
    return any(
        other.name != driver.name
        and other.application == driver.application
        and observed.pod(other.name) is not None
        for other in status.drivers
    )


def _reached(observed: Observed, status: JobResourceStatus, spec: Spec) -> do.Action:
    """Clients reach the code that runs. A Secret of queries stays until the job goes: the right to delete it would be
    one to delete any."""
    things = [build_network_policy(observed.job, spec)] if observed.site.network_policies else []
    if spec.queries is not None:
        things.append(build_query_service(observed.job, spec.queries))
    # the first spec finds nothing of one before
    left_over = names.queries(observed.name) if spec.queries is None and observed.generation > 1 else ""
    newest = max((driver.launch for driver in status.drivers if driver.uid), default=0)
    return do.Reach(tuple(things), left_over, newest)


def _retire(observed: Observed, driver: DriverStatus) -> Iterator[do.Action]:
    """Have a driver's workers hand their slots over."""
    ips = tuple(ip for ip in observed.members_of(driver.name, driver.launch) if ip not in observed.retired)
    if ips:
        yield do.Retire(ips)


# --- pods that must go --------------------------------------------------------------------------------------


def _strays(observed: Observed, status: JobResourceStatus) -> Iterator[do.Action]:
    """Driver pods that the status does not name (any more), those that have ended among them: their executors
    go with them."""
    named = {driver.name for driver in status.drivers}
    stopping = status.run.stage == "Stopped"
    for pod in observed.of_role("driver"):
        if not is_owned(pod, observed.job):  # somebody's own pod with our labels, or of an earlier life
            continue
        if pod["metadata"]["name"] in named:
            continue
        # No kubelet there confirms an end: with a grace above 0 the object would stay.
        if node_of(pod) in observed.dead_nodes:
            yield do.DeletePod(pod["metadata"]["name"], grace=0)
        # also one that is going: a shorter grace is the word that its hook waits for
        # (spark/streaming/driver_stay.py)
        elif lingers(pod) and not (stopping and _still_stopping(observed, status)):
            yield do.DeletePod(pod["metadata"]["name"], grace=AT_ONCE)


def _still_stopping(observed: Observed, status: JobResourceStatus) -> bool:
    """Workers that were told to stop get a moment to do so by themselves."""
    at = status.suspension
    return at is not None and bool(observed.members) and not passed(observed.now, at.time, 5)


def _workers(observed: Observed, status: JobResourceStatus, replicas: int) -> Iterator[do.Action]:
    active = status.run.stage in HOSTED and observed.coordinated is not None
    connected = {member.ip for member in observed.members}
    if active:
        yield from _leaving(observed, replicas)
    for pod in observed.of_role("worker"):
        if node_of(pod) in observed.dead_nodes:
            yield from _on_dead_node(observed, pod, active)
        elif ip_of(pod) in connected and not is_going(pod) and waits_for_condition(pod):
            yield do.MarkReady(pod)


def _answering(observed: Observed) -> Iterator[do.Action]:
    """Clients are led to the workers that take part. Who is not connected may take part and answer nevertheless; and
    while nobody seems to, the coordinator has just begun."""
    takes_part = {member.ip: not member.standby for member in observed.members}
    if not any(takes_part.values()):
        return
    for pod in observed.of_role("worker"):
        if not is_going(pod) and (now := takes_part.get(ip_of(pod), answers(pod))) != answers(pod):
            yield do.MarkAnswers(pod["metadata"]["name"], now)


def _leaving(observed: Observed, replicas: int) -> Iterator[do.Action]:
    """Who is about to stop hands over; and with the first on a node that is being drained all that are there,
    if there are enough others: the rest is evicted within a second, and would be a recovery each."""
    pods = [
        pod for pod in observed.of_role("worker") if ip_of(pod) and node_of(pod) not in observed.dead_nodes
    ]
    ips = tuple(ip_of(pod) for pod in pods if is_going(pod) and ip_of(pod) not in observed.retired)
    if not ips:
        return
    drained = {node_of(pod) for pod in pods if ip_of(pod) in ips} & observed.closed_nodes
    stay = [pod for pod in pods if not is_going(pod) and ip_of(pod) not in observed.retired]
    beside = tuple(ip_of(pod) for pod in stay if node_of(pod) in drained)
    able = {member.ip for member in observed.members if member.warm}
    # Warm ones alone: who has to read the snapshot first holds the stream up for that time (decision 042).
    enough = sum(node_of(pod) not in drained and ip_of(pod) in able for pod in stay) >= replicas
    yield do.Retire(ips, beside if enough else ())


def _on_dead_node(observed: Observed, pod: Object, active: bool) -> Iterator[do.Action]:
    """Spark waits for ever for an executor whose node is gone: we say that it has failed, once nothing of it
    counts any more."""
    counts = any(not member.standby and member.ip == ip_of(pod) for member in observed.members)
    if active and counts:
        # Its slots first (!): at the word of its failure Spark makes another, while this one may be a zombie.
        yield do.Gone(ip_of(pod))
    else:
        # Failed first: by the last event of one that is just removed it still runs, and Spark waits.
        yield do.DeletePod(pod["metadata"]["name"], grace=0, fail=phase_of(pod) in ("Pending", "Running"))
