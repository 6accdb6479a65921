"""A node is lost with everything on it, by a crash or by a cut, and comes back. Only where E2E_NODE_COMMAND
says how to do that."""

from collections.abc import Callable, Iterator

import pytest

from e2e.conftest import flowing, fresh
from e2e.support import faults
from e2e.support.installation import Installation
from e2e.support.kube import Kube
from e2e.support.stream import Stream
from e2e.test_faults import broken

pytestmark = pytest.mark.skipif(
    not faults.can_break_nodes(), reason="E2E_NODE_COMMAND does not say how to crash a node"
)
Report = Callable[..., None]


@pytest.fixture
def stream(installation: Installation, kube: Kube) -> Iterator[Stream]:
    """A job a test: after a lost node every worker that holds slots is on the other one."""
    with flowing(Stream(kube, installation, words=60, name=fresh())) as made:
        yield made


def victim(stream: Stream) -> str:
    """A node with a worker that holds slots, and neither ZooKeeper nor S3."""
    active = stream.active_workers()
    nodes = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in stream.workers()}
    elsewhere = [nodes[name] for name in active if nodes[name] != stream.installation.node]
    if not elsewhere:
        pytest.skip("every worker that holds slots is beside ZooKeeper: there is no other node to lose")
    return str(elsewhere[0])


@pytest.mark.parametrize(("verb", "back"), [("cut", "heal"), ("crash", "start")])
def test_a_lost_node_costs_no_item(stream: Stream, report: Report, verb: str, back: str) -> None:
    stream.wait_whole()
    node = victim(stream)
    faults.names_elsewhere(node)
    try:
        broken(stream, report, f"node {verb}", lambda: faults.break_node(verb, node), wait=25)
    finally:
        faults.break_node(back, node)
        faults.wait_node(node, ready=True)
