"""A connection to Redis, and whose fault its errors are.

| what the server says                                                | becomes    | what happens |
|---------------------------------------------------------------------|------------|-----|
| connection lost or refused, loading, a replica, full, busy, no disk | ServerAway | tried again |
| the keys moved to another node of the cluster                       | ServerAway | tried again there |
| wrong password or user, before it ever worked                       | UserError  | the job ends and says so |
| the same later (a password is being changed)                        | ServerAway | tried again |
| missing right, a key that holds something else                      | UserError  | the job ends and says so |

What is acknowledged has to be on the disk, so a server is refused that keeps no append-only file, that
answers before it has synced it, or that may evict our keys.

The client's own retries are not used: after a lost answer the slots have to be opened again
(connectors/redis/sink.py).

Keeps: passwords are in no message. Does not: retry (loop/background.py).
"""

import os
from collections.abc import Callable
from typing import Any, Final, Protocol

from flamestream.connectors.kit.server import ServerAway, password_in
from flamestream.model.errors import UserError

CONNECT_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 15.0
"""A server that does not answer for so long is away."""
_AWAY: Final = ("BUSY", "MISCONF", "NOREPLICAS", "UNBLOCKED", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "ASK ")
_OF_URL: Final = frozenset({"host", "port", "db", "username", "path", "connection_class"})
_OF_TLS: Final = frozenset(
    {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname"}
)


class Connection(Protocol):
    """The part of redis-py's connections that is used."""

    def connect(self) -> None: ...
    def disconnect(self) -> None: ...
    def send_command(self, *parts: object) -> None: ...
    def read_response(self) -> Any: ...


class Server:
    """A server as one adapter sees it: at most one connection, made when it is needed."""

    def __init__(
        self, url: str, password_file: str | None, application: str, *, durable: bool = True
    ) -> None:
        """`application` is the connection's name in CLIENT LIST. Raises ValueError for a `url` that is
        none."""
        self._given = parameters(url)
        self._password_file = password_file
        self._application = application
        self._durable = durable
        self.where = described(self._given)
        """The server as messages name it."""
        self._connection: Connection | None = None
        self._moved: tuple[str, int] | None = None
        """The cluster's node that has our keys, if another one told."""
        self._proved = False

    def connected(self, prepare: Callable[[], None] = lambda: None) -> None:
        """Have a connection; `prepare` is called behind a new one, and may `call`. Raises ServerAway or
        UserError."""
        if self._connection is not None:
            return
        try:
            self._connect()
            if self._durable:
                self._check_durable()
            prepare()
        except BaseException:
            self.hang_up()
            raise
        self._proved = True

    def call(self, *command: object) -> Any:
        """The answer of one command. Raises ServerAway or UserError."""
        from redis import exceptions  # an extra

        if self._connection is None:
            raise ServerAway(f"{self.where}: the connection is lost")
        try:
            self._connection.send_command(*command)
            return self._connection.read_response()
        except (exceptions.RedisError, OSError) as error:
            raise self._judged(error) from error

    def script(self, source: str, digest: str, keys: list[str], *arguments: object) -> Any:
        """The answer of a script; the server is sent its source only if it does not know it."""
        from redis.exceptions import NoScriptError  # an extra

        try:
            return self.call("EVALSHA", digest, len(keys), *keys, *arguments)
        except UserError as error:
            if not isinstance(error.__cause__, NoScriptError):
                raise
        return self.call("EVAL", source, len(keys), *keys, *arguments)

    def hang_up(self) -> None:
        """Let the connection go."""
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None

    # --- connecting -----------------------------------------------------------------------------------------

    def _connect(self) -> None:
        from redis import Connection, exceptions  # an extra

        given = dict(self._given)
        kind = given.pop("connection_class", Connection)
        if self._moved is not None:
            given["host"], given["port"] = self._moved
            if given.pop("path", None) is not None:
                kind = Connection
        if password := self._password():
            given["password"] = password
        if "path" not in given:
            given |= {"socket_connect_timeout": CONNECT_SECONDS, "socket_keepalive": True}
        # RESP2: a map comes as a list of names and values by turns there, and answers are read so here.
        made = kind(**given, socket_timeout=ANSWER_SECONDS, protocol=2, client_name=self._application)
        try:
            made.connect()
        except (exceptions.RedisError, OSError) as error:
            # The node that was told may be gone: the next try asks the given one again.
            self._moved = None
            raise self._judged(error) from error
        self._connection = made

    def _password(self) -> str | None:
        if self._password_file is None:
            return os.environ.get("REDISCLI_AUTH")
        return password_in(self._password_file, self.where)

    def _check_durable(self) -> None:
        found = self._settings()
        keep = "a server that forgets what it acknowledged cannot be exactly-once"
        if found.get("appendonly") != "yes":
            raise UserError(
                f"{self.where}: appendonly is {found.get('appendonly')}: {keep}; "
                f"set `appendonly yes` {_INSTEAD}"
            )
        if found.get("appendfsync") != "always":
            raise UserError(
                f"{self.where}: appendfsync is {found.get('appendfsync')}: {keep}; "
                f"set `appendfsync always` {_INSTEAD}"
            )
        # While it rewrites its file such a server answers without a sync.
        if found.get("no-appendfsync-on-rewrite") == "yes":
            raise UserError(
                f"{self.where}: no-appendfsync-on-rewrite is yes: {keep}; "
                f"set `no-appendfsync-on-rewrite no` {_INSTEAD}"
            )
        # Policies for keys that expire (`volatile-`) leave ours alone, which never do.
        policy = found.get("maxmemory-policy", "")
        if found.get("maxmemory") != "0" and policy.startswith("allkeys-"):
            raise UserError(
                f"{self.where}: maxmemory-policy is {policy}, so it may evict what the sink has to keep; set "
                f"`maxmemory-policy noeviction` {_INSTEAD}"
            )

    def _settings(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for pattern in ("*append*", "maxmemory*"):
            try:
                told = [part.decode() for part in self.call("CONFIG", "GET", pattern)]
            except UserError as error:
                raise UserError(
                    f"{error}; whether the server keeps what it acknowledges is asked with CONFIG GET: allow "
                    f"it (ACL `+config|get`) {_INSTEAD}"
                ) from error
            found |= dict(zip(told[::2], told[1::2], strict=True))
        return found

    # --- errors ---------------------------------------------------------------------------------------------

    def _judged(self, error: Exception) -> Exception:
        """Errors of redis-py become ours. A connection that may be lost is let go; after any of these the
        slots are opened again."""
        from redis import exceptions as e  # an extra

        message = f"{self.where}: {' '.join(str(error).split())}"
        if isinstance(error, e.NoScriptError):
            return UserError(message)  # the connection stays
        self.hang_up()
        # older redis-py has it as a text
        if isinstance(error, e.MovedError) or str(error).startswith("MOVED "):
            host, _, port = str(error).rpartition(" ")[2].rpartition(":")
            self._moved = (host or str(self._given.get("host", "localhost")), int(port))
            return ServerAway(f"{self.where}: the keys are at {self._moved[0]}:{self._moved[1]}")
        if isinstance(error, (e.AuthenticationError, e.AuthorizationError)):
            if self._proved:
                return ServerAway(message)
            return UserError(
                f"{message}; give the user in `url`, and the password by REDISCLI_AUTH or `password_file`"
            )
        away = (
            e.ConnectionError,
            e.TimeoutError,
            e.ReadOnlyError,
            e.OutOfMemoryError,
            e.TryAgainError,
            e.ClusterDownError,
            e.AskError,
        )
        if isinstance(error, (*away, OSError)) or str(error).startswith(_AWAY):
            return ServerAway(message)
        return UserError(message)


_INSTEAD: Final = "(or `durable: false` with guarantee: at-least-once)"


def parameters(url: str) -> dict[str, Any]:
    """The settings in a `url`, as redis-py's connections have them. Raises ValueError."""
    from redis.connection import parse_url  # an extra

    try:
        given: dict[str, Any] = dict(parse_url(url))
    except ValueError as error:
        raise ValueError(
            f"`url` is not one of Redis, like redis://user@host:6379/0, rediss:// or unix://: {error}"
        ) from None
    if "password" in given:
        raise ValueError(
            "a password does not belong into a manifest: use REDISCLI_AUTH or `password_file`, "
            "and leave it out of `url` (redis://user@host:6379)"
        )
    if strange := sorted(given.keys() - _OF_URL - _OF_TLS):
        raise ValueError(
            f"`url` may not set {', '.join(strange)}; behind the `?` stand {', '.join(sorted(_OF_TLS))}"
        )
    return given


def described(given: dict[str, Any]) -> str:
    """The address and database, without secrets."""
    place = given.get("path") or f"{given.get('host', 'localhost')}:{given.get('port', 6379)}"
    return f"Redis {place}/{given.get('db', 0)}"
