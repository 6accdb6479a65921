"""The queue of objects to reconcile."""

import asyncio

from flamestream_operator.kube.queue import WorkQueue

SLOW, LATE = 7, 1000


async def _served() -> list[int]:
    """The objects that were looked at when all were that had been there."""
    gate, looks = asyncio.Event(), list[int]()

    async def work(key: int) -> float | None:
        if key == SLOW:
            await gate.wait()
        if key == LATE:
            await asyncio.Event().wait()
        looks.append(key)
        return None

    queue = WorkQueue(work, "job")
    for key in range(40):
        queue.add(key)
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(queue.run())
        served = tasks.create_task(queue.served())
        while len(looks) < 39:
            await asyncio.sleep(0)
        queue.add(LATE)
        await asyncio.sleep(0)
        assert not served.done(), "one is in work"
        gate.set()
        await served
        serving.cancel()
    return looks


def test_each_object_is_looked_at_and_what_comes_meanwhile_is_not_waited_for() -> None:
    assert sorted(asyncio.run(_served())) == list(range(40))


def test_nothing_to_look_at_is_waited_for_by_nobody() -> None:
    async def served() -> None:
        await asyncio.wait_for(WorkQueue[int](lambda _: asyncio.sleep(0), "job").served(), 5)

    asyncio.run(served())
