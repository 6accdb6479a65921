"""Who may read /metrics: what is asked of the API server, how often, and what a flood of made-up tokens
does."""

import asyncio

import pytest

from flamestream_operator.kube import reviews
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.readers import NO_LOGIN, NO_RIGHT, NOT_NOW, OK, Readers
from support.operator.accounts import Accounts

PATH = "/metrics"


class Clock:
    """Seconds that pass when told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def asked(api: Accounts, *headers: str, clock: Clock | None = None) -> list[int]:
    """The answers to these headers, one after another."""
    door = Readers(api, clock or Clock())

    async def run() -> list[int]:
        return [await door.status(header, PATH) for header in headers]

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("", NO_LOGIN), ("Bearer", NO_LOGIN), ("Bearer ", NO_LOGIN), ("Basic cHJvbWV0aGV1cw==", NO_LOGIN),
        ("prometheus", NO_LOGIN), (f"Bearer {'x' * 10_000}", NO_LOGIN), ("Bearer made-up", NO_LOGIN),
        ("Bearer somebody", NO_RIGHT), ("Bearer prometheus", OK), ("bearer prometheus", OK),
    ],
)  # fmt: skip
def test_who_is_let_in(header: str, status: int) -> None:
    assert asked(Accounts(), header) == [status]


def test_what_cannot_be_a_token_is_not_asked_about() -> None:
    api = Accounts()
    asked(api, "", "Basic x", "Bearer ", f"Bearer {'x' * 10_000}")
    assert api.asked == []


def test_an_answer_is_kept_for_a_while_and_then_asked_for_again() -> None:
    api, clock = Accounts(), Clock()
    door = Readers(api, clock)

    async def run() -> None:
        for _ in range(5):
            assert await door.status("Bearer prometheus", PATH) == OK
        assert len(api.asked) == 2
        clock.now += reviews.KEPT_FOR
        assert await door.status("Bearer prometheus", PATH) == OK
        assert len(api.asked) == 4
        assert await door.status("Bearer prometheus", "/other") == NO_RIGHT, "an answer is of one path"

    asyncio.run(run())


def test_nobody_is_let_in_while_the_api_server_does_not_answer_and_that_is_not_kept() -> None:
    api = Accounts()
    door = Readers(api, Clock())

    async def run() -> None:
        api.problem = ApiProblem(0, "ConnectError", "away")
        assert await door.status("Bearer prometheus", PATH) == NOT_NOW
        api.problem = None
        assert await door.status("Bearer prometheus", PATH) == OK

    asyncio.run(run())


def test_made_up_tokens_cost_a_bounded_number_of_questions_and_shut_no_reader_out() -> None:
    api, clock = Accounts(), Clock()
    door = Readers(api, clock)

    async def run() -> None:
        assert await door.status("Bearer prometheus", PATH) == OK
        before = len(api.asked)
        api.answers.clear()
        flood = [asyncio.create_task(door.status(f"Bearer made-up-{number}", PATH)) for number in range(100)]
        await asyncio.sleep(0)
        assert len(api.asked) - before == reviews.AT_ONCE
        assert await door.status("Bearer prometheus", PATH) == OK
        clock.now += reviews.KEPT_FOR
        again = asyncio.create_task(door.status("Bearer prometheus", PATH))
        await asyncio.sleep(0)
        api.answers.set()
        statuses = await asyncio.gather(*flood)
        assert await again == OK, "who was let in before is asked about beside the flood"
        assert sorted(statuses) == [NO_LOGIN] * reviews.AT_ONCE + [NOT_NOW] * (100 - reviews.AT_ONCE)
        for number in range(3 * reviews.MOST_KEPT):
            await door.status(f"Bearer made-up-too-{number}", PATH)
        assert len(door._answers) <= reviews.MOST_KEPT
        asked_before = len(api.asked)
        assert await door.status("Bearer prometheus", PATH) == OK
        assert len(api.asked) == asked_before, "a reader that was let in keeps its place"

    asyncio.run(run())


def test_no_token_is_kept() -> None:
    api = Accounts()
    door = Readers(api, Clock())
    asyncio.run(door.status("Bearer prometheus", PATH))
    assert "prometheus" not in repr(door._answers._kept)
