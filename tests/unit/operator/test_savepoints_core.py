"""Savepoints as objects: taken once, restored from into a job without state, waited for while they are not
there yet."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

import pytest

from flamestream_operator.coordination.hosting import Savepoint
from flamestream_operator.jobs import stream_effects as job_streams
from support.operator.fake_fleet import Record
from support.operator.operator_world import World

TAKEN: dict[str, Any] = {
    "phase": "Completed", "job": "default.other", "name": "before-1", "epoch": 42, "cut": "420",
    "store": "s3://bucket/j", "index": "savepoints/default.other/before-1/index.json",
    "indexHash": "0", "graph": "g",
}  # fmt: skip


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is the world's: nobody waits by the clock."""
    monkeypatch.setattr(job_streams, "OPERATE_AGAIN", 0.0)


def played(play: Callable[[World], Awaitable[None]]) -> World:
    world = World()
    asyncio.run(play(world))  # type: ignore[arg-type]  # a coroutine
    return world


def test_a_new_job_begins_where_the_savepoint_was_taken() -> None:
    async def play(world: World) -> None:
        world.snapshot("before", "other", **TAKEN)
        world.apply(restoreFrom={"snapshot": "before"})
        for _ in range(20):
            await world.calm(1)
            if "default.job" in world.fleet.records:
                break
            assert world.pods("driver") == [], "no driver before the state is there"
        assert world.fleet.records["default.job"].epoch == 42
        await world.calm()
        assert world.status.phase == "Running"
        assert world.status.epoch.number > 42

    played(play)


def test_a_job_that_has_state_keeps_it() -> None:
    async def play(world: World) -> None:
        world.fleet.records["default.job"] = Record(attempt=3, epoch=7)
        world.snapshot("before", "other", **TAKEN)
        world.apply(restoreFrom={"snapshot": "before"})
        await world.calm(5)
        assert world.fleet.records["default.job"].epoch < 42
        await world.calm()
        assert world.status.phase == "Running"

    played(play)


def test_a_job_waits_for_its_snapshot_and_says_so() -> None:
    async def play(world: World) -> None:
        world.apply(restoreFrom={"snapshot": "late"})
        await world.calm()
        assert (world.status.phase, world.pods("driver")) == ("Starting", [])
        degraded = world.condition("Degraded")
        assert (degraded.status, degraded.reason) == ("True", "RestoringDelayed")
        assert "no FlameStreamSnapshot 'late'" in degraded.message
        assert world.status.failures.count == 0
        world.snapshot("late", "other", **TAKEN)
        await world.calm()
        assert (world.status.phase, world.condition("Degraded").status) == ("Running", "False")
        assert world.status.epoch.number > 42

    played(play)


def test_a_job_that_waits_for_its_snapshot_writes_nothing_meanwhile() -> None:
    async def play(world: World) -> None:
        world.apply(restoreFrom={"snapshot": "late"})
        await world.calm()
        before = world.job["metadata"]["resourceVersion"]
        await world.calm(30)
        assert world.job["metadata"]["resourceVersion"] == before

    played(play)


def test_a_snapshot_that_failed_ends_the_job_with_its_reason() -> None:
    async def play(world: World) -> None:
        world.snapshot("broken", "other", phase="Failed", message="segment x is damaged")
        world.apply(restoreFrom={"snapshot": "broken"})
        await world.calm()
        assert (world.status.phase, world.pods("driver")) == ("Failed", [])
        failed = world.condition("Failed")
        assert failed.reason == "RestoringFailed"
        assert "segment x is damaged" in failed.message

    played(play)


def test_a_store_that_is_away_delays_a_restore() -> None:
    async def play(world: World) -> None:
        world.fleet.store_is_away = True
        world.snapshot("before", "other", **TAKEN)
        world.apply(restoreFrom={"snapshot": "before"})
        await world.calm()
        assert world.condition("Degraded").reason == "RestoringDelayed"
        world.fleet.store_is_away = False
        await world.calm()
        assert world.status.epoch.number > 42

    played(play)


def test_a_snapshot_of_a_running_job_is_taken_once_and_says_where_it_is() -> None:
    async def play(world: World) -> None:
        world.apply()
        await world.calm()
        world.snapshot("now")
        await world.calm(5)
        first = world.kubernetes.things[("FlameStreamSnapshot", "default", "now")]["status"]
        assert (first["phase"], first["size"]) == ("Completed", 100)
        assert first["epoch"] > 0
        await world.calm(20)
        assert world.kubernetes.things[("FlameStreamSnapshot", "default", "now")]["status"] == first

    played(play)


def test_what_a_savepoint_that_failed_has_left_in_the_store_goes_with_its_object() -> None:
    async def play(world: World) -> None:
        removed: list[Savepoint] = []

        def remove(keys: tuple[str, str], savepoint: Savepoint) -> "Future[None]":
            removed.append(savepoint)
            done: Future[None] = Future()
            done.set_result(None)
            return done

        world.operators[0].hosting.delete_savepoint = remove  # type: ignore[method-assign]
        world.apply()
        await world.calm()
        world.fleet.store_is_away = True
        world.snapshot("now")
        await world.calm(10)
        status = world.kubernetes.things[("FlameStreamSnapshot", "default", "now")]["status"]
        assert status["phase"] == "Failed"
        world.kubernetes.remove(("FlameStreamSnapshot", "default", "now"))
        await world.calm(1)
        assert [(each.store, each.job, each.name) for each in removed] == [
            ("s3://bucket/j", "default.job", status["name"])
        ]
        assert ("FlameStreamSnapshot", "default", "now") not in world.kubernetes.things

    played(play)


def test_scheduled_savepoints_are_really_taken_and_the_newest_are_kept() -> None:
    async def play(world: World) -> None:
        world.apply(savepoints={"every": "60s", "keep": 2})
        await world.calm(300)
        there = world.kubernetes.of("FlameStreamSnapshot")
        assert [thing["status"]["phase"] for thing in there] == ["Completed", "Completed"]

    played(play)


def test_a_snapshot_that_does_not_fit_restores_nothing_and_the_next_spec_is_tried_anew() -> None:
    async def play(world: World) -> None:
        world.snapshot("before", "other", **TAKEN)
        world.fleet.broken_digest = world.edit_code("another graph")
        world.apply(restoreFrom={"snapshot": "before"})
        await world.calm()
        assert (world.status.phase, world.pods("driver"), world.pods("preflight")) == ("Failed", [], [])
        assert "no such module" in world.condition("Failed").message
        assert world.fleet.records == {}, "the job has no state"
        world.edit_code("the right graph")
        world.apply(workers={"replicas": 1})
        await world.calm()
        assert world.status.phase == "Running"
        assert world.status.epoch.number > 42

    played(play)
