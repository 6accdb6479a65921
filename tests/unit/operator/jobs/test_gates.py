"""Workers whose pods somebody holds back by a scheduling gate, as queues do: the job says so, names who, and runs once
they are let in."""

import pytest

from flamestream.job.moments import written
from support.operator.operator_world import World
from support.operator.plays import played, started

KUEUE, OTHER = "kueue.x-k8s.io/admission", "quota.example.com/wait"


@pytest.mark.parametrize(
    ("gate", "says"),
    [(KUEUE, "`kubectl -n default describe workloads`"), (OTHER, "ask whoever set that scheduling gate")],
    ids=["Kueue's", "another"],
)
def test_a_job_whose_workers_are_held_back_says_who_lets_them_in(gate: str, says: str) -> None:
    async def play(world: World) -> None:
        world.fleet.gate = gate
        world.apply()
        await world.calm()
        degraded = world.condition("Degraded")
        assert (world.status.phase, degraded.status, degraded.reason) == (
            "Starting", "True", "SchedulingGated",
        )  # fmt: skip
        assert gate in world.status.message
        assert says in world.status.message
        assert world.condition("Ready").message == world.status.message
        assert not world.status.failures.count, "a queue is no failure"
        world.fleet.gate = ""
        await world.calm()
        assert (world.status.phase, world.condition("Degraded").status) == ("Running", "False")

    played(play)


def test_a_queue_that_lets_workers_in_within_seconds_is_no_problem() -> None:
    async def play(world: World) -> None:
        world.fleet.gate = KUEUE
        world.apply()
        while not world.pods("worker"):
            await world.calm(1)
        for name in world.pods("worker"):
            made = {"metadata": {"creationTimestamp": written(world.now)}}
            world.kubernetes.merge(("Pod", "default", name), made)
        await world.calm(3)
        assert world.condition("Degraded").status == "False"
        await world.calm(5)
        assert world.condition("Degraded").reason == "SchedulingGated"

    played(play)


def test_a_worker_that_is_held_back_is_a_problem_of_a_job_that_goes_on() -> None:
    async def play(world: World) -> None:
        await started(world)
        world.fleet.gate = KUEUE
        world.kill("worker")
        await world.calm()
        assert world.condition("Degraded").reason == "SchedulingGated"
        world.fleet.gate = ""
        await world.calm()
        assert world.condition("Degraded").status == "False"

    played(play)
