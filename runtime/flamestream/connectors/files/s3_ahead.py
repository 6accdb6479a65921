"""Small objects fetched before they are asked for, so that many of them are not bound by the latency of a
request each.

Whoever reads says in which order (`Files.expect`); while one object is read the next ones come, at most
`OBJECTS` and `BYTES` at once. Big objects are streamed as before. A request that fails here is made again
when its object is opened, and says there what is wrong.

Keeps: what is given is the listed version, whole. Does not: retry, or fetch what nobody said would be read.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from flamestream.connectors.files.places import Found

OBJECTS: Final = 8
BYTES: Final = 8 << 20
SMALL: Final = 1 << 20


class Ahead:
    """A cache of what is fetched ahead, for one thread that reads."""

    def __init__(self, fetch: Callable[[Found], bytes]) -> None:
        """`fetch` is called by several threads."""
        self._fetch = fetch
        self._threads: ThreadPoolExecutor | None = None
        self._coming: deque[Found] = deque()
        self._left: set[str] = set()
        self._begun: dict[str, Future[bytes]] = {}
        self._bytes = 0

    def expect(self, files: Sequence[Found]) -> None:
        """These are next, in this order, whatever was expected before."""
        for future in self._begun.values():
            # One that is under way ends by itself, and nobody takes what it brings.
            future.cancel()
        self._begun, self._bytes = {}, 0
        self._coming = deque(files)
        self._left = {file.path for file in files}

    def take(self, file: Found) -> bytes | None:
        """Bytes of an object, if they were fetched ahead; the next ones are begun."""
        if file.path not in self._left:
            return None
        while (passed := self._coming.popleft()).path != file.path:
            self._forget(passed)
        self._left.discard(file.path)
        future = self._begun.pop(file.path, None)
        self._bytes -= file.size if future is not None else 0
        self._begin()
        if future is None:
            return None
        data = None if future.exception() is not None else future.result()
        return data if data is not None and len(data) == file.size else None

    def _forget(self, file: Found) -> None:
        self._left.discard(file.path)
        if (future := self._begun.pop(file.path, None)) is not None:
            future.cancel()
            self._bytes -= file.size

    def _begin(self) -> None:
        for place in range(min(OBJECTS, len(self._coming))):
            file = self._coming[place]
            if file.path in self._begun or not 0 < file.size <= SMALL:
                continue
            if len(self._begun) >= OBJECTS or self._bytes + file.size > BYTES:
                return
            if self._threads is None:
                self._threads = ThreadPoolExecutor(OBJECTS, thread_name_prefix="s3-ahead")
            self._begun[file.path] = self._threads.submit(self._fetch, file)
            self._bytes += file.size
