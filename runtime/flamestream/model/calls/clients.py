"""`fs.Call`: what a function of a call is told, and the clients that it asks the outside with.

A job opens them in the process that makes a worker's calls (node/calls/clients.py); a test gives its own
(flamestream.testing.clients).

Keeps: an idempotency key is sent with one request of a try (!). Does not: open or close a connection.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, Unpack

if TYPE_CHECKING:  # types alone: each is an extra
    from httpx2 import AsyncClient, Response
    from psycopg_pool import AsyncConnectionPool
    from redis.asyncio import Redis

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
EFFECTS: Final = frozenset({"POST", "PATCH"})
"""Methods whose requests are made again with another effect, by HTTP's own rules."""
CONNECTS: Final = 5.0
"""Seconds at most, of the time of a try, for a connection to be made."""


class ClientMisused(Exception):
    """A function of a call asks for a client that there is not, or in a way that cannot work. No other try
    could mend that."""


class HttpOptions(TypedDict, total=False):
    """Options of a request beside its method and URL: `key`, and httpx2's own."""

    params: Mapping[str, Any]
    headers: Mapping[str, str]
    content: bytes | str
    data: Mapping[str, Any]
    files: Mapping[str, Any]
    json: Any
    auth: Any
    follow_redirects: bool
    """False if not said, as httpx2 has it."""
    timeout: float
    """Seconds for each step of the request; the time of the try if not said."""
    key: str | None
    """A text that tells the idempotency key of this request from that of its call."""


class Http:
    """HTTP for a function of a call: httpx2's client, whose connections all calls of a worker share.

    A POST or PATCH has the header `Idempotency-Key`, with `call.id`: the same for each try. Another one of
    the same try needs a name (`key="refund"`), which is put behind the id; `key=None` sends none. In a batch,
    which is not the same at each try, only keys with a name are sent. A header of the function's own wins.
    Cookies are not kept.
    """

    def __init__(
        self, client: "AsyncClient", call: str, keys: set[str] | None, seconds: float | None = None
    ) -> None:
        """`call` is the call's id, `keys` the names that its try has used (None: a batch's), `seconds` the
        time of a try."""
        self.client = client
        """httpx2's own, for what this has not."""
        self._call, self._keys, self._seconds = call, keys, seconds

    async def request(self, method: str, url: str, **options: Unpack[HttpOptions]) -> "Response":
        """The response to a request, whatever its status. Raises ClientMisused for a key that is used
        already, and what httpx2 raises."""
        return await self.client.request(method, url, **self._said(method, options))

    def stream(
        self, method: str, url: str, **options: Unpack[HttpOptions]
    ) -> "AbstractAsyncContextManager[Response]":
        """The response to a request with a body that is read piece by piece: `async with`. Raises as
        `request` does."""
        return self.client.stream(method, url, **self._said(method, options))

    async def get(self, url: str, **options: Unpack[HttpOptions]) -> "Response":
        """`request` with GET."""
        return await self.request("GET", url, **options)

    async def head(self, url: str, **options: Unpack[HttpOptions]) -> "Response":
        """`request` with HEAD."""
        return await self.request("HEAD", url, **options)

    async def post(self, url: str, **options: Unpack[HttpOptions]) -> "Response":
        """`request` with POST, and the call's idempotency key."""
        return await self.request("POST", url, **options)

    async def put(self, url: str, **options: Unpack[HttpOptions]) -> "Response":
        """`request` with PUT."""
        return await self.request("PUT", url, **options)

    async def patch(self, url: str, **options: Unpack[HttpOptions]) -> "Response":
        """`request` with PATCH, and the call's idempotency key."""
        return await self.request("PATCH", url, **options)

    async def delete(self, url: str, **options: Unpack[HttpOptions]) -> "Response":
        """`request` with DELETE."""
        return await self.request("DELETE", url, **options)

    def _said(self, method: str, options: HttpOptions) -> dict[str, Any]:
        """The options as httpx2 takes them."""
        said: dict[str, Any] = {**options}
        key, headers = said.pop("key", ""), {**said.get("headers", {})}
        own = any(name.lower() == IDEMPOTENCY_KEY.lower() for name in headers)
        if not own and key is not None and (key or (method.upper() in EFFECTS and self._keys is not None)):
            headers[IDEMPOTENCY_KEY] = self._key(key)
        if self._seconds is not None:
            connects = min(CONNECTS, self._seconds)
            said.setdefault("timeout", (connects, self._seconds, self._seconds, self._seconds))
        return {**said, "headers": headers}

    def _key(self, name: str) -> str:
        # (!) A service answers a key that it knows with what it did first: a second request would be lost.
        if self._keys is not None:
            if name in self._keys:
                key = f"key={name!r}" if name else "its call's idempotency key"
                raise ClientMisused(
                    f"this try has sent a request with {key} already, and a service would take the next for "
                    'the same one: say key="NAME" for each, or key=None for one that may be made twice'
                )
            self._keys.add(name)
        return f"{self._call}-{name}" if name else self._call


class Clients(Protocol):
    """Where the clients of calls come from. Each raises ClientMisused where there is none."""

    def http(self, call: "Call") -> Http:
        """HTTP for one try."""
        ...

    def named(self, kind: str, name: str) -> Any:
        """The client of this kind that has the name."""
        ...


class NoClients:
    """`Clients` where nobody has opened any: of a call that is made outside a job."""

    def http(self, call: "Call") -> Http:
        raise ClientMisused(_NONE.format("http", "http=..."))

    def named(self, kind: str, name: str) -> Any:
        raise ClientMisused(_NONE.format(f"{kind}({name!r})", f"{kind}={{{name!r}: ...}}"))


_NONE: Final = (
    "call.{} is opened by a job alone, and this call is not made by one: give it what it asks, "
    "with flamestream.testing.clients({})"
)
NO_CLIENTS: Final = NoClients()


@dataclass(frozen=True, slots=True)
class Call:
    """A call as its function is given it, beside the item: its id, the number of the try, and clients to ask
    with."""

    id: str
    """The same for every try of this request, through crashes, rescales and upgrades: for a service that
    knows what it did already (an `Idempotency-Key`)."""
    attempt: int = 1
    """The number of this try, from 1. A worker that began anew counts anew."""
    clients: Clients = field(default=NO_CLIENTS, repr=False, compare=False)
    """Where `http`, `postgres` and `redis` come from: a job's, or a test's."""
    keys: set[str] | None = field(default_factory=set, repr=False, compare=False)
    """The names of idempotency keys that this try has sent; None in a batch."""

    @property
    def http(self) -> Http:
        """HTTP, for async functions. Raises ClientMisused where there is none."""
        return self.clients.http(self)

    def postgres(self, name: str) -> "AsyncConnectionPool":
        """The pool of psycopg that the manifest's `spec.clients` has under this name, for async functions.
        Raises ClientMisused if it has none."""
        pool: AsyncConnectionPool = self.clients.named("postgres", name)
        return pool

    def redis(self, name: str) -> "Redis":
        """The client of redis-py that the manifest's `spec.clients` has under this name, for async functions.
        Raises ClientMisused if it has none."""
        client: Redis = self.clients.named("redis", name)
        return client
