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


def drained_node(world: World) -> list[tuple[str, str, str]]:
    """The first two workers' pods, whose node takes no new ones: the first is being evicted."""
    pods = [("Pod", "default", name) for name in sorted(world.pods("worker"))[:2]]
    for pod in pods:
        world.kubernetes.merge(pod, {"spec": {"nodeName": "closed"}})
    world.operators[0].cluster.nodes.put(
        {"metadata": {"name": "closed", "uid": "n"}, "spec": {"unschedulable": True}}
    )
    world.kubernetes.merge(
        pods[0], {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kubelet"]}}
    )
    return pods
