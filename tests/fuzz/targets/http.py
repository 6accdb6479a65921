"""HTTP: what strangers send to a port, and what servers of the user's answer."""

import base64
from collections.abc import Iterator
from io import BytesIO
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec

from flamestream.connectors.http.sink import HttpPlace, HttpWriting
from flamestream.connectors.kafka.avro import Avro, Registry
from flamestream.core.protocol.actions import OpenSink
from flamestream.fenced.tail import Cursor
from flamestream.model.errors import Corrupt, Fenced, UserError
from flamestream.model.ids import SinkName, Slot, WorkerId
from flamestream.net.http_exchange import Exchange, Request
from flamestream.net.http_server import HttpServer
from flamestream.net.kafka.failures import BrokersAway
from fuzz.stand_ins import Loop, Wire
from fuzz.target import Target, attempt, pieces
from fuzz.targets.durable import FENCE

BODY = 64


def http(data: bytes) -> None:
    """A server is asked anything, in any pieces: its own code raises nothing, it holds no more than it lends,
    and it answers HTTP."""
    loop, heard = Loop(), list[Request]()
    server = HttpServer(
        loop,
        ("port", 80),
        lambda request, exchange: _handled(heard, request, exchange),
        body=BODY,
        token=_token(data),
    )
    sock = Wire(*pieces(data[1:]))
    with patch.object(server.drops, "add", _raising):
        server._came(sock, "peer")  # type: ignore[arg-type]
        loop.run(sock)
        server.close()
        loop.run(sock)
    assert not sock.open and server._lent.held == 0, "what was lent is not given back"
    assert not sock.sent or sock.sent.startswith(b"HTTP/1.1 "), "an answer that is none"
    assert all(len(request.body) <= BODY for request in heard)
    assert _token(data) is None or all(
        request.headers["authorization"] == "Bearer key" for request in heard
    ), "asked without the token"


def _token(data: bytes) -> str | None:
    return "key" if data[:1] > b"\x7f" else None


def _raising(reason: str, error: Exception | None = None) -> None:
    """Whoever is dropped is dropped for what they did; that our own code raised is a defect, though it ends
    one connection only."""
    if error is not None:
        raise error


def _handled(heard: list[Request], request: Request, exchange: Exchange) -> None:
    heard.append(request)
    if request.path == "/stream":
        exchange.stream([("content-type", "text/event-stream")])
        exchange.send(b"data: 1\n\n")
    else:
        exchange.answer(200 if request.method in ("GET", "HEAD", "POST") else 405, {"path": request.path})


def _requests() -> Iterator[bytes]:
    for head in (
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"HEAD / HTTP/1.0\r\n\r\n",
        b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n",
    ):
        yield b"\0" + bytes([len(head)]) + head
    post = (
        b"POST /?a=b HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer key\r\nContent-Length: 3\r\nExpect: "
        b"100-continue\r\n\r\n"
    )
    yield b"\xff" + bytes([len(post)]) + post + b"\x03abc"
    chunked = (
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nCONNECT a:1 "
        b"HTTP/1.1\r\nHost: a\r\n\r\n"
    )
    yield b"\0" + bytes([len(chunked)]) + chunked


def opened(data: bytes) -> None:
    """What a user's server says it has (`contract: fenced`), and its status."""
    status = 200 + 100 * (data[0] % 4) + data[0] % 16 if data else 200
    writing = HttpWriting(
        HttpPlace("http://host/", "fenced", 1.0, 1, {}), "j", SinkName("out"), WorkerId("a")
    )
    writing._pool = SimpleNamespace(request=lambda *_, **__: SimpleNamespace(status=status, data=data[1:]))  # type: ignore[assignment]
    action = OpenSink(FENCE, SinkName("out"), [Slot(0), Slot(1)])
    last = attempt(lambda _: writing.open(action), b"", UserError, Corrupt, Fenced, ConnectionError)
    for bundle in (last or {}).values():
        assert bundle.sequence > 0, f"a bundle with the number {bundle.sequence}"


def _opened() -> Iterator[bytes]:
    last = {"slot": 1, "sequence": 2, "t_last": b"meta".hex(), "items": base64.b64encode(b"\x90").decode()}
    yield b"\0" + msgspec.json.encode({"flamestream": 1, "last": [last]})


def registry(data: bytes) -> None:
    """What a schema registry answers, to a reader and to a writer."""
    with patch("urllib.request.urlopen", lambda *_, **__: BytesIO(data)):
        asked = Registry(Avro(registry="http://host"))
        attempt(lambda _: asked.schema(1), b"", ValueError, UserError, BrokersAway)


def cursor(data: bytes) -> None:
    """The id of an event that a client says it has seen."""
    found: Any = attempt(lambda given: Cursor.parse(given.decode("latin-1")), data, UserError)
    assert found is None or Cursor.parse(str(found)) == found, "a cursor is written as another one"


TARGETS = (
    Target("http", http, _requests, runs=4000),
    Target("http-consumer", opened, _opened),
    Target(
        "schema-registry",
        registry,
        lambda: [b'{"schema": "{\\"type\\": \\"string\\"}"}', b'{"error_code": 1}'],
    ),
    Target("event-cursor", cursor, lambda: [b"3.1/w5-0@1234+2/w6-0@2345", b"3.1/2.1!w5-0@7"], runs=20_000),
)
