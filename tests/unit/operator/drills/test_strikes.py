"""Strikes of FlameStreamDrills, over a fake API server: each fault that is offered is made and seen, and one
that did not take place proves nothing."""

from typing import Any

import pytest

from flamestream_operator.api.drill import ACTIONS
from flamestream_operator.kube.api import ApiProblem
from support.operator.drill_world import World, damaged, only

OFFERED = [(target, action) for target, actions in ACTIONS.items() for action in actions]


@pytest.mark.parametrize(("target", "action"), OFFERED, ids=lambda word: word)
def test_every_fault_that_is_offered_is_made_seen_and_audited(target: str, action: str) -> None:
    world = World(target, action, fault={"pauseFor": "6s"})
    if target == "operator":  # it goes with its pod; the other one finds the drill
        world.over("struck_at")
        world.leader = ("system", "operator-2")
    status = world.over()
    assert (status.phase, status.reason, status.done) == ("Passed", "Clean", 1), status.message
    assert (
        status.faults[0].seen == {"kill": "gone", "delete": "gone", "pause": "paused", "cut": "cut"}[action]
    )
    processes = action in ("pause", "cut") or target in ("worker", "daemon")
    assert bool(world.api.commands) == processes and bool(world.api.graces) != processes
    assert {grace for _, grace in world.api.graces} <= {0 if action == "kill" else None}


def test_the_process_in_the_pod_is_told_what_to_do() -> None:
    told = {}
    for target, action in [
        ("worker", "kill"),
        ("daemon", "kill"),
        ("worker", "pause"),
        ("executor", "pause"),
        ("zookeeper", "pause"),
    ]:
        world = World(target, action, fault={"pauseFor": "6s"})
        world.over()
        told[target, action] = world.api.commands[0][1]
    assert told == {
        ("worker", "kill"): ["worker", "kill"],
        ("daemon", "kill"): ["daemon", "kill"],
        ("worker", "pause"): ["worker", "pause", "6.0"],
        ("executor", "pause"): ["pod", "pause", "6.0"],
        ("zookeeper", "pause"): ["pod", "pause", "6.0"],
    }


@pytest.mark.parametrize("target", ["node", "application"])
@pytest.mark.parametrize("action", ["kill", "pause", "cut"])
def test_a_node_and_an_application_are_all_its_pods(target: str, action: str) -> None:
    world = World(target, action)
    world.over("faults")
    victim = world.status().faults[0].victim
    letter = {"node1": "a", "node2": "b"}.get(victim, victim)
    struck = {name for name, _ in (*world.api.commands, *world.api.graces)}
    assert struck == {f"driver-{letter}", f"exec-{letter}"}


def test_a_cut_is_made_by_the_operators_image_whatever_the_pods_is() -> None:
    """It has NET_ADMIN, which the pod has not: a job's author chooses the job's image."""
    images = []
    for target in ("store", "network"):
        world = World(target, "cut")
        world.over()
        images.append(world.api.commands[0][1][0])
    assert images == ["flamestream:1", "flamestream:1"]


FORBIDDEN = ApiProblem(403, "Forbidden", "pods is forbidden")
LOST = ApiProblem(0, "ReadTimeout", "no answer")
NOT_STRUCK: dict[str, tuple[str, str, dict[str, Any], str, str]] = {
    "an api server that refuses": ("executor", "kill", {"problem": FORBIDDEN}, "Refused", "forbidden"),
    "a cut that is refused says which right": ("network", "cut", {"problem": FORBIDDEN}, "Refused", "operator.drills"),
    "an exec that is refused": ("worker", "kill", {"problem": FORBIDDEN}, "Refused", "forbidden"),
    "an answer that was lost": ("worker", "kill", {"problem": LOST}, "NotStruck", "nobody saw"),
    "a pod that stays": ("executor", "kill", {"heeds_deletions": False}, "NotStruck", "nobody saw"),
    "a pod elsewhere that stays": ("zookeeper", "kill", {"heeds_deletions": False}, "NotStruck", "nobody saw"),
    "a deletion that nobody heeds": ("driver", "delete", {"heeds_deletions": False}, "NotStruck", "nobody saw"),
    "no such process": ("worker", "kill", {"answer": '{"problem": "there is no worker"}'}, "Refused", "there is no worker"),
    "a signal without effect": ("worker", "pause", {"answer": '{"problem": "nothing was seen"}'}, "Refused", "nothing was seen"),
    "an image without python": ("zookeeper", "pause", {"answer": "sh: python3: not found"}, "Refused", "not found"),
    "a kernel that refuses a cut": (
        "network", "cut", {"cutter": {"terminated": {"exitCode": 1, "message": "Operation not permitted"}}}, "Refused", "not permitted",
    ),
    "a cutter that cannot start": (
        "store", "cut", {"cutter": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}, "Refused", "no such image",
    ),
    "a cutter that has said nothing": ("network", "cut", {"said": "starting"}, "NotStruck", "nobody saw"),
    "a cutter that was removed before": (
        "network", "cut", {"cutter": {"terminated": {"exitCode": 137}}, "said": ""}, "NotStruck", "nobody saw",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("target", "action", "wrong", "reason", "words"), NOT_STRUCK.values(), ids=NOT_STRUCK
)
def test_a_fault_that_did_not_take_place_proves_nothing(
    target: str, action: str, wrong: dict[str, Any], reason: str, words: str
) -> None:  # fmt: skip
    status = damaged(target, action, **wrong)
    assert (status.phase, status.reason, status.done) == ("Inconclusive", reason, 0), status.message
    assert words in status.message


def test_a_cut_whose_pod_was_removed_after_the_kernel_had_cut_took_place() -> None:
    assert damaged("network", "cut", cutter={"terminated": {"exitCode": 137}}).phase == "Passed"


def test_a_pod_that_nobody_replaces_is_a_job_that_is_not_whole() -> None:
    status = damaged("zookeeper", comes_back=False)
    assert (status.phase, status.reason) == ("Failed", "NotWhole")


def test_another_pod_of_the_selector_does_not_stand_for_the_one_that_was_struck() -> None:
    world = World("zookeeper")
    world._pod("zk-1", "zookeeper", "", "10.0.2.3", "node2", namespace="system")
    world.api.heeds_deletions = False
    world.api.list_all = only(world.api, "zk-0", "zk-1")  # labels are not this fake's
    assert world.over().reason == "NotStruck"


def test_a_drill_of_the_operator_is_not_over_while_it_leads() -> None:
    assert damaged("operator").reason == "NotWhole"


@pytest.mark.parametrize(("target", "struck"), [("executor", "exec-b"), ("driver", "driver-b")])
def test_of_batches_who_computes_and_the_driver_that_is_the_worker_are_struck(
    target: str, struck: str
) -> None:
    """Another attempt follows the driver's death alone, and executors count where their driver has the slots."""
    world = World(target, fault={"action": "kill"})
    world.api.merge(("FlameStreamJob", "n", "j"), {"spec": {"guarantee": "micro-batch"}})
    world.hosting.ips = ["10.0.1.2"]
    attempts = world.hosting.attempt
    if target == "executor":
        look = world.look

        def without_attempt(operator: Any) -> None:
            look(operator)
            world.hosting.attempt = attempts

        world.look = without_attempt  # type: ignore[method-assign]  # Spark computes again what it was at
    status = world.over()
    assert (status.phase, status.reason, status.done) == ("Passed", "Clean", 1), status.message
    assert [fault.victim for fault in status.faults] == [struck]
