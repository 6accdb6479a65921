"""An HTTP/1.1 server in the loop, over h11: requests with bounded bodies, answers now or later, and streams without end.

While a request waits for its answer its connection is not read, so a client that sends ahead waits in the kernel's buffers. A connection
that does not finish a request in time, or does not take what it was sent, is closed. A port that is in use (the worker before has not let
it go yet) is tried again until it is free, and `problem` says so.

Keeps: at most `connections` connections, each with at most `body` and MAX_HEAD bytes of input.
Does not: TLS, compression or virtual hosts: put a reverse proxy before it. Know what is asked for (the handler does).
"""

import contextlib
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import h11
import msgspec

from flamestream.adapters.acceptor import listen
from flamestream.adapters.framing import tune
from flamestream.ports import Reactor, Timer

MAX_HEAD: Final = 32 << 10
REQUEST_SECONDS: Final = 30.0
"""For a whole request, from its connection's beginning or the answer before; and for a client to take some of an answer."""
REBIND_SECONDS: Final = 0.2
READ_SIZE: Final = 64 << 10
_ACCEPTS_A_TURN: Final = 16

Headers = Sequence[tuple[str, str]]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """A request that is there entirely. Names of headers are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class Exchange:
    """One request's way back: `answer` once, or `stream` and then `send`."""

    def __init__(self, connection: "_Connection") -> None:
        self._connection: _Connection | None = connection
        self.gone: Callable[[], None] = _nothing
        """Called once if the client goes while it is streamed to."""

    def answer(self, status: int, body: object, headers: Headers = ()) -> None:
        """`body` as JSON, or as it is if it is bytes. Does nothing if the client has gone."""
        connection, self._connection = self._connection, None
        if connection is not None:
            data = body if isinstance(body, bytes) else msgspec.json.encode(body) + b"\n"
            connection.answer(status, data, headers)

    def stream(self, headers: Headers) -> None:
        """Begin an answer that does not end by itself."""
        if self._connection is not None:
            self._connection.stream(headers)

    def send(self, data: bytes) -> bool:
        """A part of a stream. False if the client has gone, or has not taken all of it yet: then wait until it is `idle`."""
        return self._connection is not None and self._connection.send_part(data)

    @property
    def idle(self) -> bool:
        """Whether the client has taken everything that was sent."""
        return self._connection is not None and self._connection.idle

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


class HttpServer:
    """Listens from `open` to `close`."""

    def __init__(
        self, reactor: Reactor, address: tuple[str, int], handler: Handler, *, body: int, shared: bool = False, connections: int = 256
    ) -> None:
        """`shared`: other processes may listen on the same port, and the kernel spreads clients over them."""
        self.reactor, self._address, self.handler = reactor, address, handler
        self.most_body, self._shared, self._most = body, shared, connections
        self._listener: socket.socket | None = None
        self._timer: Timer | None = None
        self._connections: set[_Connection] = set()
        self.problem = ""

    @property
    def listening(self) -> bool:
        """Whether the port is ours."""
        return self._listener is not None

    def open(self) -> None:
        """Listen, now or as soon as the port is free."""
        if self._listener is not None or self._timer is not None:
            return
        try:
            listener = listen(*self._address, shared=self._shared)
        except OSError as error:
            self.problem = f"cannot listen on {self._address[0]}:{self._address[1]}: {error.strerror or error}"
            self._timer = self.reactor.later(REBIND_SECONDS, self._again)
            return
        self.problem = ""
        listener.setblocking(False)
        self._listener = listener
        self.reactor.watch(listener.fileno(), readable=self._accept)

    def close(self) -> None:
        """Let the port and every connection go."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._listener is not None:
            self.reactor.unwatch(self._listener.fileno())
            self._listener.close()
            self._listener = None
        for connection in list(self._connections):
            connection.close()

    def forget(self, connection: "_Connection") -> None:
        """It has ended."""
        self._connections.discard(connection)

    def _again(self) -> None:
        self._timer = None
        self.open()

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            if self._listener is None:
                return
            try:
                sock, _address = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("cannot accept", extra={"reason": str(error)})
                return
            if len(self._connections) >= self._most:
                sock.close()
                continue
            self._connections.add(_Connection(self, sock))


class _Connection:
    """One client's."""

    def __init__(self, server: HttpServer, sock: socket.socket) -> None:
        self._server, self._socket, self._reactor = server, sock, server.reactor
        tune(sock)
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._unsent = bytearray()
        self._exchange: Exchange | None = None
        self._streaming = False
        self._closing = False
        self._open = True
        self._deadline: Timer = self._reactor.later(REQUEST_SECONDS, self.close)
        self._watch()

    # --- in -------------------------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Read only while no answer is awaited; while streaming, to notice the client's end."""
        reads = self._exchange is None or self._streaming
        if self._open:
            self._reactor.watch(
                self._socket.fileno(), readable=self._readable if reads else None, writable=self._writable if self._unsent else None
            )

    def _readable(self) -> None:
        if not self._open:
            return
        try:
            data = self._socket.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            self._lost()
            return
        if self._streaming:
            if not data:
                self._lost()
            return
        self._http.receive_data(data)
        self._events()

    def _events(self) -> None:
        """What h11 makes of the bytes, up to a whole request."""
        try:
            while self._open and self._exchange is None and self._event(self._http.next_event()):
                pass
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, str(error))
        self._watch()

    def _event(self, event: object) -> bool:
        """Whether to look for another."""
        match event:
            case h11.Request():
                self._head = event
                self._body.clear()
                if self._http.they_are_waiting_for_100_continue:
                    self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
            case h11.Data(data=data):
                self._body += data
                if len(self._body) > self._server.most_body:
                    self._refuse(413, f"a body may have {self._server.most_body} bytes")
                    return False
            case h11.EndOfMessage():
                self._request()
                return False
            case h11.ConnectionClosed():
                self._lost()
                return False
            case _:
                return False
        return True

    def _request(self) -> None:
        assert self._head is not None, "a head comes before its end"
        self._deadline.cancel()
        path, _, query = self._head.target.decode("latin-1").partition("?")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self._head.headers}
        self._exchange = exchange = Exchange(self)
        self._server.handler(Request(self._head.method.decode("latin-1"), path, query, headers, bytes(self._body)), exchange)

    def _refuse(self, status: int, why: str) -> None:
        self._deadline.cancel()
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            self.answer(status, msgspec.json.encode({"error": why}) + b"\n", [("connection", "close")])
        else:
            self.close()

    # --- out ------------------------------------------------------------------------------------------------------------------------

    def answer(self, status: int, body: bytes, headers: Headers) -> None:
        """The whole answer; then the next request."""
        if not self._open:
            return
        named = {name.lower() for name, _ in headers}
        more = [] if "content-type" in named else [("content-type", "application/json")]
        response = h11.Response(status_code=status, headers=[*headers, *more, ("content-length", str(len(body)))])
        parts = [self._http.send(response), self._http.send(h11.Data(data=body)), self._http.send(h11.EndOfMessage())]
        self._exchange = None
        self._closing = self._http.our_state is h11.MUST_CLOSE or self._http.their_state not in {h11.DONE, h11.IDLE}
        self._deadline = self._reactor.later(REQUEST_SECONDS, self.close)
        self._write(b"".join(part for part in parts if part))
        if self._open and not self._closing:
            self._http.start_next_cycle()
            self._reactor.soon(self._events)

    def stream(self, headers: Headers) -> None:
        """The head of an answer without end."""
        self._streaming = True
        self._write(self._http.send(h11.Response(status_code=200, headers=[*headers, ("connection", "close")])))

    def send_part(self, data: bytes) -> bool:
        """Whether all of it has left."""
        if self._open:
            self._write(self._http.send(h11.Data(data=data)))
        return self._open and not self._unsent

    @property
    def idle(self) -> bool:
        """Nothing waits to be sent."""
        return not self._unsent

    def _write(self, data: bytes | None) -> None:
        if data:
            self._unsent += data
            self._writable()

    def _writable(self) -> None:
        if not self._open:
            return
        with contextlib.suppress(BlockingIOError):
            try:
                while self._unsent:
                    del self._unsent[: self._socket.send(self._unsent)]
            except BlockingIOError:
                raise
            except OSError:
                self._lost()
                return
        if self._closing and not self._unsent:
            self.close()
        else:
            self._watch()

    # --- the end --------------------------------------------------------------------------------------------------------------------

    def _lost(self) -> None:
        exchange = self._exchange
        self.close()
        if exchange is not None:
            exchange.lost()

    def close(self) -> None:
        """Now."""
        if self._open:
            self._open = False
            self._deadline.cancel()
            self._reactor.unwatch(self._socket.fileno())
            self._socket.close()
            self._server.forget(self)


def _nothing() -> None:
    """Nobody wants to know."""
