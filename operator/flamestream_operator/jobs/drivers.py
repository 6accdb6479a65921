"""The Spark applications of a run: which driver pods there should be, one step at a time.

A driver that has ended, was deleted, or stands on a dead node is replaced by a new launch with a new name. If
workers of it live on other nodes, they carry the stream until the new ones are there: only then is the object
of a driver on a dead node removed. A driver whose pods were made from something else is replaced while the
stream runs: the new one's workers connect as standbys first, then the old one's hand their slots over, then
it is deleted.

Keeps: a launch number is used once; a pod that was seen once is never made again; at most one launch of an
application is starting. Does not: make or delete pods (effects.py).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from flamestream.job.moments import passed, written
from flamestream_operator.api.job_status import DriverStatus, JobResourceStatus
from flamestream_operator.jobs.conditions import is_taking_over
from flamestream_operator.jobs.failures import may_try, with_failure
from flamestream_operator.jobs.observed import (
    Observed,
    ended_containers,
    ip_of,
    is_going,
    node_of,
    phase_of,
    said_at_end,
)
from flamestream_operator.jobs.spec import Plan
from flamestream_operator.jobs.suspicion import suspects
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import Object

STAGGER = 3.0
"""Seconds that the second application's start waits for the first, which needs the processor."""

WARM_WITHIN = 15.0
"""Seconds after which a standby counts though it has not said that the committed snapshot is at hand."""

HAND_OVER_WITHIN = 60.0
"""Seconds after which a driver that is replaced is deleted whoever still has slots: its loss is then a
failure like any other."""


_OF_PODS: Final = ("DriverDeleted", "DriverReplaced", "NodeLost")
"""Reasons of an ending that its application has no part in."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a driver: its reason, and whether it would end like this again."""

    reason: str
    message: str
    final: bool = False
    """It would end like this again."""


def with_endings(observed: Observed, status: JobResourceStatus, plan: Plan) -> JobResourceStatus:
    """Note the pods that were seen, and drop the drivers that have ended."""
    for driver in status.drivers:
        pod = observed.pod(driver.name)
        # Noted first (!): what was seen once and is gone was deleted, and is never made again under its name.
        if pod is not None and not driver.uid:
            status = _with(status, driver, uid=pod["metadata"]["uid"])
    for driver in list(status.drivers):
        ending = _ending(observed, driver)
        if ending is not None:
            status = _without(status, driver)
            if (
                driver.state != "Retiring"
                and status.run.stage in ("Starting", "Running")
                and status.code_of(driver) == status.run.code
                and not _has_successor(status, driver)
            ):
                status = with_failure(status, plan.spec, observed.now, ending.reason, ending.message)
        elif driver.state == "Retiring" and (
            has_handed_over(observed, status, driver) or passed(observed.now, driver.since, HAND_OVER_WITHIN)
        ):
            status = _without(status, driver)
        elif driver.state == "Starting" and _able(observed, driver, plan) >= driver.tasks:
            status = _with(status, driver, state="Running", since=written(observed.now))
    return status


def ending_that_is_final(observed: Observed, status: JobResourceStatus) -> Ending | None:
    """A driver that says that the run's application cannot run."""
    return next((each for each in _endings_of(observed, status, status.run.code) if each.final), None)


def ending_of_next(observed: Observed, status: JobResourceStatus) -> Ending | None:
    """A driver of the application that is to take over has ended, and not for what happened to its pod."""
    ends = _endings_of(observed, status, status.run.next)
    return next((each for each in ends if each.reason not in _OF_PODS), None)


def _endings_of(observed: Observed, status: JobResourceStatus, code: str) -> Iterator[Ending]:
    for driver in status.drivers:
        if status.code_of(driver) == code and (ending := _ending(observed, driver)) is not None:
            yield ending


def with_drivers(observed: Observed, status: JobResourceStatus, plan: Plan) -> JobResourceStatus:
    """Go one step towards one up-to-date driver an application."""
    if not may_try(status, observed.now):  # the pause after a failure
        return status
    for application, tasks in plan.applications.items():
        mine = [
            driver
            for driver in status.drivers
            if driver.application == application
            and driver.state != "Retiring"
            and status.code_of(driver) == plan.code
        ]
        fresh = [
            driver
            for driver in mine
            if driver.revision == plan.revision and driver.tasks == tasks and not _leaves(observed, driver)
        ]
        if not fresh:
            if any(driver.state == "Starting" and not _leaves(observed, driver) for driver in mine):
                # One launch of an application at a time: the outdated one is given up before the next begins.
                return _retired(
                    status, [driver for driver in mine if driver.state == "Starting"], observed.now
                )
            return (
                _launched(observed, status, plan, application, tasks)
                if _may_start(observed, status, application)
                else status
            )
        running = [driver for driver in fresh if driver.state == "Running"]
        if running:  # an earlier one beside a later that starts: its node was suspected, and is back
            status = _retired(status, [driver for driver in mine if driver is not running[-1]], observed.now)
    superfluous = [
        driver
        for driver in status.drivers
        if driver.application not in plan.applications
        and driver.state != "Retiring"
        and status.code_of(driver) == plan.code
    ]
    # Not while one starts: until it is there the superfluous ones may be all that carries the stream.
    whole = all(driver.state != "Starting" for driver in status.drivers)
    return _retired(status, superfluous, observed.now) if whole else status


def with_codes(observed: Observed, status: JobResourceStatus) -> JobResourceStatus:
    """Retire drivers of code that the run neither has, nor goes on to, nor may go back to."""
    codes = {status.run.code, status.run.next, status.run.before} - {""}
    others = [
        driver
        for driver in status.drivers
        if status.code_of(driver) not in codes and driver.state != "Retiring"
    ]
    return _retired(status, others, observed.now)


def _may_start(observed: Observed, status: JobResourceStatus, application: str) -> bool:
    """The second application of a job that is not running yet lets the first go ahead."""
    others = [
        driver
        for driver in status.drivers
        if driver.application != application and driver.state == "Starting"
    ]
    return all(passed(observed.now, driver.since, STAGGER) for driver in others)


def _launched(
    observed: Observed, status: JobResourceStatus, plan: Plan, application: str, tasks: int
) -> JobResourceStatus:
    launch = status.launches + 1
    driver = DriverStatus(
        name=names.driver_pod(observed.name, application, launch), application=application, launch=launch,
        tasks=tasks, revision=plan.revision, code=plan.code, since=written(observed.now),
    )  # fmt: skip
    intent = replace(status.intent, key=f"launch/{launch}", generation=observed.generation)
    return replace(status, launches=launch, drivers=[*status.drivers, driver], intent=intent)


def _retired(status: JobResourceStatus, drivers: Iterable[DriverStatus], now: float) -> JobResourceStatus:
    for driver in drivers:
        status = _with(status, driver, state="Retiring", since=written(now))
    return status


def _able(observed: Observed, driver: DriverStatus, plan: Plan) -> int:
    """Workers of a launch that could take slots over without reading a snapshot first; of batches, which
    read it anyway, those that run."""
    if plan.spec.batches:
        connected = ip_of(observed.pod(driver.name) or {}) in {member.ip for member in observed.members}
        return len(observed.running(driver.launch)) if connected else 0
    able = {
        member.ip
        for member in observed.members
        if member.warm or observed.instant - member.since > WARM_WITHIN
    }
    return sum(1 for pod in observed.workers_of(driver.launch) if ip_of(pod) in able)


def has_handed_over(observed: Observed, status: JobResourceStatus, driver: DriverStatus) -> bool:
    """Whether none of its workers has slots."""
    # Who has not dialled yet may have slots all the same (!): a new coordinator finds them first.
    if observed.coordinated is None or is_taking_over(observed, status):
        return False
    busy = {member.ip for member in observed.members if not member.standby}
    return busy.isdisjoint(observed.members_of(driver.name, driver.launch))


def _has_successor(status: JobResourceStatus, driver: DriverStatus) -> bool:
    """Whether the next launch began already: a planned stop, and it was announced."""
    return any(
        each.application == driver.application
        and each.launch > driver.launch
        and status.code_of(each) == status.code_of(driver)
        for each in status.drivers
    )


def _leaves(observed: Observed, driver: DriverStatus) -> bool:
    """Whether a driver's pod is about to stop, or its node is lost, or seems to be: a successor starts beside
    it."""
    pod = observed.pod(driver.name)
    return pod is not None and (is_going(pod) or node_of(pod) in observed.dead_nodes | suspects(observed))


def _has_survivors(observed: Observed, driver: DriverStatus) -> bool:
    """Workers of it on other nodes still carry the stream, and would go with its pod's object: it stays until
    others are there."""
    connected = {member.ip for member in observed.members}
    return any(
        ip_of(pod) in connected
        for pod in observed.workers_of(driver.launch)
        if node_of(pod) not in observed.dead_nodes
    )


def _ending(observed: Observed, driver: DriverStatus) -> Ending | None:
    """None: it lives, or is not there yet, or nobody knows."""
    pod = observed.pod(driver.name)
    if pod is None:
        # a fresh read has missed it: the cache alone may be behind
        lost = driver.name in observed.absent and bool(driver.uid)
        return Ending("DriverDeleted", f"driver pod {driver.name} was deleted") if lost else None
    if driver.uid and pod["metadata"]["uid"] != driver.uid:
        return Ending(
            "DriverReplaced",
            f"driver pod {driver.name} is not the one that was made: somebody made another of its name",
        )
    if phase_of(pod) in ("Failed", "Succeeded"):
        return _ending_of(pod)
    # they go with its object
    if node_of(pod) in observed.dead_nodes and not _has_survivors(observed, driver):
        return Ending("NodeLost", f"node {node_of(pod)} of driver pod {driver.name} is not ready")
    return None


def with_refusals(observed: Observed, status: JobResourceStatus, plan: Plan) -> JobResourceStatus:
    """Drop the launches that the API server did not let happen: each is a failure."""
    for driver in list(status.drivers):
        refusal = observed.refusals.get(f"launch/{driver.launch}")
        if refusal is not None and refusal.harmless:
            status = _without(status, driver)
        elif refusal is not None and observed.pod(driver.name) is None:
            status = with_failure(
                _without(status, driver), plan.spec, observed.now, refusal.reason, refusal.message
            )
    return status


def _ending_of(pod: Object) -> Ending:
    """The ending of a driver's container, by its exit code and its termination message."""
    name, status = pod["metadata"]["name"], pod["status"]
    if not (containers := ended_containers(pod)):
        return Ending(
            str(status.get("reason") or "DriverFailed"),
            f"driver pod {name} failed: {status.get('message') or 'without a word'}",
        )
    ended = containers[0]
    code, message = int(ended.get("exitCode", -1)), str(ended.get("message") or "")
    said = said_at_end(message)
    text = str(said.get("message") or message or f"see `kubectl logs {name}`")
    if code == 0:
        return Ending("DriverStopped", f"driver pod {name} ended though nobody asked it to")
    if code == 1 or said.get("category") == "user":
        return Ending(str(said.get("reason") or "ApplicationFailed"), text, final=True)
    if ended.get("reason") == "OOMKilled":
        return Ending(
            "OutOfMemory",
            f"driver pod {name} was killed for its memory: raise spec.driver.resources.limits.memory",
        )
    return Ending(
        str(said.get("reason") or "DriverFailed"), f"driver pod {name} ended with code {code}: {text}"
    )


def _with(status: JobResourceStatus, driver: DriverStatus, **changes: Any) -> JobResourceStatus:
    return replace(
        status,
        drivers=[replace(each, **changes) if each.name == driver.name else each for each in status.drivers],
    )


def _without(status: JobResourceStatus, driver: DriverStatus) -> JobResourceStatus:
    return replace(status, drivers=[each for each in status.drivers if each.name != driver.name])
