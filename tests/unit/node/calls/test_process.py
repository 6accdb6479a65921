"""A caller's process answers each request, and says nothing of those that its own end interrupts."""

import asyncio
from typing import Any

import msgspec

from flamestream.model.calls.call import CallFunction, call
from flamestream.model.payload import decode, encode
from flamestream.node.calls.clients import OpenClients
from flamestream.node.calls.process import Answered, CallerProcess, Said
from support import virtual_time


async def waited(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


class Process:
    """One with a single call, and what it has said."""

    def __init__(self, **settings: Any) -> None:
        function: CallFunction[..., Any] = call(**settings)(waited)
        self._frames = list[bytes]()
        self.process = CallerProcess({"waited()": function}, OpenClients({}, 1), 1 << 20, self._frames.append)

    def ask(self, *seconds: float) -> None:
        self.process.take(msgspec.msgpack.encode([(str(each), "waited()", encode(each)) for each in seconds]))

    @property
    def answers(self) -> list[Any]:
        said = [each for frame in self._frames for each in msgspec.msgpack.decode(frame, type=list[Said])]
        return [
            decode(each.results)[0] if isinstance(each, Answered) and each.results else each for each in said
        ]


def test_each_request_is_answered_as_soon_as_it_can_be() -> None:
    async def answers() -> list[Any]:
        process = Process()
        process.ask(3.0, 1.0, 2.0)
        await asyncio.sleep(5)
        return process.answers

    assert virtual_time.run(answers()) == [1.0, 2.0, 3.0]


def test_a_request_whose_first_try_is_the_last_is_one_task() -> None:
    async def tasks() -> int:
        loop, made = asyncio.get_running_loop(), list[asyncio.Task[Any]]()

        def task(loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any) -> asyncio.Task[Any]:
            made.append(asyncio.Task(coroutine, loop=loop, **more))
            return made[-1]

        loop.set_task_factory(task)
        process = Process()
        process.ask(*(number / 100 for number in range(50)))
        await asyncio.sleep(1)
        assert len(process.answers) == 50
        return len(made)

    assert virtual_time.run(tasks()) == 50


def test_what_its_end_interrupts_is_not_answered() -> None:
    async def said(**settings: Any) -> list[Any]:
        process = Process(**settings)
        process.ask(1.0, 2.0)
        await asyncio.sleep(0.5)
        process.process.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()  # as `asyncio.run` does
        await asyncio.sleep(5)
        return process.answers

    assert virtual_time.run(said()) == []
    assert virtual_time.run(said(cache="1s")) == []
