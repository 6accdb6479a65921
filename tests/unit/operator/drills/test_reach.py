"""The reach of FlameStreamDrills: what goes too far is refused with its reason, whatever rights there are."""

import asyncio
import dataclasses
from typing import Any

import msgspec
import pytest

from flamestream_operator.api.drill import ACTIONS, REFUSALS, DrillSpec, DrillStatus
from flamestream_operator.crd import definitions
from flamestream_operator.drills.plan import cannot_audit
from flamestream_operator.site import Allowed, Site
from support.operator.drill_world import SELECTED, SITE, World, only

STRICT = dataclasses.replace(SITE, allowed=Allowed())
TOO_MUCH: dict[str, tuple[str, str, dict[str, Any], Site, str]] = {
    "the operator": ("operator", "kill", {}, STRICT, "'system' in the chart's allow.drillNamespaces"),
    "another namespace": ("zookeeper", "kill", {}, STRICT, "'system' in the chart's allow.drillNamespaces"),
    "another namespace's network": (
        "store",
        "cut",
        {},
        STRICT,
        "'system' in the chart's allow.drillNamespaces",
    ),
    "another namespace than those allowed": (
        "pod",
        "kill",
        {"targetNamespace": "other"},
        SITE,
        "'other' in the chart's",
    ),
    "whatever there is": (
        "pod",
        "kill",
        {"targetSelector": {}, "targetNamespace": "n"},
        STRICT,
        "targetSelector, which is empty",
    ),
    "whatever there is, where it may": (
        "pod",
        "kill",
        {"targetSelector": {}},
        SITE,
        "targetSelector, which is empty",
    ),
    "an hour of silence": ("network", "cut", {"pauseFor": "1h"}, SITE, "at most 600 s"),
}


@pytest.mark.parametrize(("target", "action", "fault", "site", "words"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_drill_that_reaches_too_far_is_refused_whatever_rights_the_operator_has(
    target: str, action: str, fault: dict[str, Any], site: Site, words: str
) -> None:
    world = World(target, action, fault=fault, site=site)
    status = world.over()
    assert (status.phase, status.reason) == ("Inconclusive", "Refused"), status.message
    assert words in status.message
    assert (world.api.commands, world.api.graces) == ([], [])


def test_in_its_own_namespace_a_drill_needs_nobodys_leave() -> None:
    world = World("pod", fault={"targetNamespace": None}, site=STRICT)
    world.api.list_all = only(world.api, "exec-a")
    assert world.over().phase == "Passed"


def test_a_strike_that_was_announced_when_more_was_allowed_is_not_made() -> None:
    world = World("zookeeper")
    world.over("started_at")
    world.over("next_at")
    operator, narrower = world.operator(), dataclasses.replace(SITE, allowed=Allowed())
    spec = msgspec.convert({"job": "j", "fault": {"target": "zookeeper", **SELECTED}}, DrillSpec)
    operator._strikes._site = narrower
    blow = asyncio.run(
        operator._strikes.strike(
            "n", spec, DrillStatus(victim="zk-0", lives=["uid-9"], struck_at="2026-01-01T00:00:00Z")
        )
    )
    assert "allow.drillNamespaces" in blow.refused
    assert world.api.graces == []


def test_one_drill_of_a_job_at_a_time() -> None:
    """Two would each take the other's fault for its own."""
    world = World("worker")
    second = {
        **world.drill,
        "metadata": {
            **world.drill["metadata"],
            "name": "a-second",
            "creationTimestamp": "2027-01-15T08:00:01Z",
        },
    }
    world.api.make({key: value for key, value in second.items() if key != "status"})
    world.cluster.drills.replace_all(list(world.api.of("FlameStreamDrill")), None)
    operator = world.operator()

    def told() -> DrillStatus:
        return msgspec.convert(
            world.api.things[("FlameStreamDrill", "n", "a-second")].get("status") or {}, DrillStatus
        )

    assert asyncio.run(operator.reconcile(("n", "a-second"))) == 5.0
    assert (told().phase, told().message) == ("Pending", "waits for drill 'd': one drill of a job at a time")
    assert world.over().phase == "Passed"
    world.cluster.drills.replace_all(list(world.api.of("FlameStreamDrill")), None)
    asyncio.run(operator.reconcile(("n", "a-second")))
    assert (told().phase, told().message) == ("Running", "")


def test_a_drill_that_waited_for_somebody_too_long_strikes_nobody() -> None:
    world = World("worker")
    world.now += 3600
    assert (world.over().reason, world.api.commands) == ("Expired", [])


@pytest.mark.parametrize("kind", ["socket", "http", "callback", "discard", "connector"])
def test_output_that_cannot_be_read_back_is_known_before_anything_is_broken(kind: str) -> None:
    assert kind in cannot_audit({"sinks": {"out": {kind: {}}}})
    world = World("worker")
    world.api.merge(("FlameStreamJob", "n", "j"), {"spec": {"sinks": {"out": {"files": None, kind: {}}}}})
    assert (world.over().reason, world.api.commands) == ("NotAudited", [])


def test_the_definition_refuses_what_is_not_offered_and_says_what_to_choose() -> None:
    (version,) = definitions.drill()["spec"]["versions"]
    fault = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["fault"]
    rules = {rule["rule"]: rule["message"] for rule in fault["x-kubernetes-validations"]}
    everything = set(fault["properties"]["action"]["enum"])
    for target in fault["properties"]["target"]["enum"]:
        offered = set(ACTIONS[target])
        assert (target in REFUSALS) == (offered != everything), target
        if target in REFUSALS:
            assert rules[f"self.target != '{target}' || self.action in {sorted(offered)}"] == REFUSALS[target]
