"""What a call asks with: idempotency keys that no two requests share, and a sentence where there is nothing."""

import asyncio
from typing import Any

import pytest

import flamestream as fs
from flamestream.model.calls.clients import ClientMisused, Http
from flamestream.model.errors import UserError
from flamestream.testing import clients

URL = "http://service/"


class Service:
    """A client that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def request(self, method: str, url: str, *, headers: dict[str, str], **said: Any) -> Any:
        assert not said, "a test has no time-out"
        self.asked.append((method, headers))
        return self


def keys(*requests: tuple[str, dict[str, Any]], batch: bool = False) -> list[str | None]:
    """The idempotency keys of the requests of one try."""
    service = Service()

    async def made() -> None:
        call = fs.Call("id", 1, clients(http=service), None if batch else set())
        for method, said in requests:
            await call.http.request(method, URL, **said)

    asyncio.run(made())
    return [headers.get("Idempotency-Key") for _, headers in service.asked]


@pytest.mark.parametrize("method", ["POST", "PATCH", "post"])
def test_what_http_says_is_not_idempotent_has_the_key_of_its_call(method: str) -> None:
    assert keys((method, {})) == ["id"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_what_is_idempotent_has_none(method: str) -> None:
    assert keys((method, {})) == [None]


def test_a_name_makes_a_key_of_its_own() -> None:
    assert keys(("POST", {"key": "reserve"}), ("POST", {"key": "pay"}), ("PUT", {"key": "note"}), ("POST", {})) == [
        "id-reserve", "id-pay", "id-note", "id",
    ]  # fmt: skip


def test_what_the_function_says_itself_wins() -> None:
    assert keys(("POST", {"headers": {"idempotency-key": "mine"}}), ("POST", {"key": None})) == [None, None]


@pytest.mark.parametrize("said", [{}, {"key": "pay"}])
def test_no_key_is_sent_twice_in_a_try(said: dict[str, Any]) -> None:
    with pytest.raises(ClientMisused, match='say key="NAME" for each, or key=None'):
        keys(("POST", said), ("PATCH", said))


def test_in_a_batch_only_keys_with_a_name_are_sent() -> None:
    """It is not the same at each try: the key of one request would stand for others."""
    assert keys(("POST", {}), ("POST", {"key": "all"}), batch=True) == [None, "id-all"]


def asks(function: Any, **settings: Any) -> fs.Graph:
    graph = fs.Graph("asks")
    graph.source("items", str).call(fs.call(**settings)(function)).sink("out")
    return graph


async def over_http(item: str, call: fs.Call) -> str:
    await call.http.post(URL)
    return item


async def in_redis(item: str, call: fs.Call) -> str:
    return str(call.redis(item))


async def in_postgres(item: str, call: fs.Call) -> str:
    return str(call.postgres(item))


def plainly(item: str, call: fs.Call) -> str:
    return str(call.redis(item))


def test_a_graph_runs_with_the_clients_of_a_test() -> None:
    service = Service()
    with clients(http=service, redis={"cache": "a cache"}):
        asks(over_http).run(items=["one", "two"])
        assert asks(in_redis).run(items=["cache"]) == {"out": ["a cache"]}
    assert len({headers["Idempotency-Key"] for _, headers in service.asked}) == 2


@pytest.mark.parametrize(
    ("function", "given"),
    [(over_http, "http=..."), (in_redis, "redis={'cache': ...}"), (in_postgres, "postgres={'cache': ...}")],
)
def test_without_them_it_says_how_to_give_some(function: Any, given: str) -> None:
    with pytest.raises(UserError) as caught:
        asks(function).run(items=["cache"])
    assert f"flamestream.testing.clients({given})" in str(caught.value)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (over_http, "this test gives no HTTP client"),
        (in_redis, "this test gives no redis client 'counts': it gives 'cache'"),
        (in_postgres, "this test gives no postgres client 'counts': it gives none"),
        (plainly, "call.redis('counts') is for async functions"),
    ],
)
def test_what_a_test_does_not_give_is_told(function: Any, said: str) -> None:
    with clients(redis={"cache": 1}), pytest.raises(UserError) as caught:
        asks(function).run(items=["counts"])
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("seconds", "said", "expected"),
    [
        (30.0, {}, (5.0, 30.0, 30.0, 30.0)),
        (0.5, {}, (0.5, 0.5, 0.5, 0.5)),
        (30.0, {"timeout": 2.0}, 2.0),
    ],
)
def test_a_request_has_the_time_of_its_try(seconds: float, said: dict[str, Any], expected: Any) -> None:
    """And not httpx2's own 5 s, which is less than many a model takes."""
    given: dict[str, Any] = {}

    class Noting:
        async def request(self, method: str, url: str, **options: Any) -> None:
            given.update(options)

    client: Any = Noting()
    asyncio.run(Http(client, "id", set(), seconds).get(URL, **said))
    assert given["timeout"] == expected
