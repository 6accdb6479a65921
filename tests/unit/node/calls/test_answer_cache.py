"""A cache gives what was answered to equal requests for its time, asks once for those at once, and is bounded."""

import asyncio
from typing import Any

import pytest

from flamestream.node.calls import answer_cache
from flamestream.node.calls.answer_cache import AnswerCache, Reply
from support import virtual_time


class Made:
    """A cache, and how often each request was made."""

    def __init__(self, lasts: float = 60.0, error: bytes = b"") -> None:
        self.count: dict[bytes, int] = {}
        self.error = error
        self.cache = AnswerCache(lasts, asyncio.get_running_loop().time)

    async def ask(self, request: bytes) -> Reply:
        async def make() -> Reply:
            self.count[request] = self.count.get(request, 0) + 1
            await asyncio.sleep(0.01)
            return Reply(error=self.error) if self.error else Reply(b"of " + request)

        return await self.cache.reply(request, make)


def play(main: Any) -> Any:
    return virtual_time.run(main())


def test_equal_requests_at_once_are_one_try() -> None:
    async def main() -> None:
        made = Made()
        assert await asyncio.gather(*(made.ask(b"a") for _ in range(5))) == [Reply(b"of a")] * 5
        assert made.count == {b"a": 1}

    play(main)


def test_an_answer_is_given_for_its_time() -> None:
    async def main() -> None:
        made = Made(lasts=60)
        for pause, count in ((0, 1), (59, 1), (2, 2)):
            await asyncio.sleep(pause)
            await made.ask(b"a")
            assert made.count == {b"a": count}

    play(main)


def test_an_error_is_given_to_those_that_wait_for_it_alone() -> None:
    async def main() -> None:
        made = Made(error=b"no")
        assert {*await asyncio.gather(made.ask(b"a"), made.ask(b"a"))} == {Reply(error=b"no")}
        await made.ask(b"a")
        assert made.count == {b"a": 2}

    play(main)


@pytest.mark.parametrize("bound", ["MOST", "MOST_BYTES"])
def test_the_longest_unused_goes_first(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(answer_cache, bound, {"MOST": 2, "MOST_BYTES": 10}[bound])

    async def main() -> None:
        made = Made()
        for request in (b"a", b"b", b"a", b"c", b"a", b"b"):
            await made.ask(request)
        assert made.count == {b"a": 1, b"b": 2, b"c": 1}

    play(main)
