"""The client that functions of calls ask Redis with: redis-py's own, for asyncio, over a bounded pool.

The client's own retries are not used: a command whose answer is lost may have taken effect, and whether it is
tried again is for the call to say.

Keeps: no more connections than it was told. Does not: check whether the server keeps what it acknowledges.
"""

import os
from contextlib import AbstractAsyncContextManager
from typing import Any

from flamestream.connectors.kit.server import password_in
from flamestream.connectors.redis.server import CONNECT_SECONDS, described, parameters


class _Login:
    """redis-py's credential provider: user and password, read for each connection."""

    def __init__(self, user: str | None, password_file: str | None, where: str) -> None:
        self._user, self._file, self._where = user, password_file, where

    def get_credentials(self) -> tuple[str, ...]:
        password = os.environ["REDISCLI_AUTH"] if self._file is None else password_in(self._file, self._where)
        return (password,) if self._user is None else (self._user, password)

    async def get_credentials_async(self) -> tuple[str, ...]:
        return self.get_credentials()


def client(
    url: str, password_file: str | None, connections: int, application: str
) -> AbstractAsyncContextManager[Any]:
    """A redis.asyncio.Redis, which `async with` closes. `application` is its connections' name in CLIENT
    LIST. Raises UserError for a password that cannot be read."""
    from redis.asyncio import BlockingConnectionPool, Redis
    from redis.asyncio.connection import parse_url
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    where = described(parameters(url))
    given: dict[str, Any] = dict(parse_url(url))
    if password_file is not None or "REDISCLI_AUTH" in os.environ:
        login = _Login(given.pop("username", None), password_file, where)
        login.get_credentials()  # for what it raises
        given["credential_provider"] = login
    if "path" not in given:
        given |= {"socket_connect_timeout": CONNECT_SECONDS, "socket_keepalive": True}
    pool = BlockingConnectionPool(
        max_connections=connections,
        timeout=None,
        client_name=application,
        retry=Retry(NoBackoff(), 0),
        **given,
    )
    made: AbstractAsyncContextManager[Any] = Redis.from_pool(pool)
    return made
