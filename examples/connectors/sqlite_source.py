"""A source of one's own in 50 lines: the rows of a SQLite table by a growing key.
docs/reference/connectors.md explains it.

    sources: {orders: {connector: {class: sqlite_source:SqliteSource, settings: {path: /data/shop.db, table: orders}}}}

The offset of a row is its rowid less one, so rows have to be inserted with growing rowids and never changed.
New rows are found while the job runs; which are seen together is chance, so the front is journalled and
`read` gives the same rows again.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from flamestream.connectors.kit.producer import Chunk
from flamestream.core.protocol.events import Entry
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Offset, Partition


class SqliteSource:
    """`Reader`: blocking calls, made one at a time."""

    timed = False
    bounded = False
    ended = False
    idle_seconds = 0.1

    def __init__(self, settings: dict[str, Any], name: str) -> None:
        self._path, self._table = settings["path"], settings["table"]
        self._partition = Partition(self._table)
        self._next = 0

    def seek(self, offsets: Mapping[Partition, Offset]) -> None:
        self._next = offsets.get(self._partition, Offset(0))

    def next(self, records: int, size: int) -> Sequence[Chunk]:
        rows = self._rows(self._next, records)
        if not rows:
            return []
        chunk = Chunk(self._partition, Offset(self._next), rows, [len(repr(row)) for row in rows])
        self._next += len(rows)
        return [chunk]

    def read(self, entry: Entry) -> list[object]:
        rows = self._rows(entry.first, entry.count)
        if len(rows) < entry.count:
            raise Corrupt(
                f"{self._path}: rows behind {entry.first + len(rows)} of {self._table} were read and are "
                "gone; restore them"
            )
        return rows

    def _rows(self, first: int, count: int) -> list[object]:
        """Rows as tuples, from offset `first` on without gap."""
        try:
            database = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)
            try:
                query = f'SELECT rowid, * FROM "{self._table}" WHERE rowid > ? ORDER BY rowid LIMIT ?'
                found = database.execute(query, (first, count)).fetchall()
            finally:
                database.close()
        except sqlite3.OperationalError as error:
            # tried again, and shown in `flamestream status`
            raise OSError(f"SQLite: {self._path}: {error}") from error
        return [row[1:] for number, row in enumerate(found, first + 1) if row[0] == number]
