"""Segments that this worker wrote last, kept in memory: most are merged soon where epochs are short, and need not be read back.

Safe to use from several threads: a fence's upload that has been given up can still be putting while the next one's runs.

Keeps: at most `bound` bytes, the newest. Does not: promise anything; what is not here is in the store.
"""

import threading


class Kept:
    """Objects by name, bounded by their bytes."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._bytes = 0
        self._objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def add(self, name: str, data: bytes) -> None:
        """Keep it, and let the oldest go for it; one that is greater than the bound is not kept."""
        with self._lock:
            self._remove(name)
            if len(data) > self._bound:
                return
            self._objects[name] = data
            self._bytes += len(data)
            while self._bytes > self._bound:
                self._remove(next(iter(self._objects)))

    def get(self, name: str) -> bytes | None:
        """None: not kept, or not any more."""
        with self._lock:
            return self._objects.get(name)

    def remove(self, name: str) -> None:
        """Nobody will ask for it again."""
        with self._lock:
            self._remove(name)

    def _remove(self, name: str) -> None:
        self._bytes -= len(self._objects.pop(name, b""))
