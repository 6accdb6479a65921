"""What can be seen of a manifest: what processes are told on one machine, what pods are made of, and how its
operator acts.

Each view is a function of the whole manifest as plain values. A view never holds the manifest itself, nor a
fingerprint of it, since those differ with every field.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from flamestream.audit.canary_run import most_of
from flamestream.cli.validate import summary_of
from flamestream.job import settings
from flamestream.job.application import folders_of
from flamestream.job.validation import CheckedJob, checked
from flamestream.local.workers import SparkWorkers
from flamestream.node.worker_config import worker_config
from flamestream.spark.streaming import session
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.jobs.decide import desired_of, status_of
from flamestream_operator.jobs.effects import settings_of as hosted_settings
from flamestream_operator.jobs.failures import gives_up, with_failure, with_old_failures_forgotten
from flamestream_operator.jobs.launching import launch_of
from flamestream_operator.jobs.observed import Observed
from flamestream_operator.jobs.spec import planned
from flamestream_operator.objects import pods
from flamestream_operator.objects.network import build_network_policy
from flamestream_operator.objects.rights import build_role_binding
from flamestream_operator.objects.small import build_budget
from flamestream_operator.site import Allowed, Site
from support.operator.operator_world import World

SITE = Site(
    coordinator="operator:7700", zookeeper=ZooKeeperAccess("zk:2181", "operator:secret"),
    image="flamestream:1", pull_policy="Never",
    allowed=Allowed(images=("other:1",), service_accounts=("mine",), priority_classes=("high",)),
)  # fmt: skip
Document = dict[str, Any]
View = Callable[[Document], Any]


class OneMachine:
    """Views of `flamestream run`. `folder` holds the application and its input."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch

    def job(self, document: Document) -> CheckedJob:
        """As every command reads it. Raises what they raise."""
        file = self.folder / "job.yaml"
        file.write_text(yaml.safe_dump(document))
        return checked(file)

    def workers(self, document: Document) -> Any:
        """What a worker is told."""
        return msgspec.to_builtins(
            worker_config(self.job(document), coordinator="c:1", token="t", zookeeper=ZooKeeperAccess("zk:1"))
        )

    def settings(self, document: Document) -> Any:
        """What a worker's core is told."""
        return settings.worker_settings(self.job(document))

    def coordinator(self, document: Document) -> Any:
        """What the coordinator is told."""
        return settings.local_coordinator(self.job(document))

    def session(self, document: Document) -> Any:
        """Every setting of the Spark session that workers run in."""
        made: list[Any] = []

        class Driver:
            def __init__(self, settings: Any) -> None:
                made.append(session.configuration(settings))

        self._monkeypatch.setattr(session, "SparkDriver", Driver)
        job = self.job(document)
        count = job.job.spec.workers.most + job.job.spec.workers.standby
        SparkWorkers(_Reactor(), job.job.spec.spark, count, self.folder, _path_of(job), lambda _: None)  # type: ignore[arg-type]
        return made

    def summary(self, document: Document) -> Any:
        """What `flamestream validate --json` says."""
        return summary_of(self.job(document))

    def canary(self, document: Document) -> Any:
        """How many records an upgrade tries."""
        return most_of(self.job(document).job.spec)

    def name(self, document: Document) -> Any:
        return self.job(document).job.name


def _path_of(job: CheckedJob) -> tuple[Path, ...]:
    return job.application.parent, *folders_of(job.py_files)


class _Reactor:
    def background(self, *_: object) -> None:
        """No Spark is started."""


# --- a cluster ----------------------------------------------------------------------------------------------


def _object(document: Document) -> Document:
    return {**document, "metadata": {**document["metadata"], "namespace": "n", "uid": "u"}}


def launch(document: Document) -> pods.Launch:
    """The first start of its first application, as the operator makes it. Raises ManifestError where it
    cannot run."""
    job = _object(document)
    plan = planned(job, job["spec"], SITE, "digest")
    seen = Observed(now=0, job=job, site=SITE, app_digest="digest")
    status = status_of(job)
    tasks = plan.applications["a"]
    return launch_of(seen, status, desired_of(seen, status), plan, application="a", number=1, tasks=tasks)


def applications(document: Document) -> Any:
    job = _object(document)
    return planned(job, job["spec"], SITE, "digest").applications


def driver(document: Document) -> Any:
    """The driver's pod, its rights and its configuration."""
    made = launch(document)
    return (
        pods.build_driver_pod(made),
        pods.build_driver_config(made),
        build_role_binding(made.job, made.account),
    )


def executor(document: Document) -> Any:
    """What Spark makes a worker's pod from."""
    made = launch(document)
    return pods.build_executor_template(made), pods.build_driver_config(made)


def trial(document: Document) -> Any:
    """A worker's pod as it is tried before there is any."""
    return pods.build_trial_pod(launch(document))


def hosted(document: Document) -> Any:
    """What its coordinator in the operator is told."""
    job = _object(document)
    return hosted_settings(Observed(now=0, job=job, site=SITE), planned(job, job["spec"], SITE, "digest"))


def reached(document: Document) -> Any:
    """Who may connect to its pods."""
    job = _object(document)
    return build_network_policy(job, planned(job, job["spec"], SITE, "digest").spec)


def budget(document: Document) -> Any:
    return build_budget(_object(document), document["spec"]["workers"]["replicas"])


# --- an operator's life -------------------------------------------------------------------------------------


def _lived(play: Callable[[World], Awaitable[None]]) -> Any:
    """What there is at the end."""
    world = World()
    asyncio.run(play(world))  # type: ignore[arg-type]  # a coroutine
    there = ("FlameStreamJob", "default", "job") in world.kubernetes.things
    made = sorted(
        name for kind, name, _ in world.kubernetes.created if kind in ("Pod", "FlameStreamSnapshot")
    )
    left = sorted(thing["metadata"]["name"] for thing in world.kubernetes.of("FlameStreamSnapshot"))
    record = world.fleet.records.get("default.job")
    return (
        there and world.status.phase,
        made,
        left,
        record is not None and (record.attempt > 0, record.epoch > 1000),
        there and world.status.run.number,
    )


def _applied(world: World, document: Document) -> None:
    world.apply(**document["spec"])


def runs(document: Document) -> Any:
    """Two minutes of a stream without any trouble."""

    async def play(world: World) -> None:
        _applied(world, document)
        await world.calm(120)

    return _lived(play)


def completes(document: Document) -> Any:
    """Its input ends; then five minutes."""

    async def play(world: World) -> None:
        _applied(world, document)
        await world.calm()
        world.fleet.records["default.job"].completed = True
        await world.calm(300)

    return _lived(play)


def loses_drivers(document: Document) -> Any:
    """Three drivers, one after the other."""

    async def play(world: World) -> None:
        _applied(world, document)
        await world.calm()
        for _ in range(3):
            world.kill("driver")
            await world.calm(30)

    return _lived(play)


def cannot_load(document: Document) -> Any:
    """Its application raises when it is imported."""

    async def play(world: World) -> None:
        world.fleet.broken_digest = world.edit_code("import nothing")
        _applied(world, document)
        await world.calm(60)

    return _lived(play)


def is_changed(document: Document) -> Any:
    """Its application is edited."""

    async def play(world: World) -> None:
        _applied(world, document)
        await world.calm()
        world.fleet.records["default.job"].epoch = 5000
        world.edit_code("print(2)")
        await world.calm(80)

    return _lived(play)


def is_restored(document: Document) -> Any:
    """Beside a savepoint named `before`."""

    async def play(world: World) -> None:
        taken = {
            "phase": "Completed",
            "epoch": 5000,
            "cut": "50000",
            "store": "s3://bucket/old",
            "index": "m",
            "indexHash": "0",
        }
        world.snapshot("before", of="other", job="default.other", name="before", graph="g", **taken)
        _applied(world, document)
        await world.calm(60)

    return _lived(play)


def is_taken_over(document: Document) -> Any:
    """By a job called green, if it may."""

    async def play(world: World) -> None:
        _applied(world, document)
        await world.calm()
        world.beside("green", takeOver={"job": "job"})
        await world.calm()
        world.kubernetes.remove(("FlameStreamJob", "default", "green"))
        world.keys.pop()
        await world.calm(5)

    return _lived(play)


def takes_over(document: Document) -> Any:
    """Beside a job called before, which gives leave."""

    async def play(world: World) -> None:
        _applied(world, document)
        world.beside("before", handOver={"to": "job"}, takeOver=None)
        await world.calm(120)
        world.keys.pop()

    return _lived(play)


def is_deleted(document: Document) -> Any:
    """By its user."""

    async def play(world: World) -> None:
        _applied(world, document)
        await world.calm()
        world.delete()
        await world.calm()

    return _lived(play)


def is_patient(document: Document) -> Any:
    """When it would try again after so many failures in a row, when it gives up, when old ones are
    forgotten."""
    spec = _spec(document)
    status = status_of({})
    status = msgspec.structs.replace(status, run=msgspec.structs.replace(status.run, stage="Running"))
    seen = []
    for count in range(1, 13):
        status = with_failure(status, spec, 1000.0 * count, "reason", "message")
        seen.append((status.failures.next_try, gives_up(status, spec)))
    return seen, [
        with_old_failures_forgotten(status, spec, 12_000.0 + later).failures.count
        for later in (100, 500, 700, 4000)
    ]


def _spec(document: Document) -> Any:
    return planned(_object(document), document["spec"], SITE, "digest").spec


CLUSTER: dict[str, View] = {
    view.__name__: view
    for view in (
        applications, driver, executor, trial, hosted, reached, budget, runs, completes, loses_drivers,
        cannot_load, is_changed, is_restored, is_taken_over, takes_over, is_deleted, is_patient,
    )
}  # fmt: skip
"""Views of the operator and of what it makes."""
