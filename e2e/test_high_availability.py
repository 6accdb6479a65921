"""A job as two Spark applications: losing a driver, or the whole node of one, is losing some workers; the
others go on."""

import time
from collections.abc import Callable, Iterator

import pytest

from e2e.conftest import flowing, fresh
from e2e.support import faults
from e2e.support.installation import Installation
from e2e.support.kube import Kube
from e2e.support.stream import Stream
from e2e.test_faults import broken

Report = Callable[..., None]


@pytest.fixture
def pair(installation: Installation, kube: Kube) -> Iterator[Stream]:
    """Two workers and two standbys in two applications. A job a test: after a lost node both applications are
    on the other one."""
    with flowing(
        Stream(kube, installation, words=60, standby=2, high_availability=True, name=fresh()),
        ready_within=300,
    ) as made:
        yield made


def test_a_killed_driver_takes_its_own_workers_only(pair: Stream, report: Report) -> None:
    broken(pair, report, "driver pod deleted by force (two applications)", lambda: faults.delete_driver(pair))


@pytest.mark.skipif(not faults.can_break_nodes(), reason="E2E_NODE_COMMAND does not say how to crash a node")
@pytest.mark.parametrize("leader", ["beside", "lost with it"])
@pytest.mark.parametrize(("verb", "back"), [("cut", "heal"), ("crash", "start")])
def test_a_lost_node_takes_one_application_only(
    pair: Stream, report: Report, verb: str, back: str, leader: str
) -> None:
    pair.wait_ready(300)
    pair.wait_whole(300)
    elsewhere = [
        pod["spec"]["nodeName"] for pod in pair.workers() if pod["spec"]["nodeName"] != pair.installation.node
    ]
    if not elsewhere:
        pytest.skip("every worker is beside ZooKeeper: there is no other node to lose")
    node = elsewhere[0]
    faults.names_elsewhere(node)
    faults.lead_from(pair.installation, node if leader == "lost with it" else pair.installation.node)

    def lose() -> None:
        faults.break_node(verb, node)
        faults.wait_node(node, ready=False)
        began = time.monotonic()
        pair.wait_workers(4, 180, beside=node)
        report(
            f"capacity back after node {verb}, the operator's leader {leader}",
            not_ready_plus_s=round(time.monotonic() - began, 1),
        )

    try:
        broken(pair, report, f"node {verb} (two applications), the operator's leader {leader}", lose, wait=2)
    finally:
        faults.break_node(back, node)
        faults.wait_node(node, ready=True)
