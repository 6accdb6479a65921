"""What people do to a running cluster on purpose: a node is drained, a job's settings or image change, the
operator is upgraded by helm."""

import time
from collections.abc import Callable, Iterator

import pytest

from e2e.conftest import fresh
from e2e.support import faults
from e2e.support.installation import OTHER_IMAGE, Installation, helm
from e2e.support.job import is_running
from e2e.support.kube import Kube, Object
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
