"""Handovers: pods of a node that is drained, silent or dead, and pods that are replaced, have successors
before they go."""

import pytest

from flamestream_operator.objects.meta import CONNECTED
from support.operator.operator_world import Crash, OneOperator, World
from support.operator.plays import drained_node, played, started


def test_nobody_hands_over_to_workers_that_would_have_to_read_the_state_first() -> None:
    async def play(world: World) -> None:
        await started(world)
        old = set(world.pods("worker"))
        world.fleet.cold = True
        world.apply(pods={"annotations": {"changed": "1"}})
        await world.calm(10)
        assert len(world.pods("worker")) == 4, "the new ones are connected"
        ips = {world.kubernetes.things["Pod", "default", name]["status"]["podIP"] for name in old}
        assert set(world.operators[0].hosting.jobs["default.job"].layout) == ips
        world.fleet.cold = False
        await world.calm(10)
        assert not old & set(world.pods("worker"))

    played(play)


def test_a_new_leader_keeps_a_driver_that_retires_until_it_has_heard_of_its_workers() -> None:
    async def play(world: World) -> None:
        def crash(verb: str, kind: str) -> None:
            world._wrote(verb, kind)
            if any(driver.state == "Retiring" for driver in world.status.drivers):
                raise Crash

        await started(world)
        world.apply(pods={"annotations": {"changed": "1"}})
        world.kubernetes.after = crash
        with pytest.raises(Crash):
            await world.calm()
        world.kubernetes.after = world._wrote
        world.operators = [OneOperator(world, "two", len(world.kubernetes.log))]
        await world.operators[0].reconcile()
        assert "job-driver-a-1" in world.pods("driver"), "its workers have all slots"
        await world.calm()
        assert world.pods("driver") == ["job-driver-a-2"]

    played(play)


@pytest.mark.parametrize(("elsewhere", "retired"), [(2, 2), (1, 1)], ids=["enough others", "too few others"])
def test_workers_of_a_node_that_is_drained_hand_over_together_if_there_are_enough_others(
    elsewhere: int, retired: int
) -> None:
    async def play(world: World) -> None:
        await started(world, workers={"replicas": 2, "standby": elsewhere})
        pods = drained_node(world)
        operator = world.operators[0]
        operator.relist()
        await operator.reconcile()
        ips = [world.kubernetes.things[pod]["status"]["podIP"] for pod in pods]
        assert operator.hosting.jobs["default.job"].shunned == set(ips[:retired])

    played(play)


def test_a_driver_that_is_drained_has_its_successor_before_it_goes_and_it_is_no_failure() -> None:
    async def play(world: World) -> None:
        await started(world)
        pod = ("Pod", "default", "job-driver-a-1")
        going = {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 245,
            "finalizers": ["kubelet"],
        }
        world.kubernetes.merge(pod, {"metadata": going})
        await world.calm(1)
        assert world.kubernetes.things[pod]["metadata"]["deletionGracePeriodSeconds"] == 245, (
            "its workers carry the stream"
        )
        await world.calm(10)
        assert "job-driver-a-2" in world.pods("driver")
        assert world.kubernetes.things[pod]["metadata"]["deletionGracePeriodSeconds"] == 1, (
            "nobody needs it any more"
        )
        world.kubernetes.merge(pod, {"metadata": {"finalizers": []}})
        await world.calm()
        assert (world.status.phase, world.pods("driver"), world.status.failures.count) == (
            "Running",
            ["job-driver-a-2"],
            0,
        )

    played(play)


def test_pods_of_a_dead_node_are_failed_and_removed_after_fencing() -> None:
    async def play(world: World) -> None:
        await started(world)
        victim = world.pods("worker")[0]
        world.kubernetes.merge(("Pod", "default", victim), {"spec": {"nodeName": "dead"}})
        uid = world.kubernetes.things[("Pod", "default", victim)]["metadata"]["uid"]
        node = {
            "metadata": {"name": "dead", "uid": "n"},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
        }
        world.operators[0].cluster.nodes.put(node)
        await world.calm()
        there = world.kubernetes.things.get(("Pod", "default", victim))
        assert there is None or there["metadata"]["uid"] != uid
        assert world.status.phase == "Running"

    played(play)


async def with_a_silent_node(world: World) -> None:
    """Application b is on a node of its own, of which nothing is heard any more."""
    await started(world, highAvailability=True, workers={"replicas": 2, "standby": 2})
    connected = {"status": {"conditions": [{"type": CONNECTED, "status": "True"}]}}
    for role in ("driver", "worker"):
        for name in world.pods(role):
            node = {"spec": {"nodeName": "far" if "-b-" in name else "near"}}
            world.kubernetes.merge(("Pod", "default", name), node | (connected if role == "worker" else {}))
    await world.calm(5)
    assert world.pods("driver") == ["job-driver-a-1", "job-driver-b-2"]
    world.fleet.cut.add("far")


def test_the_driver_of_a_node_that_is_not_heard_of_gets_a_successor_elsewhere_before_kubernetes_notices() -> (
    None
):
    async def play(world: World) -> None:
        await with_a_silent_node(world)
        world.fleet.cold = True
        await world.calm(1)
        assert len(world.pods("driver")) == 2, "Spark starts a worker again in a second"
        await world.calm(6)
        assert world.pods("driver") == ["job-driver-a-1", "job-driver-b-2", "job-driver-b-3"]
        rules = world.kubernetes.things["Pod", "default", "job-driver-b-3"]["spec"]["affinity"][
            "nodeAffinity"
        ]
        fields = rules["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0][
            "matchFields"
        ]
        assert fields == [{"key": "metadata.name", "operator": "NotIn", "values": ["far"]}]
        world.fleet.cold = False
        await world.calm(20)
        assert world.pods("driver") == ["job-driver-a-1", "job-driver-b-3"]
        assert world.status.failures.count == 0

    played(play)


def test_a_node_that_is_heard_of_again_keeps_its_driver() -> None:
    async def play(world: World) -> None:
        await with_a_silent_node(world)
        world.fleet.cold = True  # the successor is not ready to take over yet
        await world.calm(7)
        assert "job-driver-b-3" in world.pods("driver")
        world.fleet.cut.clear()
        await world.calm(10)
        assert world.pods("driver") == ["job-driver-a-1", "job-driver-b-2"]

    played(play)


def test_survivors_of_a_lost_drivers_node_carry_the_stream_until_others_are_there() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.kubernetes.merge(("Pod", "default", "job-driver-a-1"), {"spec": {"nodeName": "dead"}})
        node = {
            "metadata": {"name": "dead", "uid": "n"},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
        }
        world.operators[0].cluster.nodes.put(node)
        for _ in range(60):
            await world.calm(1)
            status = world.operators[0].hosting.status("default.job")
            assert status is not None
            assert status.phase == "running" or world.pods("driver") == ["job-driver-a-2"]
            old = [name for name in world.pods("worker") if name.startswith("job-a-1-")]
            new = [name for name in world.pods("worker") if name.startswith("job-a-2-")]
            assert len(old) == 2 or len(new) == 2, "nobody carries the stream"
        assert (world.pods("driver"), world.status.phase) == (["job-driver-a-2"], "Running")

    played(play)
