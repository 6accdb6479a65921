"""What people do to a running cluster on purpose: a node is drained, a job's settings or image change, the
operator is upgraded by helm, and so is the release before: definitions, rights, one Lease that becomes two, and new
pods for every job."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from e2e.conftest import flowing, fresh
from e2e.support import faults
from e2e.support.installation import (
    CHART,
    IMAGE,
    OTHER_IMAGE,
    RELEASE,
    SYSTEM,
    Installation,
    helm,
    install,
    uninstall,
)
from e2e.support.job import is_running
from e2e.support.kube import Kube, Object, until
from e2e.support.predecessor import IMAGE as OLD_IMAGE
from e2e.support.predecessor import predecessor
from e2e.support.shards import in_each_shard, is_coordinated, led_by_two
from e2e.support.stream import Stream
from e2e.test_faults import broken

Report = Callable[..., None]
ROLL_WITHIN = 240
"""Seconds."""


@pytest.fixture(scope="module", params=[False, True], ids=["one application", "two applications"])
def planned(request: pytest.FixtureRequest, installation: Installation, kube: Kube) -> Iterator[Stream]:
    """Two workers and spares; where there is another node, the whole of the only application begins on it,
    beside nothing of ours."""
    other = faults.other_node(installation)
    made = Stream(
        kube,
        installation,
        words=60,
        standby=2 if request.param else 1,
        high_availability=request.param,
        name=fresh(),
    )
    try:
        made.prepare()
        faults.hold(installation.node, bool(other) and not request.param)
        made.apply()
        made.wait_ready(300)
        faults.hold(installation.node, False)
        made.send(20, 1_000_000)
        made.wait_flowing()
        yield made
    finally:
        for node in filter(None, (installation.node, other)):
            faults.hold(node, False)
        made.delete()


def generation_of(stream: Stream) -> set[str]:
    return {pod["metadata"]["uid"] for pod in stream.workers()}


def rolled(stream: Stream, before: set[str]) -> None:
    """Until none of the old workers is left, and the new ones are all there."""

    def is_new(there: dict[str, Object]) -> bool:
        now = {pod["metadata"]["uid"] for pod in there.values() if is_running(pod)}
        return not now & before and len(now) >= stream.replicas + stream.standby

    stream.kube.watch("Pod", is_new, ROLL_WITHIN, selector=stream.selector("worker"))
    drivers = 1 + stream.high_availability
    stream.kube.wait(
        "FlameStreamJob", stream.name, lambda job: len(job["status"]["drivers"]) == drivers, ROLL_WITHIN
    )


def what(stream: Stream, change: str) -> str:
    return f"{change} ({'two applications' if stream.high_availability else 'one application'})"


def test_a_drained_node_costs_no_item(planned: Stream, report: Report) -> None:
    node = faults.other_node(planned.installation)
    if not node:
        pytest.skip("there is no node that could be drained")
    faults.names_elsewhere(node)
    try:
        gap = broken(planned, report, what(planned, "kubectl drain"), lambda: faults.drain(node), wait=10)
        assert all(pod["spec"]["nodeName"] != node for pod in planned.workers())
    finally:
        faults.hold(node, False)
    assert gap < 30_000, "it never stood still for long"


def test_changed_settings_roll_through(planned: Stream, report: Report) -> None:
    before = generation_of(planned)

    def edit() -> None:
        pods = planned.manifest()["spec"]["pods"]
        planned.apply(pods={**pods, "annotations": {"changed": str(time.time())}})
        rolled(planned, before)

    broken(planned, report, what(planned, "changed settings of pods"), edit)


def test_changed_code_takes_over_between_two_results(planned: Stream, report: Report) -> None:
    before, run = generation_of(planned), planned.status()["run"]["number"]
    planned.wait_status("lastStable")

    def edit() -> None:
        planned.change_code(f"\n# changed at {time.time()}\n")
        rolled(planned, before)

    broken(planned, report, what(planned, "changed code"), edit)
    status = planned.status()
    assert (status["run"]["number"], status["recovery"]["kind"]) == (run, "tick"), status["recovery"]


@pytest.mark.skipif(not OTHER_IMAGE, reason="E2E_OTHER_IMAGE does not name one")
def test_another_image_rolls_through(planned: Stream, report: Report) -> None:
    """The same content under another name: what counts is that pods are made anew from it."""
    before = generation_of(planned)

    def edit() -> None:
        planned.apply(image=OTHER_IMAGE)
        rolled(planned, before)

    broken(planned, report, what(planned, "another image"), edit)


def test_an_operator_upgraded_by_helm_is_not_noticed(planned: Stream, report: Report) -> None:
    leader = planned.installation.leader()

    def upgrade() -> None:
        helm("--reuse-values", values={"operator": {"podAnnotations": {"upgraded": str(int(time.time()))}}})
        planned.installation.wait_leader(leader)

    broken(planned, report, what(planned, "operator upgraded by helm"), upgrade, wait=10)


# --- the release before -------------------------------------------------------------------------------------

of_old = pytest.mark.skipif(
    not OLD_IMAGE, reason="E2E_PREDECESSOR_IMAGE names no image of the release before"
)


@pytest.fixture(scope="module")
def before(namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The release before, and nothing of today's but what outlives a release."""
    uninstall()
    yield install(namespace, release=predecessor(tmp_path_factory.mktemp("predecessor")))
    install(namespace)  # for the modules behind this one, which look at one leader


@pytest.fixture(scope="module")
def jobs(before: Installation, kube: Kube) -> Iterator[list[Stream]]:
    """A job in each shard of two that there will be, with a consumer each."""
    first, second = in_each_shard(kube, before)
    with flowing(first, 240), flowing(second, 240):
        yield [first, second]


@of_old
def test_an_upgrade_of_the_chart_costs_running_jobs_no_item(
    jobs: list[Stream], before: Installation, kube: Kube, report: Report
) -> None:
    assert images_of(jobs) == {OLD_IMAGE}
    since, old = [each.state()["now"] for each in jobs], [generation_of(each) for each in jobs]
    install(kube.namespace, shards=2)
    until("two lead", lambda: led_by_two(before), 120)
    for each, workers in zip(jobs, old, strict=True):
        rolled(each, workers)
        each.wait_ready(ROLL_WITHIN)
        each.wait_flowing(120)
    assert images_of(jobs) == {IMAGE}
    for shard, (each, moment) in enumerate(zip(jobs, since, strict=True)):
        gap, verdict = each.ask(f"/gap?since={moment}"), each.ask("/audit")
        figures = {name: verdict[name] for name in ("clean", "items", "documents")}
        report(
            f"chart upgraded: job of shard {shard}", gap_ms=gap["gap_ms"], **figures, longest=gap["longest"]
        )
        assert verdict["clean"], verdict


@of_old
def test_definitions_and_rights_are_todays(jobs: list[Stream], kube: Kube) -> None:
    for file in (CHART / "files").glob("*.yaml"):
        wanted = yaml.safe_load(file.read_text())
        there = kube.get("CustomResourceDefinition", wanted["metadata"]["name"])
        assert there is not None and stated(there["spec"]) >= stated(wanted["spec"])
    role = Kube(SYSTEM).get("Role", f"{RELEASE}-operator-own")
    assert role is not None
    (leases,) = [rule for rule in role["rules"] if rule["resources"] == ["leases"]]
    assert "list" in leases["verbs"], "a leader looks how the jobs are divided"


@of_old
def test_who_leads_now_recovers_jobs_that_began_before(jobs: list[Stream]) -> None:
    for each in jobs:
        is_coordinated(each)


def stated(thing: Any, path: str = "") -> set[str]:
    """All that an object says, with where it stands; the API server leaves out what is empty."""
    if not isinstance(thing, dict | list):
        return {f"{path}={thing}"}
    parts = thing.items() if isinstance(thing, dict) else enumerate(thing)
    return set[str]().union(*(stated(each, f"{path}.{name}") for name, each in parts))


def images_of(jobs: list[Stream]) -> set[str]:
    """Of the pods of all workers."""
    return {pod["spec"]["containers"][0]["image"] for each in jobs for pod in each.workers()}
