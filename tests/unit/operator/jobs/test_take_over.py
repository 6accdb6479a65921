"""One job goes on where another one ends: by the other's leave, once, and what is kept is the second one's then."""

import asyncio
from typing import Any

import pytest

from flamestream_operator.jobs import stream_effects
from support.operator.operator_world import OneOperator, World
from support.operator.plays import played, started


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is the world's."""
    monkeypatch.setattr(stream_effects, "LOOK", 0.0)


TAKES = {"takeOver": {"job": "job"}}


async def asked(world: World, leave: str | None = "green", **spec: Any) -> None:
    """A job that runs and gives leave, and one called green that asks."""
    await started(world, **({"handOver": {"to": leave}} if leave else {}))
    world.beside("green", **{**TAKES, **spec})
    await world.calm()


def test_it_goes_on_and_the_other_has_ended() -> None:
    async def play(world: World) -> None:
        await asked(world)
        green, record = world.status_of("green"), world.fleet.records["default.job"]
        assert (world.status.phase, green.phase) == ("HandedOver", "Running")
        assert (record.holder, green.identity) == ("default.green", "default.job")
        assert "handed over to default.green" in world.status.message
        assert [name for name in world.pods("driver") if name.startswith("job-")] == []
        epoch = record.epoch
        await world.calm(5)
        assert record.epoch > epoch and list(world.fleet.records) == ["default.job"]

    played(play)


def test_its_pods_are_there_before_the_other_is_asked() -> None:
    """Results wait for a recovery, and not for pods."""

    async def play(world: World) -> None:
        await started(world, handOver={"to": "green"})
        world.beside("green", **TAKES)
        for _ in range(40):
            await world.calm(1)
            if world.fleet.records["default.job"].holder:
                break
        assert [name for name in world.pods("worker") if name.startswith("green-")]
        launches = world.status_of("green").launches
        await world.calm()
        assert world.status_of("green").launches == launches == 1, "and they are not made again"

    played(play)


@pytest.mark.parametrize("leave", [None, "blue", "elsewhere/green"])
def test_without_the_other_jobs_leave_it_is_given_nothing(leave: str | None) -> None:
    async def play(world: World) -> None:
        await asked(world, leave)
        green = world.status_of("green")
        assert (world.status.phase, green.run.stage, green.identity) == ("Running", "TakingOver", "")
        assert "has to write handOver: {to: default/green}" in green.message
        assert not [
            name for kind, name, _ in world.kubernetes.created if kind == "Secret" and "green-zoo" in name
        ]
        world.apply(handOver={"to": "green"})
        await world.calm()
        assert world.status_of("green").phase == "Running"

    played(play)


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("spec.sinks.out", {"sinks": {"out": {"files": {"path": "/elsewhere"}}}}),
        (
            "spec.checkpoint.store",
            {"checkpoint": {"interval": "1s", "store": "s3://bucket/other", "secret": "store"}},
        ),
        ("spec.workers.slots", {"workers": {"replicas": 2, "slots": 8}}),
    ],
)
def test_what_is_kept_elsewhere_is_named_and_the_other_runs_on(field: str, spec: dict[str, Any]) -> None:
    async def play(world: World) -> None:
        await asked(world, **spec)
        assert field in world.status_of("green").message and world.status.phase == "Running"

    played(play)


def test_code_that_does_not_load_costs_the_other_nothing() -> None:
    async def play(world: World) -> None:
        await started(world, handOver={"to": "green"})
        world.fleet.broken_digest = world.edit_code("print(2)")
        world.apply(upgrade={"strategy": "Restore"})
        world.beside("green", **TAKES)
        await world.calm()
        green = world.status_of("green")
        assert (green.phase, green.identity) == ("Failed", "") and "no such module" in green.message
        assert world.status.phase == "Running" and not world.fleet.records["default.job"].holder

    played(play)


def test_a_new_leader_finds_out_who_holds_it() -> None:
    async def play(world: World) -> None:
        await asked(world)
        world.operators = [OneOperator(world, "two", 0)]
        await world.calm()
        assert (world.status.phase, world.status_of("green").phase) == ("HandedOver", "Running")

    played(play)


def test_a_leader_that_dies_behind_the_record_has_a_successor_that_goes_on() -> None:
    async def play(world: World) -> None:
        await started(world, handOver={"to": "green"})
        world.beside("green", **TAKES)
        while not world.fleet.records["default.job"].holder:
            await world.calm(1)
        await world.calm(2)
        world.apply(handOver=None)
        world.operators = [OneOperator(world, "two", 0)]
        await world.calm()
        assert (world.status.phase, world.status_of("green").phase) == ("HandedOver", "Running")

    played(play)


def test_what_the_first_job_leaves_is_not_deleted_with_it() -> None:
    async def play(world: World) -> None:
        await started(world, handOver={"to": "green"}, deletionPolicy="Delete")
        world.beside("green", **TAKES)
        await world.calm()
        world.delete()
        world.keys = world.keys[1:]
        world.operators[0].jobs._forgotten(("default", "job"))
        await world.calm()
        record = world.fleet.records["default.job"]
        epoch = record.epoch
        await world.calm(5)
        assert record.epoch > epoch and world.status_of("green").phase == "Running"

    played(play)


def test_an_edit_does_not_wake_the_first_one_again() -> None:
    async def play(world: World) -> None:
        await asked(world)
        world.apply(workers={"replicas": 3})
        await world.calm()
        assert world.status.phase == "HandedOver" and not [
            name for name in world.pods("driver") if name.startswith("job-")
        ]

    played(play)


def test_a_shadow_is_tried_again_and_again_and_takes_nothing() -> None:
    async def play(world: World) -> None:
        await started(world, handOver={"to": "green"})
        world.beside("green", takeOver={"job": "job", "shadow": True})
        await world.calm(300)
        trials = [name for kind, name, _ in world.kubernetes.created if kind == "Pod" and "green-pre" in name]
        assert len(trials) >= 3 and not [name for name in world.pods("driver") if name.startswith("green")]
        assert world.status.phase == "Running" and not world.fleet.records["default.job"].holder
        config = [
            thing for thing in world.kubernetes.of("ConfigMap") if "before.json" in (thing.get("data") or {})
        ]
        assert config and '"name":"job"' in config[-1]["data"]["before.json"].replace(" ", "")
        world.kubernetes.merge(
            ("FlameStreamJob", "default", "green"), {"spec": {"takeOver": {"job": "job", "shadow": False}}}
        )
        await world.calm(120)
        assert (world.status.phase, world.status_of("green").phase) == ("HandedOver", "Running")

    played(play)


async def two_clusters(leave: str | None = "green", **spec: Any) -> tuple[World, World]:
    """A job that runs in one cluster, and one called green that asks, in another; both reach the same ZooKeeper."""
    here, there = World(), World()
    there.fleet.records, there.fleet.leaves, there.fleet.asks = (
        here.fleet.records,
        here.fleet.leaves,
        here.fleet.asks,
    )
    await started(here, **({"handOver": {"to": leave}} if leave else {}))
    there.apply()
    there.beside("green", **{**TAKES, **spec})
    there.delete()
    there.keys = there.keys[1:]
    await both(here, there)
    return here, there


async def both(*worlds: World, seconds: int = 60) -> None:
    for _ in range(seconds):
        for world in worlds:
            await world.calm(1)
            await asyncio.sleep(0)


def test_it_goes_on_with_a_job_of_another_cluster() -> None:
    async def play() -> None:
        here, there = await two_clusters()
        green, record = there.status_of("green"), here.fleet.records["default.job"]
        assert (here.status.phase, green.phase) == ("HandedOver", "Running"), green.message
        assert (record.holder, green.identity) == ("default.green", "default.job")
        assert here.pods("driver") == [] and [*here.fleet.records] == ["default.job"]
        epoch = record.epoch
        await both(here, there, seconds=5)
        assert record.epoch > epoch

    asyncio.run(play())


@pytest.mark.parametrize("leave", [None, "blue", "elsewhere/green"])
def test_without_leave_from_the_other_cluster_it_is_given_nothing(leave: str | None) -> None:
    async def play() -> None:
        here, there = await two_clusters(leave)
        green = there.status_of("green")
        assert (here.status.phase, green.run.stage, green.identity) == ("Running", "TakingOver", "")
        assert "has to write handOver: {to: default/green}" in green.message
        assert not [
            name for kind, name, _ in there.kubernetes.created if kind == "Secret" and "green-zoo" in name
        ]
        assert not here.fleet.asks
        here.apply(handOver={"to": "green"})
        await both(here, there)
        assert there.status_of("green").phase == "Running"

    asyncio.run(play())


def test_what_another_cluster_keeps_elsewhere_is_named_and_the_other_runs_on() -> None:
    async def play() -> None:
        here, there = await two_clusters(sinks={"out": {"files": {"path": "/elsewhere"}}})
        assert "spec.sinks.out" in there.status_of("green").message and here.status.phase == "Running"

    asyncio.run(play())


def test_a_leave_that_was_taken_away_is_none_whatever_another_cluster_has_read() -> None:
    async def play() -> None:
        here, there = await two_clusters("blue")
        here.apply(handOver={"to": "green"})
        await both(here, seconds=2)
        leave = here.fleet.leaves["default.job"]
        here.apply(handOver=None)
        await both(here, seconds=2)
        assert "default.job" not in here.fleet.leaves
        there.fleet.leaves = {"default.job": leave}  # as it was read before
        await both(here, there)
        assert here.fleet.asks["default.job"] in ("", "default.green")
        assert here.status.phase == "Running" and not here.fleet.records["default.job"].holder

    asyncio.run(play())


def test_a_leave_that_a_leader_before_has_given_goes_where_the_spec_has_none() -> None:
    async def play() -> None:
        here, there = await two_clusters("blue")
        here.apply(handOver=None)
        here.operators = [OneOperator(here, "two", 0)]
        await both(here, there, seconds=5)
        assert not here.fleet.leaves

    asyncio.run(play())
