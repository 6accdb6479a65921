"""A client's connection of an HTTP server: its requests, one at a time, and the answers.

    head ──▶ body ──▶ answer ──▶ taking ──▶ idle ──▶ head ...
                         └──▶ stream

    taking: the client has not taken all of the answer; closing: the answer was the last one, and is being
    read

Everything has a deadline but `answer`, which waits for us, and a stream that is read. While a request waits
for its answer, or the client has not taken the one before, the connection is not read: whoever sends ahead
waits in the kernel's buffers. A request is judged as soon as its head is there, before a byte of its body is
kept.

Keeps: whatever its bytes make raise, in the parser or in the handler, closes this connection and nothing else;
of a body at most what the server lends. Does not: know who else is there (http_server.py), or what is asked
for (the handler does).
"""

import contextlib
import hmac
import re
import socket
from collections.abc import Callable
from http import HTTPStatus
from typing import Concatenate, Final, ParamSpec, Protocol

import msgspec

from flamestream.net.acceptor import Drops
from flamestream.net.http_exchange import Exchange, Handler, Headers, Request
from flamestream.net.http_reader import Head, Malformed, RequestReader
from flamestream.ports import Reactor, Timer

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
_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_HEADER: Final = re.compile(r"[!#-'*+.^-`|~\w-]+: [^\r\n\0]*", re.ASCII)

P = ParamSpec("P")


class Socket(Protocol):
    """A connected socket that does not block, whatever is under it (server_tls.py)."""

    def fileno(self) -> int: ...
    def recv(self, size: int, /) -> bytes: ...
    def send(self, data: bytearray, /) -> int: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


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

    def __init__(self, server: Server, sock: Socket) -> None:
        self._server, self._socket, self._reactor = server, sock, server.reactor
        self._reader = RequestReader()
        self._head: Head | None = None
        self._welcome: Head | None = None
        """The last head that nothing was wrong with: when it comes again (http_reader.py) nothing is."""
        self._body = bytearray()
        self._unsent = bytearray()
        self._exchange: Exchange | None = None
        self._open = True
        self._hungry = True
        """Whether all was made of what came that can be: else requests sent ahead would pile up here."""
        self._watched = (False, False)
        """Whether the loop tells when it can be read, and written."""
        self._phase = "head"
        self._answered_whole = False
        """Whether the last answer is to a request that was read to its end, and nothing came behind it."""
        self._due: float | None = None
        """The instant at which the phase has lasted too long."""
        self._timer: Timer | None = None
        self._rings: float = 0
        """The instant at which the timer is: none is made for each phase of each request."""
        self._wait("head")
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

    def _watch(self, *, reads: bool = True) -> None:
        """Watch for what can be taken now. Who waits for an answer mostly sends nothing, so that is found out only when
        it does (`reads` is false then): it saves two calls of the kernel a request."""
        wanted = self._reads or (reads and self._watched[0]), bool(self._unsent)
        if self._open and wanted != self._watched:
            self._watched = wanted
            readable, writable = wanted
            self._reactor.watch(
                self._socket.fileno(),
                readable=self._readable if readable else None,
                writable=self._writable if writable else None,
            )

    @_closes
    def _readable(self) -> None:
        if not self._open:
            return
        if not self._reads:
            self._watch(reads=False)
            return
        try:
            data = self._socket.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            self._lost()
            return
        if not data:
            self._lost()
        elif self._phase not in ("stream", "closing"):
            self._reader.add(data)
            self._requests()

    @_closes
    def _requests(self) -> None:
        """Take what there is of requests, up to a whole one."""
        try:
            while self._open and self._exchange is None and not self._unsent and self._phase != "closing":
                if not (self._took_head() if self._head is None else self._took_body()):
                    self._hungry = True
                    break
        except Malformed as error:
            self._refuse(error.status, error.reason)
        self._watch()

    def _took_head(self) -> bool:
        """Take a head, and judge it. Whether to look for more."""
        self._head = head = self._reader.head()
        if head is None:
            if self._phase == "idle" and self._reader.begun:
                self._enter("head")
            return False
        if head is not self._welcome:
            self._judge(head)
        return True

    def _judge(self, head: Head) -> None:
        """Refuse what is asked for, or let its body come."""
        server = self._server
        if server.token is not None and not hmac.compare_digest(
            head.headers.get("authorization", "").encode("latin-1"), b"Bearer " + server.token.encode()
        ):
            self._refuse(401, "the bearer token is missing or wrong", [("www-authenticate", "Bearer")])
        elif (head.length or 0) > server.most_body:
            self._too_large()
        elif head.waits and head.length != 0:
            self._enter("body")
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        else:
            self._welcome = head

    def _took_body(self) -> bool:
        """Take what there is of a body, if there is room for it. Whether to look for more."""
        data = self._reader.body()
        if len(self._body) + len(data) > self._server.most_body:
            self._too_large()
        elif data and not self._reader.whole and not self._server.lend(self, len(data)):
            self._refuse(503, "too many bodies are under way; send it again", [("retry-after", "1")])
        elif self._reader.whole:
            self._request(data)
        else:
            self._body += data
            if self._phase != "body":
                self._enter("body")
            return False
        return True

    def _too_large(self) -> None:
        self._refuse(413, f"a body may have {self._server.most_body} bytes")

    def _request(self, rest: bytes) -> None:
        """Hand a whole request on, of whose body `rest` is the last."""
        head = self._head
        assert head is not None, "a head comes before its end"
        self._enter("answer")
        body = bytes(self._body) + rest if self._body else rest
        self._give_back()
        self._exchange = exchange = Exchange(self)
        self._server.handler(Request(head.method, head.path, head.query, head.headers, body), exchange)

    def _refuse(self, status: int, why: str, headers: Headers = ()) -> None:
        """Give this connection's last answer, whatever else of the request is still under way."""
        self._give_back()
        self._answer(status, {"error": why}, headers, last=True)

    # --- out ------------------------------------------------------------------------------------------------

    @_closes
    def answer(self, status: int, body: object, headers: Headers) -> None:
        """Send the whole answer; then the next request may come."""
        if self._open:
            self._answer(status, body, headers)

    def _answer(self, status: int, body: object, headers: Headers, *, last: bool = False) -> None:
        data = body if isinstance(body, bytes) else msgspec.json.encode(body) + b"\n"
        head, self._exchange, self._head = self._head, None, None
        lines = _LINES[status] + _written(headers) if headers else _LINES[status]
        if not headers or all(name != "content-type" for name, _ in headers):
            lines += "content-type: application/json\r\n"
        asked_for_body = head is None or head.method != "HEAD"
        if data or asked_for_body:
            lines += f"content-length: {len(data)}\r\n"
        self._answered_whole = not last and not self._reader.begun
        last = last or head is None or not head.lasts
        if last:
            lines += "connection: close\r\n"
        self._enter("closing" if last else "taking")
        data = data if asked_for_body else b""
        self._write(lines.encode("latin-1") + b"\r\n" + data)

    @_closes
    def stream(self, headers: Headers) -> None:
        """Send the head of an answer without end: it ends with the connection."""
        if self._open:
            self._enter("stream")
            self._write(f"{_LINES[200]}{_written(headers)}connection: close\r\n\r\n".encode("latin-1"))

    @_closes
    def send_part(self, data: bytes) -> None:
        """Send a part of an answer without end."""
        if self._open:
            self._write(data)

    def _write(self, data: bytes) -> None:
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
            self._due = None
        elif self._phase == "closing":
            if self._answered_whole:
                self.close()
            # closing with input unread would destroy the answer on its way: first the client, or the deadline
            else:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_WR)
        else:
            if self._phase == "taking":
                self._enter("idle")
                self._server.served(self)
            self._hungry = not self._reader.begun
            if not self._hungry:
                self._reactor.soon(self._requests)

    # --- the end --------------------------------------------------------------------------------------------

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._wait(phase)

    def _wait(self, phase: str) -> None:
        """Set the deadline of `phase`, if it has one."""
        self._due = None
        if self._open and phase in SECONDS:
            self._due = self._reactor.instant() + SECONDS[phase] * 1e6
            if self._timer is None or self._rings > self._due:
                self._set_timer(SECONDS[phase])

    def _set_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._rings = self._reactor.instant() + seconds * 1e6
        self._timer = self._reactor.later(seconds, self._rang)

    @_closes
    def _rang(self) -> None:
        """End a connection whose deadline has passed; between requests, or with all said, that is nothing to
        speak of."""
        self._timer = None
        if self._due is None:
            return
        if (rest := self._due - self._reactor.instant()) > 0:
            self._set_timer(rest / 1e6)
        elif self._phase in ("idle", "closing"):
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
            if self._timer is not None:
                self._timer.cancel()
            self._give_back()
            self._reactor.unwatch(self._socket.fileno())
            self._socket.close()
            self._server.forget(self)

    def _give_back(self) -> None:
        """Let go of the body, and of the room that it was lent."""
        if self._body:
            self._server.lend(self, -len(self._body))
            self._body.clear()


def _written(headers: Headers) -> str:
    """The lines of headers. Raises ValueError for one that would not be one line."""
    for name, value in headers:
        if not _HEADER.fullmatch(f"{name}: {value}"):
            raise ValueError(f"no header of HTTP: {name!r}: {value!r}")
    return "".join(f"{name}: {value}\r\n" for name, value in headers)
