"""Savepoints and drills to their ends, as tools see them that wait for objects: kstatus, and Argo CD's health."""

from typing import Any

import pytest

from flamestream_operator.crd import definitions
from support.operator.drill_world import KEY as DRILL
from support.operator.drill_world import World as DrillWorld
from support.operator.gitops import argo, kstatus
from support.operator.operator_world import World
from support.operator.plays import played

Pair = tuple[str, str]
GOING, GOOD, BAD = ("InProgress", "Progressing"), ("Current", "Healthy"), ("Failed", "Degraded")


def seen(thing: dict[str, Any], definition: dict[str, Any]) -> Pair:
    """What both say of it, with the status that the API server gives what has none."""
    (version,) = definition["spec"]["versions"]
    first = version["schema"]["openAPIV3Schema"]["properties"]["status"]["default"]
    thing = {**thing, "status": thing.get("status") or first}
    return kstatus(thing), argo(thing)[0]


def drill_seen(world: DrillWorld) -> Pair:
    return seen(world.api.things["FlameStreamDrill", *DRILL], definitions.drill())


def snapshot_in(world: World) -> dict[str, Any]:
    return world.kubernetes.things["FlameStreamSnapshot", "default", "now"]


def snapshot_seen(world: World) -> Pair:
    return seen(snapshot_in(world), definitions.snapshot())


def test_a_drill_is_in_progress_until_it_has_passed() -> None:
    world = DrillWorld("worker")
    assert drill_seen(world) == GOING, "nobody has looked at it yet"
    world.over(until="struck_at")
    assert drill_seen(world) == GOING
    assert world.over().phase == "Passed"
    assert drill_seen(world) == GOOD


@pytest.mark.parametrize("wrong", ["NotClean", "Idle"])
def test_a_drill_that_has_not_passed_has_failed_and_says_why(wrong: str) -> None:
    world = DrillWorld("worker")
    if wrong == "Idle":
        world.hosting.flows = False
    else:
        world.audit = {**(world.audit or {}), "clean": False, "lost": 1}
    status = world.over()
    assert status.reason == wrong
    assert drill_seen(world) == BAD
    assert argo(world.api.things["FlameStreamDrill", *DRILL])[1] == status.message != ""


def test_a_savepoint_is_in_progress_until_it_is_there_and_after_an_edit_still_is() -> None:
    async def play(world: World) -> None:
        world.snapshot("now")
        assert snapshot_seen(world) == GOING, "nobody has looked at it yet"
        await world.calm(5)
        assert "no FlameStreamJob" in snapshot_in(world)["status"]["message"]
        assert snapshot_seen(world) == GOING
        world.apply()
        await world.calm()
        assert snapshot_seen(world) == GOOD
        key = ("FlameStreamSnapshot", "default", "now")
        spec = {**snapshot_in(world)["spec"], "deletionPolicy": "Keep"}
        generation = int(snapshot_in(world)["metadata"].get("generation", 0)) + 1
        world.kubernetes.merge(key, {"spec": spec, "metadata": {"generation": generation}})
        assert snapshot_seen(world) == GOING, "the edit was not looked at yet"
        await world.calm(5)
        assert snapshot_seen(world) == GOOD

    played(play)


def test_a_savepoint_that_cannot_be_taken_has_failed() -> None:
    async def play(world: World) -> None:
        world.apply()
        await world.calm()
        world.fleet.store_is_away = True
        world.snapshot("now")
        await world.calm(10)
        assert snapshot_in(world)["status"]["phase"] == "Failed"
        assert snapshot_seen(world) == BAD

    played(play)
