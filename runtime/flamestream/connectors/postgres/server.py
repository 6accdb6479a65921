"""A connection to PostgreSQL, and whose fault its errors are.

| what the server says                                                 | becomes    | what happens |
|----------------------------------------------------------------------|------------|-----|
| connection lost or refused, starting, shutting down, read-only, full | ServerAway | tried again |
| deadlock, serialization failure, a lock that is not given            | ServerAway | tried again |
| a prepared statement's result has other types: a table was altered   | ServerAway | looked at anew |
| wrong password, no such role or database, before it ever worked      | UserError  | the job ends and says so |
| the same later (a password is being changed)                         | ServerAway | tried again |
| missing table or right, wrong type, violated constraint              | UserError  | the job ends and says so |
| damaged data (class XX)                                              | Corrupt    | the job ends and says so |

A connection is lost at the latest some 15 s after the network is (keepalives, tcp_user_timeout); what the
user's `dsn` says about these wins. No statement waits for a lock longer than LOCK_SECONDS. A commit is
durable when it is acknowledged: `synchronous_commit: off` is refused.

Keeps: passwords are in no message. Does not: retry (loop/background.py, connectors/kit/producer.py).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg import conninfo, pq

from flamestream.connectors.kit.server import ServerAway, password_in
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.quoted import quoted

Connection = psycopg.Connection[tuple[Any, ...]]

LOCK_SECONDS: Final = 2
PORT: Final = 5432
_ABOUT_VALUES: Final = ("22", "23")
"""Classes of SQLSTATE: data exceptions, and constraints that are violated."""
SOON_LOST: Final = {
    "connect_timeout": "5",
    "tcp_user_timeout": "10000",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "4",
}
"""Parameters of a connection that is lost soon after its network."""
_DEFAULTS: Final = {**SOON_LOST, "target_session_attrs": "read-write"}
# 08 connection, 40 rolled back, 53 resources, 55 locks, 57 shut down or cancelled, 58 the system; 25006 is a
# server that only reads.
_AWAY_CLASSES: Final = frozenset({"08", "40", "53", "55", "57", "58"})
_AWAY: Final = frozenset({"25006"})
_REFUSED: Final = (
    "authentication failed",
    "no pg_hba.conf entry",
    "does not exist",
    "no password supplied",
    "permission denied",
    "not permitted",
)
"""Words by which a server's refusal to let somebody in is known; libpq gives no SQLSTATE for it."""


class Server:
    """A server as one adapter sees it: at most one connection, made when it is needed."""

    def __init__(self, dsn: str, password_file: str | None, application: str) -> None:
        """`application` is the connection's name in pg_stat_activity. Raises UserError for a `dsn` that libpq
        does not understand."""
        self._password_file = password_file
        self._given = parameters(dsn)
        self.application = application
        self.where = described(self._given)
        """The server as messages name it."""
        self._connection: Connection | None = None
        self._proved = False

    def connection(self, prepare: Callable[[Connection], None]) -> Connection:
        """The connection; `prepare` is called with a new one. Raises ServerAway or UserError."""
        if self._connection is None or self._connection.closed:
            self.hang_up()
            made = self._connect()
            try:
                with self.translated():
                    _check_durable(made, self.where)
                    prepare(made)
            except BaseException:
                made.close()
                raise
            self._connection, self._proved = made, True
        return self._connection

    def hang_up(self) -> None:
        """Let the connection go."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Errors of psycopg become ours. A connection that was lost is let go."""
        try:
            yield
        except psycopg.Error as error:
            if self._connection is not None and (self._connection.closed or self._connection.broken):
                self.hang_up()
            raise self._judged(error) from error

    def _judged(self, error: psycopg.Error) -> Exception:
        state, message = error.sqlstate, f"{self.where}: {told(error)}"
        if isinstance(error, psycopg.errors.FeatureNotSupported) and "cached plan" in message:
            self.hang_up()  # a table was altered: who opens anew looks at it again
            return ServerAway(message)
        if state is None or state[:2] in _AWAY_CLASSES or state in _AWAY:
            return ServerAway(message)
        return Corrupt(message) if state[:2] == "XX" else UserError(message)

    def _connect(self) -> Connection:
        given = {**_DEFAULTS, **self._given, "application_name": self.application}
        # The user's options stand last, and so win; `_check_durable` looks at what came of them.
        given["options"] = (
            f"-c synchronous_commit=on -c lock_timeout={LOCK_SECONDS}s {self._given.get('options', '')}".strip()
        )
        if self._password_file is not None:
            given["password"] = password_in(self._password_file, self.where)
        try:
            return psycopg.connect(conninfo.make_conninfo(**given), autocommit=True, prepare_threshold=1)
        except psycopg.Error as error:
            message = f"{self.where}: {told(error)}"
            if not self._proved and any(part in message for part in _REFUSED):
                raise UserError(
                    f"{message}; give user, password (PGPASSWORD, ~/.pgpass or `password_file`) and database"
                ) from None
            raise ServerAway(message) from None


def parameters(dsn: str) -> dict[str, str]:
    """The parameters in a `dsn` (postgresql://... or key=value pairs). Raises ValueError."""
    try:
        return {
            str(name): str(value)
            for name, value in conninfo.conninfo_to_dict(dsn).items()
            if value is not None
        }
    except psycopg.ProgrammingError as error:
        raise ValueError(
            f"`dsn` is not a PostgreSQL connection string, like postgresql://user@host:5432/database: {error}"
        ) from None


def described(given: dict[str, str]) -> str:
    """The address and database, without secrets. What is not given libpq takes from its environment."""
    host, port, user, database = _or_default(given, "host", "port", "user", "dbname")
    where = given.get("hostaddr") or host or "local socket"
    return f"PostgreSQL {user or '?'}@{where}:{port}/{database or user or '?'}"


def addresses(given: dict[str, str]) -> list[tuple[str, int]]:
    """Hosts and ports that libpq connects to, one after the other; none for a socket of this machine.

    >>> addresses({"host": "one,two", "port": "5433"})
    [('one', 5433), ('two', 5433)]
    """
    host, port = _or_default(given, "host", "port")
    hosts = (given.get("hostaddr") or host).split(",")
    ports = port.split(",")
    return [
        (each, int(ports[min(number, len(ports) - 1)] or PORT))
        for number, each in enumerate(hosts)
        if each and each[0] not in "/@"
    ]


def _or_default(given: dict[str, str], *names: str) -> list[str]:
    """Parameters as libpq takes them: as they are given, or else from its environment."""
    default = {option.keyword.decode(): (option.val or b"").decode() for option in pq.Conninfo.get_defaults()}
    return [given.get(name) or default.get(name, "") for name in names]


def told(error: psycopg.Error) -> str:
    """The server's message, detail and hint on a line. If it is about a value, that value is quoted, which
    may stand in it."""
    diagnosis = error.diag
    parts = (
        [diagnosis.message_primary, diagnosis.message_detail, diagnosis.message_hint]
        if diagnosis.message_primary
        else [str(error)]
    )
    text = " ".join("; ".join(filter(None, parts)).split())
    if (error.sqlstate or "")[:2] not in _ABOUT_VALUES:
        return text
    place = [
        each for each in (diagnosis.table_name, diagnosis.column_name, diagnosis.constraint_name) if each
    ]
    return f"{type(error).__name__} {' '.join(place)}: {quoted(text)}"


def _check_durable(connection: Connection, where: str) -> None:
    row = connection.execute("SHOW synchronous_commit").fetchone()
    if row == ("off",):
        raise UserError(
            f"{where}: synchronous_commit is off, so an acknowledged row may be lost in a crash; set it to "
            "on in `dsn` or leave it out"
        )
