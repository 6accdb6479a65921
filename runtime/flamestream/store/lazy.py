"""An object store that is opened when it is first used, and again as long as that fails.

A process must be able to start, and go on, while its store is away: epochs fail then, the stream does not. It
also keeps the slow import of an S3 client out of a worker's start; call `warm` in a helper thread to have it
over with.

Keeps: an error of opening is an error of the call that needed it. Does not: create a store (the launcher
does).
"""

import threading
from collections.abc import Callable

from flamestream.model.errors import FlameStreamError
from flamestream.ports import ObjectStore


class LazyStore:
    """`ports.ObjectStore` that `opened` gives. Its calls block, so they come from helper threads, several at
    a time."""

    def __init__(self, opened: Callable[[], ObjectStore]) -> None:
        self._open = opened
        self._store: ObjectStore | None = None
        self._lock = threading.Lock()

    def put_new(self, name: str, data: bytes | memoryview) -> bool:
        return self._opened().put_new(name, data)

    def get(self, name: str) -> bytes:
        return self._opened().get(name)

    def delete(self, *names: str) -> None:
        self._opened().delete(*names)

    def names(self, prefix: str) -> list[str]:
        return self._opened().names(prefix)

    def warm(self) -> str:
        """Open the store now. The reason why that failed, or ""."""
        try:
            self._opened()
        except FlameStreamError as error:
            return str(error)
        return ""

    def _opened(self) -> ObjectStore:
        # Held while it is opened: who comes meanwhile waits, instead of opening another.
        with self._lock:
            if self._store is None:
                self._store = self._open()
            return self._store
