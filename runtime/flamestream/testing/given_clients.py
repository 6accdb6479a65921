"""Clients of a test's own, in the place of those that a job opens for its calls.

>>> import flamestream as fs
>>> from flamestream.testing import clients
>>> class Stock:
...     async def request(self, method, url, **said):
...         return {"left": 3}
>>> @fs.call
... async def left(article: str, call: fs.Call) -> int:
...     return (await call.http.get(f"http://stock/{article}"))["left"]
>>> graph = fs.Graph("stock")
>>> graph.source("articles", str).call(left).sink("left")
>>> with clients(http=Stock()):
...     graph.run(articles=["pen"])
{'left': [3]}

Keeps: idempotency keys as a job sends them. Does not: open or close what it is given.
"""

from collections.abc import Mapping
from contextvars import Token
from types import TracebackType
from typing import Any, Final

from flamestream.asking import CLIENTS, awaitable_here
from flamestream.model.calls.clients import Call, ClientMisused, Clients, Http

_NONE: Final = "this test gives no {} client {!r}: it gives {}"


class GivenClients:
    """Clients of a test: for `fs.Call(id, clients=...)`, and around `graph.run`."""

    def __init__(self, http: Any, named: Mapping[str, Mapping[str, Any]]) -> None:
        self._http, self._named = http, named
        self._before: Token[Clients] | None = None

    def http(self, call: Call) -> Http:
        """HTTP for one try."""
        awaitable_here("http")
        if self._http is None:
            raise ClientMisused("this test gives no HTTP client: flamestream.testing.clients(http=...)")
        return Http(self._http, call.id, call.keys)

    def named(self, kind: str, name: str) -> Any:
        """The object that the test gave for this kind under the name. Raises ClientMisused if it gave
        none."""
        awaitable_here(f"{kind}({name!r})")
        there = self._named[kind]
        if name not in there:
            raise ClientMisused(_NONE.format(kind, name, ", ".join(map(repr, there)) or "none"))
        return there[name]

    def __enter__(self) -> "GivenClients":
        self._before = CLIENTS.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._before is not None, "it was entered"
        CLIENTS.reset(self._before)


def clients(
    *, http: Any = None, postgres: Mapping[str, Any] | None = None, redis: Mapping[str, Any] | None = None
) -> GivenClients:
    """Give a test's own objects as `call.http`, `call.postgres(name)` and `call.redis(name)`.

    `http` has `request` and `stream` as an httpx2.AsyncClient has them: one with an httpx2.MockTransport, or
    an object of the test's. `postgres` and `redis` say by name what a function gets. Use it around
    `graph.run`, whose calls are each made in a loop of their own, or as `fs.Call("id", clients=...)` to call
    the function itself.
    """
    return GivenClients(http, {"postgres": postgres or {}, "redis": redis or {}})
