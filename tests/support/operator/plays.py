"""Plays: what a test does in the operator's world, from its beginning."""

import asyncio
from collections.abc import Awaitable, Callable

from support.operator.operator_world import World


def played(play: Callable[[World], Awaitable[None]]) -> World:
    """Play it; the world as it is then."""
    world = World()
    asyncio.run(play(world))  # type: ignore[arg-type]  # a coroutine
    return world


async def started(world: World, **spec: object) -> None:
    """Apply the job of this spec, and go on until it runs."""
    world.apply(**spec)
    await world.calm()
    assert world.status.phase == "Running", world.status
