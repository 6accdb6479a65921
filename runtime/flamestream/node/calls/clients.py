"""The clients of a caller's process: opened once, shared by all its calls, closed with it.

HTTP is opened when a function first asks for it; what the manifest's `spec.clients` names is there from the
start, and connects when it is needed.

    call.http               -> one httpx2.AsyncClient: HTTP/2 where the server has it, no cookies
    call.postgres("orders") -> a pool of psycopg's          (connectors/postgres/client.py)
    call.redis("cache")     -> a client of redis-py         (connectors/redis/client.py)

Keeps: a bound for the connections of each. Does not: decide what may be reached (egress.py).
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Final

from flamestream.asking import awaitable_here
from flamestream.model.calls.clients import Call, ClientMisused, Http

if TYPE_CHECKING:
    from httpx2 import AsyncClient

    from flamestream.connectors.clients import ClientSettings

CLOSES: Final = 5.0
"""Seconds in which all of them close: behind that the process ends with them."""
MOST_HTTP: Final = 1_000
"""Connections over HTTP, if so many calls may run at once."""
_CHATTY: Final = ("httpx2", "httpcore2", "psycopg.pool")
"""Loggers with a line for each request, which has its URL."""


class OpenClients:
    """The open clients of one process. `settings` are the manifest's, each with its kind and by its name."""

    def __init__(self, settings: Mapping[str, tuple[str, "ClientSettings"]], at_once: int) -> None:
        """`at_once`: how many tries may run at once."""
        self._settings, self._http_connections = settings, min(at_once, MOST_HTTP)
        self._open = AsyncExitStack()
        self._named: dict[tuple[str, str], Any] = {}
        self._http: AsyncClient | None = None

    async def open(self, application: str) -> None:
        """Open the manifest's clients; none is connected yet. Raises UserError for a password that cannot be
        read."""
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)
        for name, (kind, each) in self._settings.items():
            self._named[kind, name] = await self._open.enter_async_context(each.opened(application))

    async def close(self) -> None:
        """Close all connections, within CLOSES seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSES):
                await self._open.aclose()

    def http(self) -> "AsyncClient":
        """The client for HTTP. Raises ClientMisused if its package is not there."""
        if self._http is None:
            self._http = _http_client(self._http_connections)
            self._open.push_async_callback(self._http.aclose)
        return self._http

    def named(self, kind: str, name: str) -> Any:
        """The manifest's client of a kind and name. Raises ClientMisused if there is none."""
        if (found := self._named.get((kind, name))) is not None:
            return found
        there = ", ".join(f"{name!r} ({kind})" for kind, name in self._named) or "none"
        raise ClientMisused(
            f"call.{kind}({name!r}): spec.clients has no {kind} client of this name: it has {there}"
        )


@dataclass(frozen=True, slots=True)
class ClientsOfCall:
    """`model.calls.clients.Clients` for the tries of one function, each of which has `seconds`."""

    opened: OpenClients
    seconds: float

    def http(self, call: Call) -> Http:
        """HTTP for one try."""
        awaitable_here("http")
        return Http(self.opened.http(), call.id, call.keys, self.seconds)

    def named(self, kind: str, name: str) -> Any:
        """The client of this kind that has the name."""
        awaitable_here(f"{kind}({name!r})")
        return self.opened.named(kind, name)


def _http_client(connections: int) -> "AsyncClient":
    try:
        import h2  # noqa: F401 (what httpx2 speaks HTTP/2 with)
        from httpx2 import AsyncClient, Limits
    except ImportError as error:
        raise ClientMisused(
            f"call.http needs the package httpx2 ({error}): pip install 'flamestream[http]'"
        ) from None
    # (!) What a service sets for one request is none of another's: it could be of another customer.
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    limits = Limits(max_connections=connections, max_keepalive_connections=connections)
    return AsyncClient(http2=True, cookies=no_cookies, limits=limits)
