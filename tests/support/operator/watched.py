"""The operator's effects as they are carried out, for tests of what each one may rest on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from support.operator.operator_world import KEY, World


class Watched:
    """Every action as it is carried out; `look` is called just before each."""

    def __init__(self, world: World) -> None:
        self.world, self.actions = world, list[Any]()
        self.look: Callable[[Any], None] = lambda action: None
        handlers = world.operators[0].jobs._do
        for kind, handler in list(handlers.items()):
            handlers[kind] = self._wrapped(handler)

    def _wrapped(self, handler: Any) -> Any:
        async def carried(key: Any, memory: Any, job: Any, action: Any) -> Any:
            self.look(action)
            self.actions.append(action)
            return await handler(key, memory, job, action)

        return carried

    def kinds(self, *of: type) -> list[type]:
        """In order, repeats in a row once."""
        found = [type(action) for action in self.actions if type(action) in of]
        return [kind for place, kind in enumerate(found) if place == 0 or found[place - 1] is not kind]

    def slots_of(self) -> tuple[str, ...]:
        """Addresses of the workers that have slots."""
        hosted = self.world.operators[0].hosting.jobs.get("default.job")
        return hosted.layout if hosted is not None and not hosted.outcome else ()

    def ip(self, pod: str) -> str:
        thing = self.world.kubernetes.things.get(("Pod", KEY[0], pod)) or {}
        return str((thing.get("status") or {}).get("podIP", ""))


def played(play: Callable[[World, Watched], Awaitable[None]]) -> None:
    """Play it in a world of its own."""

    async def whole() -> None:
        world = World()
        await play(world, Watched(world))

    asyncio.run(whole())
