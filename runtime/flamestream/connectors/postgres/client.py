"""The pool that functions of calls ask PostgreSQL with: psycopg's own.

Connections are made when they are needed. A function has one for as long as its `async with` lasts; one that is
cancelled meanwhile, by the end of its try, gives it back rolled back.

Keeps: no more connections than it was told. Does not: try a statement again.
"""

from psycopg import conninfo
from psycopg_pool import AsyncConnectionPool

from flamestream.connectors.kit.server import password_in
from flamestream.connectors.postgres.server import SOON_LOST, described, parameters


def pool(dsn: str, password_file: str | None, connections: int, application: str) -> AsyncConnectionPool:
    """A pool that is opened by `async with`. `application` is its connections' name in pg_stat_activity.
    Raises UserError for a password that cannot be read."""
    given = {**SOON_LOST, **parameters(dsn), "application_name": application}
    where = described(given)

    def told() -> str:
        if password_file is not None:
            given["password"] = password_in(password_file, where)
        return conninfo.make_conninfo(**given)

    told()  # for what it raises: later on nobody would hear it
    return AsyncConnectionPool(told, min_size=0, max_size=connections, open=False, name=where)
