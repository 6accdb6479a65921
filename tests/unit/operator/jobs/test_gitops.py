"""A job through its life, as tools see it that wait for objects: kstatus, by which Flux does, and Argo CD's health."""

from typing import Any

import pytest

from flamestream_operator.crd import definitions
from support.operator.gitops import argo, kstatus
from support.operator.operator_world import KEY, World
from support.operator.plays import played, started


def seen(world: World) -> tuple[str, str]:
    """What both say now."""
    job = as_it_is(world)
    return kstatus(job), argo(job)[0]


def as_it_is(world: World) -> dict[str, Any]:
    """With the status that the API server gives a job without one."""
    (version,) = definitions.job()["spec"]["versions"]
    first = version["schema"]["openAPIV3Schema"]["properties"]["status"]["default"]
    job = world.kubernetes.things["FlameStreamJob", *KEY]
    return {**job, "status": job.get("status") or first}


READY, GOING, WAITS = ("Current", "Healthy"), ("InProgress", "Progressing"), ("Failed", "Degraded")


def test_a_job_that_starts_is_in_progress_until_it_runs_and_then_while_it_is_stopped() -> None:
    async def play(world: World) -> None:
        world.apply()
        found = {seen(world)}
        for _ in range(40):
            await world.calm(1)
            found.add(seen(world))
            if seen(world) == READY:
                break
        assert found == {GOING, READY}
        await world.calm(60)
        assert seen(world) == READY
        world.apply(suspend=True)
        assert seen(world) == GOING, "a spec that nobody has looked at yet"
        await world.calm(30)
        assert world.status.phase == "Suspended"
        assert seen(world) == ("Current", "Suspended")
        world.apply(suspend=False)
        await world.calm(1)
        assert seen(world) == GOING

    played(play)


def test_a_job_that_has_completed_is_as_it_should_be() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.fleet.records["default.job"].completed = True
        await world.calm(30)
        assert world.status.phase == "Completed"
        assert seen(world) == READY

    played(play)


def test_new_code_is_in_progress_until_it_has_taken_over_though_the_generation_is_the_same() -> None:
    async def play(world: World) -> None:
        await started(world)
        await world.calm(60)
        first = world.status.run.code
        world.edit_code("print(2)")
        found = []
        for _ in range(80):
            await world.calm(1)
            found.append((world.status.run.code == first, seen(world)))
        assert (True, GOING) in found, "while it is tried"
        assert found[-1] == (False, READY)

    played(play)


@pytest.mark.parametrize("edit", [{"workers": {"replicas": 3}}, {"pods": {"labels": {"team": "x"}}}], ids=str)
def test_a_change_of_pods_is_in_progress_until_they_are_replaced(edit: dict[str, Any]) -> None:
    async def play(world: World) -> None:
        await started(world)
        await world.calm(60)
        world.apply(**edit)
        await world.calm(2)
        assert seen(world) == GOING
        await world.calm(80)
        assert seen(world) == READY

    played(play)


def test_what_waits_for_somebody_has_failed_though_the_stream_goes_on() -> None:
    async def play(world: World) -> None:
        await started(world)
        await world.calm(60)
        world.fleet.broken_digest = world.edit_code("print('broken')")
        await world.calm(60)
        assert (world.status.phase, world.condition("Stalled").reason) == ("Running", "RolledBack")
        assert seen(world) == WAITS
        assert argo(as_it_is(world))[1] == world.condition("Stalled").message != ""
        world.edit_code("print(3)")
        await world.calm(80)
        assert seen(world) == READY

    played(play)


def test_a_job_that_never_loads_has_failed() -> None:
    async def play(world: World) -> None:
        world.fleet.broken_digest = world.edit_code("import nothing")
        world.apply()
        await world.calm()
        assert world.status.phase == "Failed"
        assert seen(world) == WAITS

    played(play)


def test_a_job_that_was_applied_before_its_application_is_in_progress() -> None:
    async def play(world: World) -> None:
        world.apply(application={"file": "j.py", "graph": "graph", "configMap": "other"})
        await world.calm()
        assert "there is no ConfigMap 'other'" in world.status.message
        assert seen(world) == GOING

    played(play)


def test_a_lost_worker_is_in_progress_until_its_slots_are_somewhere_else() -> None:
    async def play(world: World) -> None:
        await started(world)
        job = as_it_is(world)
        conditions = {"Recovering": "True", "Ready": "False", "Reconciling": "True", "Running": "False"}
        told = [
            {**each, "status": conditions.get(each["type"], each["status"])}
            for each in job["status"]["conditions"]
        ]
        job = {**job, "status": {**job["status"], "conditions": told}}
        assert (kstatus(job), argo(job)[0]) == GOING

    played(play)


def test_an_object_that_the_operator_has_not_seen_yet_waits_for_it() -> None:
    assert argo({"metadata": {"generation": 1}, "spec": {}}) == ("Progressing", "waits for the operator")


def test_a_spec_that_may_not_run_waits_for_somebody_and_the_stream_goes_on() -> None:
    async def play(world: World) -> None:
        await started(world)
        await world.calm(60)
        world.apply(image="elsewhere/flamestream:2")
        await world.calm(5)
        assert (world.status.phase, world.condition("Stalled").reason) == ("Running", "SpecRefused")
        assert seen(world) == WAITS

    played(play)
