"""A sink of one's own in 60 lines: results in a SQLite file, exactly once. docs/reference/connectors.md
explains it.

    sinks: {index: {connector: {class: sqlite_sink:SqliteSink, settings: {path: /data/index.db}}}}

Everything about a slot (its fence, its last bundle, its rows) changes in one transaction, so it is fenced and
atomic by the database.
"""

import sqlite3
from typing import Any

from flamestream.connectors.kit.ledger import Ledger
from flamestream.core.protocol.actions import Deliver, OpenSink
from flamestream.core.protocol.events import LastBundle
from flamestream.model.errors import Fenced, UserError
from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.payload import decode_items

TABLES = """
CREATE TABLE IF NOT EXISTS slots (
    slot INTEGER PRIMARY KEY, attempt INT, layout INT, sequence INT, t_last BLOB, items BLOB);
CREATE TABLE IF NOT EXISTS results (meta BLOB PRIMARY KEY, slot INT, sequence INT, result TEXT) WITHOUT ROWID;
"""
FENCE = """INSERT INTO slots VALUES (?, ?, ?, 0, NULL, NULL) ON CONFLICT (slot)
DO UPDATE SET attempt = excluded.attempt, layout = excluded.layout"""


class SqliteSink:
    """`Blocking`: one connection a worker; every call is one transaction."""

    fences = True

    def __init__(self, settings: dict[str, Any], sink: str, writer: str, job: str) -> None:
        if set(settings) != {"path"}:
            raise UserError(f"sink {sink}: its settings are {{path: FILE}}, not {settings}")
        self._path = settings["path"]
        self._database: sqlite3.Connection | None = None

    def open(self, action: OpenSink) -> dict[Slot, LastBundle]:
        with _Transaction(self._connected()) as database:
            last = _slots(database, action, newer_only=True)
            database.executemany(FENCE, [(slot, *action.fence) for slot in action.slots])
        return last

    def deliver(self, action: Deliver) -> None:
        with _Transaction(self._connected()) as database:
            for new in Ledger(_slots(database, action)).check(action.bundles):
                rows = [
                    (meta, new.slot, new.sequence, repr(result)) for meta, result in decode_items(new.items)
                ]
                database.executemany("INSERT INTO results VALUES (?, ?, ?, ?)", rows)
                database.execute(
                    "UPDATE slots SET sequence = ?, t_last = ?, items = ? WHERE slot = ?",
                    (*new[1:], new.slot),
                )

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def _connected(self) -> sqlite3.Connection:
        if self._database is None:
            self._database = sqlite3.connect(
                self._path, isolation_level=None, check_same_thread=False, timeout=5
            )
            self._database.executescript(TABLES)
        return self._database


def _slots(
    database: sqlite3.Connection, action: OpenSink | Deliver, newer_only: bool = False
) -> dict[Slot, LastBundle]:
    """Last bundles. Raises Fenced if a slot belongs to a newer fence, or (unless `newer_only`) to any
    other."""
    mine = action.slots if isinstance(action, OpenSink) else [bundle.slot for bundle in action.bundles]
    last: dict[Slot, LastBundle] = {}
    for slot in mine:
        found = database.execute(
            "SELECT attempt, layout, sequence, t_last, items FROM slots WHERE slot = ?", (slot,)
        ).fetchone()
        fence = tuple(found[:2]) if found else (0, 0)
        if fence > tuple(action.fence) or (not newer_only and fence != tuple(action.fence)):
            raise Fenced(f"slot {slot} belongs to attempt {fence[0]}, layout {fence[1]}")
        if found and found[2]:
            last[slot] = LastBundle(SequenceNumber(found[2]), found[3], found[4])
    return last


class _Transaction:
    """All or nothing. A file that is locked or full is an OSError: the call is made again."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> sqlite3.Connection:
        try:
            self._database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise OSError(f"SQLite: {error}") from error
        return self._database

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._database.execute("ROLLBACK" if error is not None else "COMMIT")
        if isinstance(error, sqlite3.OperationalError):
            raise OSError(f"SQLite: {error}") from error
