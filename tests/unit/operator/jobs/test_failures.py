"""Failures and restarts: what is tried again, when nobody tries any more, and that no clock that is set
counts."""

import asyncio

import pytest

from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.lease import Leadership
from support.operator.operator_world import World
from support.operator.plays import played, started

HOUR = 3600.0


def test_a_killed_driver_is_replaced_under_a_new_name() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.kill("driver")
        await world.calm()
        assert (world.status.phase, world.pods("driver")) == ("Running", ["job-driver-a-2"])

    played(play)


def test_a_refused_pod_is_a_reason_and_is_tried_again() -> None:
    async def play(world: World) -> None:
        world.kubernetes.refuse = lambda thing: (
            ApiProblem(403, "Forbidden", "exceeded quota: small")
            if thing["kind"] == "Pod" and "trial" in thing["metadata"]["name"]
            else None
        )
        world.apply()
        await world.calm()
        assert world.status.failures.reason == "QuotaExceeded"
        assert world.status.failures.count > 1
        assert world.pods("driver") == []
        world.kubernetes.refuse = lambda thing: None
        await world.calm(400)
        assert world.status.phase == "Running"

    played(play)


def test_never_means_never() -> None:
    async def play(world: World) -> None:
        await started(world, restartPolicy="Never")
        world.kill("driver")
        await world.calm()
        assert (world.status.phase, world.pods("driver")) == ("Failed", [])
        assert world.condition("Failed").reason == "DriverDeleted"

    played(play)


def test_after_the_limit_nobody_tries_any_more_until_the_spec_changes() -> None:
    async def play(world: World) -> None:
        await started(world, backoff={"limit": 1})
        for _ in range(2):
            world.kill("driver")
            await world.calm(20)
        assert world.status.phase == "Failed"
        world.apply(backoff={"limit": 5})
        await world.calm()
        assert world.status.phase == "Running"

    played(play)


@pytest.mark.parametrize("seconds", [-7 * HOUR, 7 * HOUR])
def test_a_clock_that_is_set_delays_no_restart_and_no_stop(seconds: float) -> None:
    async def play(world: World) -> None:
        await started(world)
        for _ in range(4):
            world.kill("driver")
            await world.calm(3)
        world.set_clocks(seconds)
        await world.calm()
        assert world.status.phase == "Running", world.status
        world.apply(suspend=True)
        await world.calm(1)
        world.set_clocks(seconds)
        await world.calm()
        assert (world.status.phase, world.pods("driver")) == ("Suspended", [])

    played(play)


@pytest.mark.parametrize("seconds", [-7 * HOUR, 7 * HOUR])
def test_a_clock_that_is_set_disturbs_no_stream(seconds: float) -> None:
    async def play(world: World) -> None:
        await started(world)
        await world.calm(60)
        pods, attempt = (
            (world.pods("driver"), world.pods("worker")),
            world.fleet.records["default.job"].commits[-1][0],
        )
        world.set_clocks(seconds)
        await world.calm(60)
        assert (world.pods("driver"), world.pods("worker")) == pods
        assert world.fleet.records["default.job"].commits[-1][0] == attempt
        assert (world.condition("Ready").status, world.status.failures.count) == ("True", 0)

    played(play)


def test_a_leader_that_ends_by_plan_has_a_successor_at_once() -> None:
    async def play(world: World) -> None:
        lost: list[str] = []
        one, two = (
            Leadership(world.kubernetes, "default", "lease", name, 3600, lost.append)
            for name in ("one", "two")
        )
        await one.acquire()
        await one.release()
        assert not one.valid
        await asyncio.wait_for(two.acquire(), 5)
        await one.release()
        assert (
            two.valid,
            world.kubernetes.things["Lease", "default", "lease"]["spec"]["holderIdentity"],
        ) == (True, "two")

    played(play)
