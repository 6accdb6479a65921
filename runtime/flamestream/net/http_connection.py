"""A client's connection of an HTTP server: what h11 makes of its bytes, and the answers.

    head ──▶ body ──▶ answer ──▶ taking ──▶ idle ──▶ head ...
                         └──▶ stream

    taking: the client has not taken all of the answer; closing: the answer was the last one, and is being
    read

Everything has a deadline but `answer`, which waits for us, and a stream that is read. While a request waits
for its answer, or the client has not taken the one before, the connection is not read: whoever sends ahead
waits in the kernel's buffers. A request is judged as soon as its head is there, before a byte of its body is
kept.

Keeps: whatever its bytes make raise, in h11 or in the handler, closes this connection and nothing else; of a
body at most what the server lends. Does not: know who else is there (http_server.py), or what is asked for
(the handler does).
"""

import contextlib
import hmac
import socket
from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec, Protocol

import h11
import msgspec

from flamestream.net.acceptor import Drops
from flamestream.net.framing import tune
from flamestream.net.http_exchange import Exchange, Handler, Headers, Request
from flamestream.ports import Reactor, Timer

MAX_HEAD: Final = 32 << 10
READ_SIZE: Final = 64 << 10
SECONDS: Final = {"head": 5.0, "body": 30.0, "taking": 30.0, "idle": 30.0, "closing": 5.0}
"""Seconds that a connection may be at each. A stream is closed whose client takes nothing for as long as
`taking`."""
_LATE: Final = {
    "head": "its request's head has not come in time",
    "body": "its request's body has not come in time",
    "taking": "it has not taken its answer in time",
    "stream": "it does not take what it is sent",
}
_VERSIONS: Final = (b"1.0", b"1.1")

P = ParamSpec("P")


class Server(Protocol):
    """The server as its connections need it."""

    reactor: Reactor
    drops: Drops
    most_body: int
    token: str | None
    handler: Handler

    def lend(self, connection: "Connection", size: int, /) -> bool: ...
    def served(self, connection: "Connection", /) -> None: ...
    def forget(self, connection: "Connection", /) -> None: ...


def _closes(
    method: Callable[Concatenate["Connection", P], None],
) -> Callable[Concatenate["Connection", P], None]:
    """The method, whose errors end its connection, never the loop (!): it is called with bytes of strangers
    at hand."""

    def closing(connection: "Connection", /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(connection, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is, see above
            connection.failed(error)

    return closing


class Connection:
    """A client's connection, from its first byte to its end."""

    def __init__(self, server: Server, sock: socket.socket) -> None:
        self._server, self._socket, self._reactor = server, sock, server.reactor
        tune(sock)
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)
        self._head: h11.Request | None = None
        self._body = bytearray()
        self._unsent = bytearray()
        self._exchange: Exchange | None = None
        self._open = True
        self._hungry = True
        """Whether h11 has made all that can be made of what came: else requests sent ahead would pile up in
        it."""
        self._phase = "head"
        self._deadline: Timer = self._reactor.later(SECONDS["head"], self._late)
        self._watch()

    @property
    def busy(self) -> bool:
        """Whether it waits for us, or reads a stream: others give way before it."""
        return self._phase == "answer" or (self._phase == "stream" and not self._unsent)

    @property
    def lent(self) -> int:
        """Bytes of a body that is not whole."""
        return len(self._body)

    @property
    def has_taken_all(self) -> bool:
        """Whether nothing waits to be sent, and something could be."""
        return self._open and not self._unsent

    @property
    def _reads(self) -> bool:
        """Whether it is read now: while streaming, and behind the last answer, only to notice the client's
        end."""
        return self._phase in ("stream", "closing") or (
            self._hungry and self._exchange is None and not self._unsent
        )

    # --- in -------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Watch for what can be taken now, and for nothing else."""
        if self._open:
            readable = self._readable if self._reads else None
            writable = self._writable if self._unsent else None
            self._reactor.watch(self._socket.fileno(), readable=readable, writable=writable)

    @_closes
    def _readable(self) -> None:
        if not self._open or not self._reads:
            return
        try:
            data = self._socket.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            self._lost()
            return
        if self._phase not in ("stream", "closing"):
            self._hungry = False
            self._http.receive_data(data)
            self._events()
        elif not data:
            self._lost()

    @_closes
    def _events(self) -> None:
        """Take what h11 makes of the bytes, up to a whole request."""
        if self._phase == "idle" and self._http.trailing_data[0]:
            self._enter("head")
        try:
            while self._open and self._exchange is None and not self._unsent and self._phase != "closing":
                if not self._event(self._http.next_event()):
                    break
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, str(error))
        self._watch()

    def _event(self, event: object) -> bool:
        """Take one event of h11. Whether to look for another."""
        match event:
            case h11.Request():
                self._head = event
                self._enter("body")
                return self._judged(event)
            case h11.Data(data=data):
                return self._took(bytes(data))
            case h11.EndOfMessage():
                self._request()
            case h11.ConnectionClosed():
                self._lost()
            case _:
                self._hungry = event is h11.NEED_DATA
        return False

    def _judged(self, head: h11.Request) -> bool:
        """Judge a request by its head. Whether its body may come."""
        server, headers = self._server, dict(head.headers)
        if server.token is not None and not hmac.compare_digest(
            headers.get(b"authorization", b""), b"Bearer " + server.token.encode()
        ):
            self._refuse(401, "the bearer token is missing or wrong", [("www-authenticate", "Bearer")])
        elif head.http_version not in _VERSIONS:
            self._refuse(505, "only HTTP/1.1 and HTTP/1.0")
        elif int(headers.get(b"content-length", b"0")) > server.most_body:
            self._too_large()
        elif self._http.they_are_waiting_for_100_continue:
            self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
        return self._phase == "body"

    def _took(self, data: bytes) -> bool:
        """Keep a part of a body, if there is room for it. Whether more may come."""
        if len(self._body) + len(data) > self._server.most_body:
            self._too_large()
        elif not self._server.lend(self, len(data)):
            self._refuse(503, "too many bodies are under way; send it again", [("retry-after", "1")])
        else:
            self._body += data
        return self._phase == "body"

    def _too_large(self) -> None:
        self._refuse(413, f"a body may have {self._server.most_body} bytes")

    def _request(self) -> None:
        assert self._head is not None, "a head comes before its end"
        self._enter("answer")
        path, _, query = self._head.target.decode("latin-1").partition("?")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self._head.headers}
        request = Request(self._head.method.decode("latin-1"), path, query, headers, bytes(self._body))
        self._give_back()
        self._exchange = exchange = Exchange(self)
        self._server.handler(request, exchange)

    def _refuse(self, status: int, why: str, headers: Headers = ()) -> None:
        """Give this connection's last answer, whatever else of the request is still under way."""
        self._give_back()
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            self._answer(status, {"error": why}, [*headers, ("connection", "close")])
        else:
            self.close()

    # --- out ------------------------------------------------------------------------------------------------

    @_closes
    def answer(self, status: int, body: object, headers: Headers) -> None:
        """Send the whole answer; then the next request may come."""
        if self._open:
            self._answer(status, body, headers)

    def _answer(self, status: int, body: object, headers: Headers) -> None:
        data = body if isinstance(body, bytes) else msgspec.json.encode(body) + b"\n"
        more = (
            []
            if "content-type" in {name.lower() for name, _ in headers}
            else [("content-type", "application/json")]
        )
        asked_for_body = self._head is None or self._head.method != b"HEAD"
        if data or asked_for_body:
            more.append(("content-length", str(len(data))))
        parts = [self._http.send(h11.Response(status_code=status, headers=[*headers, *more]))]
        if data and asked_for_body:  # h11 refuses a body that nobody may read
            parts.append(self._http.send(h11.Data(data=data)))
        parts.append(self._http.send(h11.EndOfMessage()))
        self._exchange = self._head = None
        last = self._http.our_state is h11.MUST_CLOSE or self._http.their_state not in {h11.DONE, h11.IDLE}
        self._enter("closing" if last else "taking")
        self._write(b"".join(part for part in parts if part))

    @_closes
    def stream(self, headers: Headers) -> None:
        """Send the head of an answer without end."""
        if self._open:
            self._enter("stream")
            self._write(
                self._http.send(h11.Response(status_code=200, headers=[*headers, ("connection", "close")]))
            )

    @_closes
    def send_part(self, data: bytes) -> None:
        """Send a part of an answer without end."""
        if self._open:
            self._write(self._http.send(h11.Data(data=data)))

    def _write(self, data: bytes | None) -> None:
        if data and self._open:
            if self._phase == "stream" and not self._unsent:
                self._wait("taking")
            self._unsent += data
            self._writable()

    @_closes
    def _writable(self) -> None:
        if not self._open:
            return
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._lost()
            return
        del self._unsent[:sent]
        if not self._unsent:
            self._all_taken()
        elif sent and self._phase == "stream":
            self._wait("taking")
        self._watch()

    def _all_taken(self) -> None:
        if self._phase == "stream":
            self._deadline.cancel()
        elif self._phase == "closing":
            if self._http.their_state in {h11.DONE, h11.MUST_CLOSE, h11.CLOSED}:
                self.close()
            # closing with input unread would destroy the answer on its way: first the client, or the deadline
            else:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_WR)
        else:
            if self._phase == "taking":
                self._enter("idle")
                self._server.served(self)
                self._http.start_next_cycle()
            self._reactor.soon(self._events)

    # --- the end --------------------------------------------------------------------------------------------

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._wait(phase)

    def _wait(self, phase: str) -> None:
        """Set the deadline of `phase`, if it has one."""
        self._deadline.cancel()
        if self._open and phase in SECONDS:
            self._deadline = self._reactor.later(SECONDS[phase], self._late)

    @_closes
    def _late(self) -> None:
        """End a connection whose deadline has passed; between requests, or with all said, that is nothing to
        speak of."""
        if self._phase in ("idle", "closing"):
            self.close()
        else:
            self.drop(_LATE[self._phase])

    def failed(self, error: Exception) -> None:
        """End the connection for an error that was raised on its behalf."""
        self.drop(f"{type(error).__name__}: {error}", error)

    def drop(self, reason: str, error: Exception | None = None) -> None:
        """End the connection for `reason`, and count it."""
        if self._open:
            self._server.drops.add(reason, error)
            self._lost()

    def _lost(self) -> None:
        exchange = self._exchange
        self.close()
        if exchange is not None:
            exchange.lost()

    def close(self) -> None:
        """End the connection now."""
        if self._open:
            self._open = False
            self._deadline.cancel()
            self._give_back()
            self._reactor.unwatch(self._socket.fileno())
            self._socket.close()
            self._server.forget(self)

    def _give_back(self) -> None:
        """Let go of the body, and of the room that it was lent."""
        if self._body:
            self._server.lend(self, -len(self._body))
            self._body.clear()
