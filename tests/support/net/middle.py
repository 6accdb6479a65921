"""Somebody in the middle of a TCP connection: hears all of it, and does to it what a test says.

Two threads a connection, so it serves ends in this process and in others.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from enum import Enum

from flamestream.net.acceptor import address_of, listen


class Way(Enum):
    """Of one connection."""

    THERE = "there"
    """From who dialled."""
    BACK = "back"


Change = Callable[[Way, bytes], bytes]
"""What is passed on instead of a piece that came. b"" holds it back."""


class Middle:
    """Listens at `address` and passes on to `target`."""

    def __init__(self, target: str, change: Change, listener: socket.socket | None = None) -> None:
        self._target, self._change = target, change
        self._listener = listener or listen("127.0.0.1")
        self._listener.setblocking(True)
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.address = address_of(self._listener)
        self.heard = {Way.THERE: bytearray(), Way.BACK: bytearray()}
        """As it came, of all connections."""
        self._thread(self._accept)

    def cut(self) -> None:
        """End every connection that there is."""
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self.cut()
        for thread in self._threads:
            thread.join()
        for sock in [self._listener, *self._sockets]:
            sock.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                dialler, _ = self._listener.accept()
                self._join(dialler)

    def _join(self, dialler: socket.socket) -> None:
        host, _, port = self._target.rpartition(":")
        try:
            acceptor = socket.create_connection((host, int(port)))
        except OSError:
            dialler.close()
            return
        self._sockets += [dialler, acceptor]
        self._thread(self._carry, Way.THERE, dialler, acceptor)
        self._thread(self._carry, Way.BACK, acceptor, dialler)

    def _carry(self, way: Way, start: socket.socket, end: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := start.recv(1 << 16):
                self.heard[way] += data
                end.sendall(self._change(way, data))
        for sock in (start, end):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _thread(self, call: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=call, args=arguments, daemon=True))
        self._threads[-1].start()
