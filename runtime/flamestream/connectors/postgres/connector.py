"""The postgres kinds of a manifest: a table that is read as a change log, one that results are rows of, and a
pool of connections for calls (docs/reference/postgres.md).

Does not: connect (server.py), or import psycopg before it is used: it is an extra.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from flamestream.connectors.kit import connector as kit
from flamestream.connectors.kit.blocking import BlockingConsumer
from flamestream.connectors.kit.item_columns import SPECIAL
from flamestream.connectors.kit.producer import ServerProducer
from flamestream.connectors.kit.spec import need
from flamestream.connectors.kit.standing import Place
from flamestream.fenced.reading import Item
from flamestream.model.errors import UserError
from flamestream.ports import Consumer, Producer


class PostgresSourceSpec(kit.SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A change log: a table whose rows are read in the order of a growing key; see
    docs/reference/postgres.md."""

    file_settings = ("password_file",)
    dsn: str
    """A connection string without a password, like postgresql://user@host:5432/database."""
    table: str
    """Its name as the catalogue has it, perhaps with a schema."""
    key: str
    """An integer column that grows, with a unique index."""
    columns: list[str]
    """Columns that a record is made of. With one, records are its values; with more, tuples."""
    follow: bool = True
    """False: end at the end of the table."""
    start: int = 0
    """The least key to read."""
    poll_ms: int = 25
    """Milliseconds between two looks at an idle table."""
    password_file: str | None = None
    """A file with the password, read at every connection."""

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("`columns` needs at least one column")
        if self.poll_ms < 1 or self.start < 0:
            raise ValueError("`poll_ms` has to be at least 1, and `start` at least 0")
        check_dsn(self.dsn)

    def traits(self, where: str) -> kit.SourceTraits:
        return kit.SourceTraits(
            timed=False, run_length=0, replayable=True, bounded=not self.follow, skips=True, start=self.start
        )

    def producer(self, context: kit.SourceContext) -> Producer:
        from flamestream.connectors.postgres.server import Server
        from flamestream.connectors.postgres.source import ChangeLog, PostgresReader

        log = ChangeLog(self.table, self.key, self.columns, self.follow, self.start, self.poll_ms / 1000)
        server = Server(self.dsn, self.password_file, f"flamestream source {context.name}"[:63])
        return ServerProducer(
            PostgresReader(server, log, context.name), context.front, context.post, context.reactor
        )

    def gives(self) -> kit.Gives:
        return kit.Gives(columns=self.columns)


class PostgresSinkSpec(kit.SinkSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table; see docs/reference/postgres.md."""

    file_settings = ("password_file",)
    reads_back = True
    dsn: str
    """A connection string without a password, like postgresql://user@host:5432/database."""
    table: str
    """An existing table, perhaps with its schema; names are as in the catalogue."""
    columns: list[str] | dict[str, str]
    """Columns, and what goes there: a field of the payload, or one of $payload, $meta, $time, $slot, $bundle,
    $sink."""
    key: list[str] = []
    """Columns that name a row: rows are replaced. Without it they are appended."""
    state: str = "flamestream_slots"
    """Our table of last bundles; many sinks may share it."""
    history: str | None = None
    """A table of this sink alone that keeps every bundle, for `cat` and `audit`."""
    password_file: str | None = None
    """A file with the password, read at every connection."""

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("`columns` needs at least one column")
        if strange := [column for column in self.key if column not in self.columns]:
            raise ValueError(f"`key` names {', '.join(strange)}, which `columns` has not")
        if strange := [
            path for path in self.sources.values() if path.startswith("$") and path not in SPECIAL
        ]:
            raise ValueError(
                f"`columns`: there is no {', '.join(strange)}; choose a field, or one of {', '.join(SPECIAL)}"
            )
        check_dsn(self.dsn)

    @property
    def sources(self) -> dict[str, str]:
        """The source of each column: a field of the payload, or one of the names with a dollar sign."""
        return self.columns if isinstance(self.columns, dict) else {column: column for column in self.columns}

    def consumer(self, context: kit.SinkContext) -> Consumer:
        from flamestream.connectors.postgres.server import Server
        from flamestream.connectors.postgres.sink import PostgresPlace, PostgresWriting

        place = PostgresPlace(self.table, self.sources, self.key, self.state, self.history)
        writing = PostgresWriting(
            Server(self.dsn, self.password_file, "flamestream"), place, context.job, context.name
        )
        return BlockingConsumer(writing, context.name, context.post, context.reactor)

    def read(self, where: str, job: str, sink: str) -> Iterator[Item]:
        if self.history is None:
            raise UserError(
                f"{where}: table {self.table} has rows, not what was delivered in which order; set `history` "
                "to keep that as well"
            )
        from flamestream.connectors.postgres.reading import read_history

        return read_history(self.dsn, self.password_file, self.history)

    def in_order(self) -> bool:
        return self.history is not None

    def place(self, job: str, sink: str) -> Place:
        from flamestream.connectors.postgres.place import TablePlace

        return TablePlace(self, sink)


class PostgresClientSpec(kit.ClientSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A pool of connections for functions of calls; see docs/how-to/calls.md."""

    file_settings = ("password_file",)
    dsn: str
    """A connection string without a password, like postgresql://user@host:5432/database."""
    connections: int = 10
    """Connections of each worker at most; who finds none waits."""
    password_file: str | None = None
    """A file with the password, read at every connection."""

    def __post_init__(self) -> None:
        if self.connections < 1:
            raise ValueError("`connections` is at least 1")
        check_dsn(self.dsn)
        need("psycopg_pool", "postgres")

    def described(self) -> str:
        from flamestream.connectors.postgres.server import described, parameters

        return described(parameters(self.dsn))

    def reached(self) -> Sequence[tuple[str, int]]:
        from flamestream.connectors.postgres.server import addresses, parameters

        return addresses(parameters(self.dsn))

    def opened(self, application: str) -> AbstractAsyncContextManager[Any]:
        from flamestream.connectors.postgres.client import pool

        return pool(self.dsn, self.password_file, self.connections, application)


def check_dsn(dsn: str) -> None:
    """Raises ValueError unless libpq understands it, or if psycopg is not installed."""
    try:
        from flamestream.connectors.postgres.server import parameters  # it is an extra
    except ImportError as error:
        raise ValueError(
            f"PostgreSQL needs the package psycopg ({error}): pip install 'flamestream[postgres]'"
        ) from None
    given = parameters(dsn)
    if "password" in given:
        raise ValueError(
            "a password does not belong into a manifest: use PGPASSWORD, ~/.pgpass or `password_file`, and "
            "leave it out of `dsn`"
        )


POSTGRES: Final = kit.Connector("postgres", PostgresSourceSpec, PostgresSinkSpec, PostgresClientSpec)
