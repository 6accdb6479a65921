"""The reader of a PostgreSQL sink's `history`: all items in the total order, for people and audits.

Keeps: per slot, bundles come in the order of their numbers, each once; a missing one is an error. One
snapshot of the database: what is delivered while it is read is not in it. Does not: read the user's table.
Memory: one slot's items at a time, and a bundle of each.
"""

from collections.abc import Iterator
from heapq import merge

from psycopg import sql

from flamestream.connectors.postgres.server import Connection, Server
from flamestream.connectors.postgres.tables import Table, find
from flamestream.fenced.reading import Item
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.meta import Meta
from flamestream.model.payload import decode_items


def read_history(dsn: str, password_file: str | None, history: str) -> Iterator[Item]:
    """All items. Raises UserError if the table is not there."""
    server = Server(dsn, password_file, "flamestream cat")
    connection = server.connection(lambda _: None)
    try:
        with server.translated(), connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            table = find(connection, history)
            if table is None:
                raise UserError(
                    f"{server.where}: there is no table {history} yet: has the job run with `history`?"
                )
            slots = connection.execute(sql.SQL("SELECT DISTINCT slot FROM {}").format(table.sql)).fetchall()
            yield from merge(
                *(_items(connection, table, Slot(slot)) for (slot,) in slots), key=lambda item: item[0]
            )
    finally:
        server.hang_up()


def _items(connection: Connection, table: Table, slot: Slot) -> Iterator[Item]:
    had = 0
    statement = sql.SQL(
        "SELECT sequence, items FROM {} WHERE slot = {} AND sequence > %s ORDER BY sequence LIMIT 64"
    ).format(table.sql, slot)
    while page := connection.execute(statement, (had,), binary=True).fetchall():
        for sequence, items in page:
            if sequence != had + 1:
                raise Corrupt(
                    f"table {table.name}: bundle {sequence} of slot {slot} follows {had}: rows were deleted"
                )
            had = sequence
            for meta, value in decode_items(items):
                yield Meta(meta), slot, SequenceNumber(sequence), value
