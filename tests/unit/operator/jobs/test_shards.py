"""A job of another shard: who does not lead it does nothing for it, and lets go of it when it comes to be another's."""

from dataclasses import replace

from support.operator.operator_world import KEY, World
from support.operator.plays import played, started


def test_nothing_is_done_for_a_job_of_another_shard() -> None:
    async def play(world: World) -> None:
        world.apply()
        operator = world.operators[0]
        operator.jobs._tools = replace(operator.jobs._tools, mine=lambda _: False)
        operator.relist()
        version = world.kubernetes.version
        assert await operator.jobs.reconcile(KEY) is None
        assert world.kubernetes.version == version
        assert operator.jobs.memory_of(KEY) is None

    played(play)


def test_a_job_that_comes_to_be_anothers_is_let_go_and_runs_on() -> None:
    async def play(world: World) -> None:
        await started(world)
        operator, pods = world.operators[0], world.pods("worker")
        assert operator.hosting.status("default.job") is not None
        operator.jobs._tools = replace(operator.jobs._tools, mine=lambda _: False)
        version = world.kubernetes.version
        await operator.jobs.reconcile(KEY)
        assert operator.hosting.status("default.job") is None
        assert (world.kubernetes.version, world.pods("worker")) == (version, pods)

    played(play)
