"""Link: the caller's end of the socket to its worker, as frames.

A protocol of asyncio's and not its streams: most frames have one request, and a stream awaits each one's size
and then its bytes.

Keeps: while the worker does not read, nothing more is read from it (!). Does not: know what a frame says
(process.py).
"""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from flamestream.net.framing import HEADER, LENGTH


class Link(asyncio.Protocol):
    """Frames over a socket that asyncio connects. `take` is given each; what it raises ends the
    connection."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """The worker has closed the socket, or `take` has raised: it raises that."""
        self._partial = bytearray()
        self._transport: asyncio.Transport

    def send(self, frame: bytes) -> None:
        """Send a frame, or buffer it."""
        self._transport.write(LENGTH.pack(len(frame)) + frame)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is connected."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self._partial += data
        while len(self._partial) >= HEADER:
            end = HEADER + LENGTH.unpack_from(self._partial)[0]
            if len(self._partial) < end:
                return
            frame = bytes(self._partial[HEADER:end])
            del self._partial[:end]
            self._take(frame)

    def pause_writing(self) -> None:
        """The worker does not read."""
        # (!) Or answers to a worker that takes none would pile up here.
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """It has read."""
        self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """There is no worker any more."""
        if self.ended.done():  # the loop ends
            return
        if exc is None or isinstance(exc, OSError):
            self.ended.set_result(None)
        else:
            self.ended.set_exception(exc)


def one_frame(sock: socket.socket) -> bytes:
    """The next frame of a socket that blocks; nothing behind it is read. Raises EOFError."""
    (size,) = LENGTH.unpack(_bytes(sock, HEADER))
    return _bytes(sock, size)


def _bytes(sock: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        if not (piece := sock.recv(count - len(found))):
            raise EOFError(f"the worker closed the socket behind {len(found)} of {count} bytes")
        found += piece
    return bytes(found)
