"""The operator under everything that an API server and a cluster do to it, from one seed a schedule.

Sieve's three patterns (stale caches, missed events, crashes between any two writes), conflicts on every
write, lost answers, two operators that act at once, killed pods and a user who changes his mind. After that
it is calm, and the job must be what its spec says, with nothing left over; the invariants of `World.check`
hold at every step.

Replay one: pytest tests/sim/test_operator_chaos.py -k "seed-17"
"""

import asyncio

import pytest

from flamestream_operator.kube.api import ApiProblem
from support.operator.operator_world import Crash, OneOperator, World

SHORT = range(40)
LONG = range(40, 1500)
STEPS = 120


STORE = ("Secret", "default", "store")
"""The user's, with the keys."""


async def storm(world: World, steps: int) -> None:
    world.apply()
    for _ in range(steps):
        world.now += world.random.choice((0.1, 0.5, 1.0, 3.0))
        _user(world)
        _faults(world)
        for operator in list(world.operators):
            operator.follow(world.random.choice((0, 0, 1, 3, 50)), lambda: world.random.random() < 0.05)
            if world.random.random() < 0.1:
                operator.relist()
            if world.random.random() < 0.7:
                try:
                    await operator.reconcile()
                except Crash:
                    world.trace.append(f"{operator.name} crashed")
                    world.operators.remove(operator)
            if world.random.random() < 0.8:
                operator.hosting.step()
        if not world.operators or (len(world.operators) < 2 and world.random.random() < 0.05):
            # a new process may list from a server that is behind
            behind = world.random.choice((0, 0, 1, 5, 30))
            world.operators.append(
                OneOperator(world, f"operator-{world.now:.1f}", max(0, len(world.kubernetes.log) - behind))
            )
        if world.random.random() < 0.6:
            world.fleet.step()
        world.check()


def _user(world: World) -> None:
    draw = world.random.random()
    if draw < 0.03:
        world.kill("driver")
    elif draw < 0.06:
        world.kill("worker")
    elif draw < 0.08:
        world.apply(suspend=world.random.random() < 0.5)
    elif draw < 0.10:
        world.apply(workers={"replicas": world.random.choice((1, 2, 3))})
    elif draw < 0.12:
        world.edit_code(f"print({world.random.randrange(3)})")
    elif draw < 0.13:
        world.delete()
    elif draw < 0.16:
        world.apply()


def _faults(world: World) -> None:
    """What the next writes meet."""

    def before(verb: str, kind: str) -> None:
        draw = world.random.random()
        if draw < 0.03:
            raise Crash
        if draw < 0.08 and verb == "update":
            raise ApiProblem(409, "Conflict", "the object has been modified")
        if draw < 0.10:
            raise ApiProblem(503, "ServiceUnavailable", "try again")

    def after(verb: str, kind: str) -> None:
        world._wrote(verb, kind)
        draw = world.random.random()
        if draw < 0.03:
            raise Crash
        if draw < 0.05:
            raise ApiProblem(0, "ReadTimeout", "the answer was lost")

    world.kubernetes.before, world.kubernetes.after = before, after


async def settled(world: World) -> None:
    """A last operator, without an idea of what was."""
    world.kubernetes.before, world.kubernetes.after = (lambda verb, kind: None), world._wrote
    if ("FlameStreamJob", "default", "job") not in world.kubernetes.things:
        world.apply()
    world.apply(suspend=False)
    world.operators = [OneOperator(world, "last", len(world.kubernetes.log))]
    await world.calm(500)


def run(seed: int) -> None:
    async def play() -> None:
        world = World(seed)
        await storm(world, STEPS)
        await settled(world)
        if ("FlameStreamJob", "default", "job") not in world.kubernetes.things:
            left = {
                key for key in world.kubernetes.things if key[0] in ("Pod", "Secret", "Role", "Service")
            } - {STORE}
            assert left == set()
            return
        status = world.status
        assert status.phase == "Running", f"{status.phase}: {status.message} {world.trace[-5:]}"
        assert world.condition("Ready").status == "True", status.conditions
        assert world.pods("driver") == [driver.name for driver in status.drivers]
        assert len(status.drivers) == 1
        assert len(world.pods("worker")) == world.job["spec"]["workers"]["replicas"]
        assert len(status.drivers) <= 8 and len(str(status)) < 20_000

    asyncio.run(play())


@pytest.mark.parametrize("seed", SHORT, ids=lambda seed: f"seed-{seed}")
def test_it_converges_and_never_does_what_it_has_not_announced(seed: int) -> None:
    run(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG, ids=lambda seed: f"seed-{seed}")
def test_the_same_with_many_seeds(seed: int) -> None:
    run(seed)
