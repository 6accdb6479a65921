"""The pool that functions of calls ask PostgreSQL with: psycopg's own.

Connections are made when they are needed. A function has one for as long as its `async with` lasts; one that
is cancelled meanwhile, by the end of its try, gives it back rolled back. psycopg makes connections beside
those who wait for one and tells its log alone why it could not: this one tells them as well.

Keeps: no more connections than it was told; passwords are in no message. Does not: try a statement again.
"""

from collections.abc import Callable
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection, conninfo
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from flamestream.connectors.kit.server import password_in
from flamestream.connectors.postgres.server import SOON_LOST, described, parameters, told
from flamestream.model.errors import UserError

Connection = AsyncConnection[tuple[Any, ...]]
REFUSED_SECONDS: Final = 1.0
"""The longest that somebody waits for a connection while none can be made."""
GIVES_UP: Final = 10.0
"""Seconds of tries to connect, with pauses that double; who asks next begins anew, with short ones."""


class NotConnected(ConnectionError):
    """A pool has no connection to give, and can make none."""


class Pool(AsyncConnectionPool[Connection]):
    """psycopg's, whose waiting ends with the reason where there is one."""

    def __init__(self, said: Callable[[], str], connections: int, where: str) -> None:
        """`said` gives the connection string of the next connection; `where` names the server."""
        self._where = where
        self._refusal = ""
        """Why the newest connection could not be made; empty if it was."""
        super().__init__(
            said, min_size=0, max_size=connections, open=False, name=where, reconnect_timeout=GIVES_UP
        )

    async def getconn(self, timeout: float | None = None) -> Connection:
        """A connection. Raises NotConnected, or PoolTimeout."""
        refused = bool(self._refusal)
        try:
            return await super().getconn(REFUSED_SECONDS if refused and timeout is None else timeout)
        except PoolTimeout:
            if not (refused and self._refusal):
                raise
            raise NotConnected(self._refusal) from None

    async def _connect(self, timeout: float | None = None) -> Connection:
        try:
            made = await super()._connect(timeout)
        except psycopg.Error as error:
            self._refusal = f"{self._where}: {told(error)}"
            raise
        except UserError as error:  # of `said`, which names the server
            self._refusal = str(error)
            raise
        self._refusal = ""
        return made


def pool(dsn: str, password_file: str | None, connections: int, application: str) -> Pool:
    """A pool that is opened by `async with`. `application` is its connections' name in pg_stat_activity.
    Raises UserError for a password that cannot be read."""
    given = {**SOON_LOST, **parameters(dsn), "application_name": application}
    where = described(given)

    def said() -> str:
        if password_file is not None:
            given["password"] = password_in(password_file, where)
        return conninfo.make_conninfo(**given)

    said()  # for what it raises: later on nobody would hear it
    return Pool(said, connections, where)
