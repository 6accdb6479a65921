"""Segments that this worker wrote last, kept in memory: most are merged soon where epochs are short, and need
not be read back and decoded.

Safe to use from several threads: a fence's upload that has been given up can still be putting while the next
one's runs.

Keeps: at most `bound` bytes, the newest. Does not: promise anything; what is not here is in the store.
"""

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a worker's start does not wait for Arrow
    from pyarrow import Table


class SegmentCache:
    """Arrow tables by name, bounded by their bytes."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._bytes = 0
        self._tables: dict[str, Table] = {}
        self._lock = threading.Lock()

    def add(self, name: str, table: "Table") -> None:
        """Keep a table, and let the oldest go for it; one that is greater than the bound is not kept."""
        with self._lock:
            self._remove(name)
            if table.nbytes > self._bound:
                return
            self._tables[name] = table
            self._bytes += table.nbytes
            while self._bytes > self._bound:
                self._remove(next(iter(self._tables)))

    def get(self, name: str) -> "Table | None":
        """The table; None: not kept, or not any more."""
        with self._lock:
            return self._tables.get(name)

    def remove(self, name: str) -> None:
        """Let a table go: nobody will ask for it again."""
        with self._lock:
            self._remove(name)

    def _remove(self, name: str) -> None:
        table = self._tables.pop(name, None)
        if table is not None:
            self._bytes -= table.nbytes
