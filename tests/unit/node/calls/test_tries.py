"""A request is tried at its pace, within its time, again if it failed, and together with others; while its
service is down it waits, and its tries are not counted."""

import asyncio
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from flamestream.asking import Stopped
from flamestream.job.egress import NotAllowed
from flamestream.model.calls.call import CallFunction, call
from flamestream.node.calls.tries import Tries
from support import virtual_time

HOUR = 3600.0
THREADS = ThreadPoolExecutor(1)


class Service:
    """A call's function: `down(now)` says when it refuses; `bad` are items that fail for themselves."""

    def __init__(self, down: Callable[[float], bool] = lambda now: False, bad: frozenset[int] = frozenset()):
        self.down, self.bad, self.asked, self.said = down, bad, list[tuple[float, Any]](), list[str]()

    async def __call__(self, item: Any) -> Any:
        now = asyncio.get_running_loop().time()
        self.asked.append((now, item))
        await asyncio.sleep(0.001)
        if self.down(now):
            raise ConnectionRefusedError("port 80")
        items = item if isinstance(item, list) else [item]
        if self.bad & set(items):
            raise ValueError(item)
        return [each * 2 for each in items] if isinstance(item, list) else item * 2

    def outcomes(self, items: list[int], **settings: Any) -> list[Any]:
        """Of all of them, asked at once."""

        async def asked() -> list[Any]:
            function: CallFunction[..., Any] = call(**settings)(self.__call__)
            tries = Tries(function, THREADS, lambda task: None, self.said.append)
            return await asyncio.gather(*(tries.outcome(item, f"request {item}") for item in items))

        return virtual_time.run(asked())


def test_each_request_has_its_outcome() -> None:
    assert Service().outcomes([1, 2, 3]) == [2, 4, 6]


def test_what_fails_for_itself_is_tried_as_often_as_the_call_says() -> None:
    service = Service(bad=frozenset({2}))
    assert [str(outcome) for outcome in service.outcomes([1, 2, 3], retries=4)] == ["2", "2", "6"]
    assert [item for _, item in service.asked].count(2) == 5
    assert not service.said, "and its service is none the worse for it"


def test_an_outage_of_any_length_loses_nothing() -> None:
    service = Service(down=lambda now: now < 10 * HOUR)
    assert service.outcomes([*range(100)], retries=3) == [2 * item for item in range(100)]
    assert "ConnectionRefusedError: " in service.said[0]
    assert service.said[-1] == ""


def test_a_service_that_is_down_is_asked_by_one_request_at_a_time_in_turn() -> None:
    service = Service(down=lambda now: now < HOUR)
    service.outcomes([*range(20)], retries=20)
    probes = [(now, item) for now, item in service.asked if 60 < now < HOUR]
    assert all(later - before >= 5 for (before, _), (later, _) in itertools.pairwise(probes))
    assert {item for _, item in probes} == {*range(20)}


@pytest.mark.parametrize(
    "settings",
    [{"breaker": None}, {"retries": 0}, {"doubt": "never"}],
    ids=["no breaker", "no retries", "never"],
)
def test_it_is_an_error_where_the_call_says_so(settings: dict[str, Any]) -> None:
    outcomes = Service(down=lambda now: now < 10 * HOUR).outcomes([*range(20)], **settings)
    assert {type(outcome) for outcome in outcomes} == {ConnectionRefusedError}


def test_what_is_given_up_ends_with_its_last_error_however_often_that_took() -> None:
    service = Service(bad=frozenset({2}))
    outcomes = service.outcomes([1, 2], give_up_after="10m")
    assert (outcomes[0], type(outcomes[1])) == (2, ValueError)
    tried = [now for now, item in service.asked if item == 2]
    assert len(tried) > 60, "pauses are 10 s at most"
    assert tried[-1] == pytest.approx(600, abs=0.1), (
        "the last try is made when the time is over, not behind it"
    )


@pytest.mark.parametrize(
    ("settings", "tries"),
    [({"retries": 3, "give_up_after": "10m"}, 4), ({"retries": 1000, "give_up_after": "300ms"}, 4)],
)
def test_retries_and_time_bound_it_together(settings: dict[str, Any], tries: int) -> None:
    service = Service(bad=frozenset({1}))
    service.outcomes([1], **settings)
    assert len(service.asked) <= tries


def test_an_outage_is_no_time_of_a_request() -> None:
    """Behind it a request has all the time that was left."""
    service = Service(down=lambda now: now < 10 * HOUR, bad=frozenset({2}))
    outcomes = service.outcomes([*range(20)], give_up_after="1m")
    assert [outcome for item, outcome in enumerate(outcomes) if item != 2] == [
        2 * i for i in range(20) if i != 2
    ]
    last = max(now for now, item in service.asked if item == 2)
    assert isinstance(outcomes[2], ValueError) and last > 10 * HOUR + 55


def test_without_a_breaker_the_time_of_an_outage_counts() -> None:
    outcomes = Service(down=lambda now: now < HOUR).outcomes([*range(20)], give_up_after="1m", breaker=None)
    assert {type(outcome) for outcome in outcomes} == {ConnectionRefusedError}


def test_a_request_that_waits_for_its_turn_is_not_tried_meanwhile() -> None:
    """The last of these has its first try behind 19 s."""
    service = Service(bad=frozenset({19}))
    service.outcomes([*range(20)], rate=1, give_up_after="5s")
    assert len([now for now, item in service.asked if item == 19]) > 3


def test_each_of_a_batch_is_given_up_by_itself() -> None:
    service = Service(bad=frozenset({2}))
    outcomes = service.outcomes([*range(4)], batch=4, give_up_after="1m")
    assert [outcome for item, outcome in enumerate(outcomes) if item != 2] == [0, 2, 6]
    assert isinstance(outcomes[2], ValueError)


def test_a_rate_is_kept() -> None:
    service = Service()
    service.outcomes([*range(50)], rate=10)
    assert service.asked[-1][0] == pytest.approx(4.9)


def test_a_batch_goes_when_it_is_full_or_has_lingered() -> None:
    service = Service()
    assert service.outcomes([*range(10)], batch=4, linger="20ms") == [2 * item for item in range(10)]
    assert service.asked == [(0.0, [0, 1, 2, 3]), (0.0, [4, 5, 6, 7]), (pytest.approx(0.02), [8, 9])]


def test_no_more_batches_run_at_once_than_the_concurrency() -> None:
    service = Service()
    service.outcomes([*range(8)], batch=2, concurrency=2)
    assert [now for now, _ in service.asked] == pytest.approx([0, 0, 0.001, 0.001])


def test_one_that_fails_every_batch_fails_by_itself() -> None:
    service = Service(bad=frozenset({2}))
    outcomes = service.outcomes([*range(4)], batch=4, retries=5)
    assert [outcome for item, outcome in enumerate(outcomes) if item != 2] == [0, 2, 6]
    assert isinstance(outcomes[2], ValueError)


class Wordless(TimeoutError):
    """Of a client whose errors cannot be written."""

    def __str__(self) -> str:
        raise RuntimeError


class Stops(BaseException):
    """What stops more than itself, and cannot be written either."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(("error", "made"), [(Wordless(), Wordless), (Stops(), Stopped)], ids=["one", "all"])
@pytest.mark.parametrize("batch", [1, 4])
def test_an_error_that_cannot_be_written_is_an_error_like_others(
    error: BaseException, made: type, batch: int
) -> None:
    class Raises(Service):
        async def __call__(self, item: Any) -> Any:
            raise error

    outcomes = Raises().outcomes([*range(8)], batch=batch, retries=0)
    assert [type(outcome) for outcome in outcomes] == [made] * 8


def test_a_rate_is_of_batches_where_there_are_batches() -> None:
    service = Service()
    service.outcomes([*range(16)], batch=8, rate=10)
    assert service.asked == [(0.0, [*range(8)]), (pytest.approx(0.1), [*range(8, 16)])]


class Refuses(Service):
    """One item would reach what is not allowed, as clients say it: in an error of their own."""

    async def __call__(self, item: Any) -> Any:
        if 2 in (item if isinstance(item, list) else [item]):
            self.asked.append((0, item))
            try:
                raise NotAllowed("elsewhere")
            except NotAllowed as error:
                raise OSError("no connection") from error
        return await super().__call__(item)


def test_what_is_not_allowed_is_not_tried_again_however_it_is_wrapped() -> None:
    service = Refuses()
    outcomes = service.outcomes([1, 2, 3])
    assert (outcomes[0], type(outcomes[1]), outcomes[2]) == (2, NotAllowed, 6)
    assert [item for _, item in service.asked] == [1, 2, 3]


def test_in_a_batch_it_fails_by_itself() -> None:
    outcomes = Refuses().outcomes([*range(4)], batch=4)
    assert [outcome for item, outcome in enumerate(outcomes) if item != 2] == [0, 2, 6]
    assert isinstance(outcomes[2], NotAllowed)


@pytest.mark.parametrize("error", [MemoryError(), RecursionError(), KeyError("x")])
def test_whatever_a_function_raises_is_its_outcome(error: Exception) -> None:
    async def raises(item: int) -> None:
        raise error

    assert outcome_of(call(retries=1)(raises)) is error


def test_a_function_that_cancels_itself_has_an_outcome() -> None:
    async def cancels(item: int) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    assert isinstance(outcome_of(call(retries=0)(cancels)), Stopped)


def test_a_thread_that_does_not_end_is_told_until_it_does() -> None:
    ends, left = Event(), list[Any]()

    def hangs(item: int) -> None:
        ends.wait()

    assert isinstance(outcome_of(call(retries=0)(hangs), left.append), TimeoutError)
    (thread,) = left
    assert not thread.done()
    ends.set()
    assert thread.result() is None


def outcome_of(function: CallFunction[..., Any], left: Callable[[Any], None] = lambda task: None) -> Any:
    async def asked() -> Any:
        return await Tries(function, THREADS, left, lambda text: None).outcome(1, "a")

    return virtual_time.run(asked())


@pytest.mark.parametrize(("gives", "told"), [([1], "a list of 1"), (5, "a int")])
def test_a_batch_of_another_size_is_an_error_of_all(gives: Any, told: str) -> None:
    async def wrong(items: list[int]) -> Any:
        return gives

    async def asked() -> list[Any]:
        tries = Tries(call(batch=2, retries=0)(wrong), THREADS, lambda task: None, lambda text: None)
        return [*await asyncio.gather(tries.outcome(1, "a"), tries.outcome(2, "b"))]

    assert {str(outcome) for outcome in virtual_time.run(asked())} == {
        f"a batch of 2 has a list of 2 results, and it gave {told}"
    }


def test_an_exception_in_a_results_place_is_of_that_item() -> None:
    async def each(items: list[int]) -> Any:
        return [KeyError(item) if item == 1 else item for item in items]

    async def asked() -> list[Any]:
        tries = Tries(call(batch=2, retries=0)(each), THREADS, lambda task: None, lambda text: None)
        return [*await asyncio.gather(tries.outcome(1, "a"), tries.outcome(2, "b"))]

    first, second = virtual_time.run(asked())
    assert (type(first), second) == (KeyError, 2)
