"""What has begun passes when its time is over, in that order, and what has ended does not."""

import asyncio

from flamestream.node.calls.deadlines import Deadlines
from support import virtual_time


def test_each_passes_when_it_has_had_its_time_and_what_has_ended_never() -> None:
    async def passed() -> list[tuple[float, str]]:
        loop, found = asyncio.get_running_loop(), list[tuple[float, str]]()
        deadlines = Deadlines[str](10.0, lambda it: found.append((loop.time() - began, it)))
        began = loop.time()
        deadlines.begin("first")
        await asyncio.sleep(3)
        deadlines.begin("second")
        deadlines.begin("ends")
        await asyncio.sleep(4)
        assert deadlines.end("ends")
        await asyncio.sleep(10)
        deadlines.begin("behind all others")
        await asyncio.sleep(20)
        assert not deadlines.end("first"), "it has passed"
        return [(round(when, 6), it) for when, it in found]

    assert virtual_time.run(passed()) == [(10, "first"), (13, "second"), (27, "behind all others")]


def test_any_number_of_them_waits_for_one_timer() -> None:
    async def timers() -> int:
        loop, made = asyncio.get_running_loop(), list[float]()
        call_at = loop.call_at
        loop.call_at = lambda when, *call: made.append(when) or call_at(when, *call)  # type: ignore
        deadlines = Deadlines[int](10.0, lambda it: None)
        for number in range(100):
            deadlines.begin(number)
            deadlines.end(number)
        return len(made)

    assert virtual_time.run(timers()) == 1
