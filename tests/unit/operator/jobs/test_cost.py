"""The cost of a job to the API server and to the loop of all jobs: nothing is asked twice, and a job that just runs is
looked at rarely."""

from collections import Counter
from typing import Any

import pytest

from support.operator.operator_world import KEY, World
from support.operator.plays import played, started


def counted(world: World) -> Counter[str]:
    """Requests from now on, by verb and kind."""
    asked, kubernetes = Counter[str](), world.kubernetes
    create, get = kubernetes.create, kubernetes.get

    async def creates(thing: Any, **how: Any) -> Any:
        asked[f"create {thing['kind']}{' dry' if how.get('dry_run') else ''}"] += 1
        return await create(thing, **how)

    async def gets(kind: str, *where: str) -> Any:
        asked[f"get {kind}"] += 1
        return await get(kind, *where)

    vars(kubernetes).update(create=creates, get=gets)
    return asked


def test_a_first_launch_asks_once_for_each_thing() -> None:
    async def play(world: World) -> None:
        asked = counted(world)
        await started(world)
        del asked["create Event"]
        assert asked == {
            "create Secret": 2, "create Service": 1, "create ServiceAccount": 1, "create Role": 1,
            "create RoleBinding": 1, "create NetworkPolicy": 1, "create PodDisruptionBudget": 1, "create ConfigMap": 2,
            "create Pod dry": 1, "create Pod": 1, "get Secret": 1, "get ConfigMap": 1, "get Pod": 1,
        }  # fmt: skip

    played(play)


@pytest.mark.parametrize(
    ("spec", "pause"),
    [({}, 30.0), ({"deadline": "1h"}, 1.0), ({"savepoints": {"every": "1h", "keep": 1}}, 1.0)],
)
def test_a_job_that_just_runs_is_looked_at_each_half_minute_and_one_with_a_moment_ahead_each_second(
    spec: dict[str, Any], pause: float
) -> None:
    async def play(world: World) -> None:
        await started(world, **spec)
        await world.calm(30)
        assert await world.operators[0].jobs.reconcile(KEY) == pause

    played(play)


def test_a_job_that_is_changed_is_looked_at_each_second() -> None:
    async def play(world: World) -> None:
        await started(world)
        await world.calm(30)
        world.edit_code("print(2)")
        operator = world.operators[0]
        operator.relist()
        assert await operator.jobs.reconcile(KEY) == 1.0

    played(play)
