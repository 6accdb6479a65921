"""A loop and a socket without a kernel, so that what reads connections can be asked thousands of times a
second."""

import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from flamestream.model.time import Instant, Timestamp

MOST_TURNS = 10_000


class NoTimer:
    """Never due."""

    def cancel(self) -> None:
        """Nothing to do."""


class Loop:
    """`ports.Reactor`: its clock stands still, and background work is done at once."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._watched: dict[int, tuple[Callable[[], None] | None, Callable[[], None] | None]] = {}

    def now(self) -> Timestamp:
        return Timestamp(1)

    def instant(self) -> Instant:
        return Instant(1)

    def watch(
        self,
        fd: int,
        *,
        readable: Callable[[], None] | None = None,
        writable: Callable[[], None] | None = None,
    ) -> None:
        self._watched[fd] = readable, writable

    def unwatch(self, fd: int) -> None:
        self._watched.pop(fd, None)

    def later(self, seconds: float, call: Callable[[], None]) -> NoTimer:
        return NoTimer()

    def soon(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    def background(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        try:
            result: Any = work()
        except Exception as error:  # noqa: BLE001 - `done` judges it
            result = error
        self.soon(lambda: done(result))

    def run(self, wire: "Wire") -> None:
        """Until nothing is left to do, and `wire` has been read as far as its owner wants."""
        for _ in range(MOST_TURNS):
            readable, writable = self._watched.get(wire.fileno(), (None, None))
            if self._calls:
                self._calls.popleft()()
            elif writable is not None:
                writable()
            elif readable is not None and wire.readable:
                readable()
            else:
                return
        raise AssertionError(f"{MOST_TURNS} turns of the loop were not enough")


class Wire:
    """A connected socket: what the peer sent, in `chunks`, and then its end; what it was sent is kept."""

    family = socket.AF_UNIX

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = deque(chunk for chunk in chunks if chunk)
        self.sent = bytearray()
        self.open = True
        self._ended = False

    @property
    def readable(self) -> bool:
        """There are bytes, or an end that nobody has seen."""
        return self.open and not self._ended

    def fileno(self) -> int:
        return 3

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def recv(self, size: int) -> bytes:
        if not self._chunks:
            self._ended = True
            return b""
        chunk = self._chunks.popleft()
        if chunk[size:]:
            self._chunks.appendleft(chunk[size:])
        return chunk[:size]

    def recv_into(self, view: Any) -> int:
        data = self.recv(len(view))
        view[: len(data)] = data
        return len(data)

    def send(self, data: bytes) -> int:
        self.sent += data
        return len(data)

    def sendmsg(self, views: list[Any]) -> int:
        return sum(self.send(view) for view in views)

    def shutdown(self, how: int) -> None:
        """Its owner says nothing more."""

    def close(self) -> None:
        self.open = False
