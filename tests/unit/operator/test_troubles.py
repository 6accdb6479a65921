"""What a job's workers tell of their servers is a condition of the job for as long as it lasts."""

import asyncio

from support.operator.operator_world import World

AWAY = "w-1: sink out: PostgreSQL me@host:5432/shop: connection refused"


def test_a_server_that_is_away_is_a_condition_until_it_is_back() -> None:
    async def play() -> None:
        world = World()
        world.apply()
        await world.calm()
        assert world.condition("Degraded").status == "False"
        hosted = world.operators[0].hosting.jobs["default.job"]
        hosted.problems = [AWAY]
        await world.calm(150)
        assert (world.condition("Degraded").status, world.condition("Degraded").reason) == (
            "True",
            "Troubles",
        )
        assert AWAY in world.condition("Degraded").message
        assert (world.status.phase, world.status.problems) == ("Running", [AWAY])
        hosted.problems = []
        await world.calm(150)
        assert (world.condition("Degraded").status, world.status.problems) == ("False", [])

    asyncio.run(play())
