"""A request of an HTTP server's client, and the way back of its answer.

Keeps: a request is answered once, whatever becomes of its client meanwhile. Does not: know bytes
(http_connection.py).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:  # it makes them
    from flamestream.net.http_connection import Connection

Headers = Sequence[tuple[str, str]]


class Request(msgspec.Struct, frozen=True):
    """A request that is there entirely. Names of headers are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class Exchange:
    """The way back of a request: `answer` once, or `stream` and then `send`."""

    def __init__(self, connection: "Connection") -> None:
        self._connection: Connection | None = connection
        self.gone: Callable[[], None] = lambda: None
        """Called once if the client goes while it is streamed to."""

    def answer(self, status: int, body: object, headers: Headers = ()) -> None:
        """`body` as JSON, or as it is if it is bytes; none goes out to HEAD. Does nothing if the client has
        gone."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.answer(status, body, headers)

    def stream(self, headers: Headers) -> None:
        """Begin an answer that does not end by itself."""
        if self._connection is not None:
            self._connection.stream(headers)

    def send(self, data: bytes) -> bool:
        """A part of a stream. False if the client has gone, or has not taken all of it yet: then wait until
        it is `idle`."""
        if self._connection is not None:
            self._connection.send_part(data)
        return self.idle

    @property
    def idle(self) -> bool:
        """Whether the client has taken everything that was sent."""
        return self._connection is not None and self._connection.has_taken_all

    def failed(self, error: Exception) -> None:
        """Close the connection of a client whose request made our own code raise; the error is counted and
        logged."""
        if self._connection is not None:
            self._connection.failed(error)

    def end(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def lost(self) -> None:
        """The connection is gone."""
        if self._connection is not None:
            self._connection = None
            self.gone()


Handler = Callable[[Request, Exchange], None]
