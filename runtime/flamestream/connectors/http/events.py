"""A sink for browsers: server-sent events over a files sink, exactly once through Last-Event-ID.

    GET /events                     from the first item on; ?from=now: from here on
    Last-Event-ID: 3.1/w5-0@1234    (a browser's EventSource sends it by itself when it reconnects) from
                                    behind that event on

What was delivered is in the folder of a files sink, fenced and durable, and an event's id is its cursor there
(tail.py). So whoever was disconnected in the middle, by whatever died, gets exactly what follows the last
event it has seen. Every worker listens on the same port (SO_REUSEPORT) and sees the whole folder, so a client
whose worker died is served by another at once.

A client that does not read holds up nobody: it is read for again when it has taken what it was sent, and is
closed if it takes nothing for half a minute. Idle cost is bounded: looking takes at most a twentieth of one
core.

Keeps: per slot, items in their order; nothing twice, nothing left out, for a client that keeps the last id.
Does not: TLS or logins (put a proxy before it); forget (the folder grows); work across machines without a
shared folder.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

import msgspec

from flamestream.connectors.http.connector import EventsSpec
from flamestream.connectors.kit.blocking import BlockingConsumer
from flamestream.connectors.kit.item_columns import plain
from flamestream.connectors.kit.spec import address_of
from flamestream.core.protocol.actions import Deliver, OpenSink
from flamestream.fenced.tail import Cursor, Given, Tail
from flamestream.loop.background import Threads
from flamestream.model.errors import FlameStreamError
from flamestream.net.http_server import Exchange, HttpServer, Request
from flamestream.ports import Reactor, Timer

EVENTS_A_TURN: Final = 256
BYTES_A_TURN: Final = 256 << 10
"""About so much waits for a client that does not read, and an event of any size."""
LOOK_SHARE: Final = 20
BEAT_SECONDS: Final = 5.0
"""Between comments to a client that gets nothing else, so that dead ones are noticed."""
_HEADERS: Final = [
    ("content-type", "text/event-stream"),
    ("cache-control", "no-store"),
    # nginx gathers what it passes on unless it is told so.
    ("x-accel-buffering", "no"),
]
Look = tuple[bytes, float]
"""Text for a client, and the processor's seconds that it took to find it."""
_json: Final = msgspec.json.Encoder().encode


class EventsConsumer:
    """`ports.Consumer`: a files sink that is also shown."""

    def __init__(self, spec: EventsSpec, files: BlockingConsumer, reactor: Reactor) -> None:
        self._files, self._reactor = files, reactor
        self._root, self._path, self._allow_origin = Path(spec.path), spec.url, spec.allow_origin
        self._poll_seconds = spec.poll_ms / 1000
        self._thread = Threads(1, reactor.soon)
        self._server = HttpServer(reactor, address_of(spec.listen), self._asked, body=0, shared=True)
        self._clients: set[_Client] = set()
        self._end = Cursor()
        """The end of the folder as it was seen last; only in the thread."""

    @property
    def problem(self) -> str:
        """Why nothing is delivered, or shown."""
        return self._files.problem or self._server.problem

    def open(self, action: OpenSink) -> None:
        self._server.open()
        self._files.open(action)

    def deliver(self, action: Deliver) -> None:
        self._files.deliver(action)

    def close(self) -> None:
        for client in list(self._clients):
            client.end()
        self._server.close()
        self._thread.close()
        self._files.close()

    def _asked(self, request: Request, exchange: Exchange) -> None:
        origin = [("access-control-allow-origin", self._allow_origin)] if self._allow_origin else []
        if request.path != self._path:
            exchange.answer(404, {"error": f"there is only {self._path}"}, origin)
        elif request.method == "HEAD":
            exchange.answer(200, b"", [*_HEADERS, *origin])
        elif request.method != "GET":
            exchange.answer(405, {"error": "only GET"}, [("allow", "GET, HEAD"), *origin])
        else:
            query = parse_qs(request.query)
            last = request.headers.get("last-event-id") or query.get("after", [""])[0]
            try:
                cursor = Cursor.parse(last) if last else Cursor()
            except FlameStreamError as error:
                exchange.answer(400, {"error": str(error)}, origin)
                return
            exchange.stream([*_HEADERS, *origin])
            from_now = not last and query.get("from") == ["now"]
            self._clients.add(_Client(self, Tail(self._root, cursor), exchange, from_now))

    # --- for clients ----------------------------------------------------------------------------------------

    def background(self, call: Callable[[], Look], done: Callable[[Look | Exception], None]) -> None:
        """Run a blocking call in this sink's thread."""
        self._thread.background(call, done)

    def tail_of_now(self) -> Tail:
        """Behind everything that is there. In the thread; each call looks at what is new since the last one,
        whoever it was for."""
        Tail(self._root, self._end).to_the_end()
        return Tail(self._root, self._end.copy())

    def later(self, cost: float, call: Callable[[], None]) -> Timer:
        """Call once a client whose look took `cost` seconds of a processor may look again."""
        # One thread looks for all clients, so the wait grows with their number.
        return self._reactor.later(max(self._poll_seconds, LOOK_SHARE * cost * len(self._clients)), call)

    def left(self, client: "_Client") -> None:
        """Forget a client that has gone."""
        self._clients.discard(client)


class _Client:
    """A browser's stream: looks, sends, looks again."""

    def __init__(self, sink: EventsConsumer, tail: Tail, exchange: Exchange, from_now: bool) -> None:
        self._sink, self._tail, self._exchange = sink, tail, exchange
        self._timer: Timer | None = None
        self._open = True
        self._sent = time.monotonic()
        exchange.gone = self.end
        # Milliseconds until a browser comes back: by itself it takes seconds.
        exchange.send(b"retry: 200\n\n")
        if from_now:
            sink.background(self._to_the_end, self._looked)
        else:
            self._look()

    def end(self) -> None:
        """End the stream of a client that has gone, or must go."""
        if self._open:
            self._open = False
            if self._timer is not None:
                self._timer.cancel()
            self._exchange.end()
            self._sink.left(self)

    def _to_the_end(self) -> Look:
        self._tail = self._sink.tail_of_now()
        return f"id: {self._tail.cursor}\n\n".encode(), 0.0

    def _look(self) -> None:
        self._timer = None
        if self._open:
            self._sink.background(self._read, self._looked)

    def _read(self) -> Look:
        # (!) Not by the clock: who waited for a processor would look again twenty times as late.
        began = time.thread_time()
        return text_of(self._tail.next(EVENTS_A_TURN, BYTES_A_TURN)), time.thread_time() - began

    def _looked(self, result: Look | Exception) -> None:
        if not self._open:
            return
        if isinstance(result, (FlameStreamError, OSError)):
            self._exchange.send(b"event: problem\ndata: " + _json(str(result)) + b"\n\n")
            self.end()
            return
        # of a cursor that the client made up, for all we know: not worth more than its connection
        if isinstance(result, Exception):
            self._exchange.failed(result)
            return
        data, cost = result
        if not data and time.monotonic() - self._sent > BEAT_SECONDS:
            data = b":\n\n"
        taken = self._exchange.send(data) if data else True
        if data:
            self._sent = time.monotonic()
        # A beat has 3 bytes: it is no reason to look again at once.
        if taken and len(data) > 3:
            self._look()
        else:
            self._timer = self._sink.later(cost, self._look if taken else self._wait)

    def _wait(self) -> None:
        """Look again once the client has taken what it was sent."""
        self._timer = None
        if self._open:
            if self._exchange.idle:
                self._look()
            else:
                self._timer = self._sink.later(0.0, self._wait)


def text_of(given: Sequence[Given]) -> bytes:
    """The events of a stream."""
    return b"".join(
        b"id: %b\ndata: %b\n\n" % (item.cursor.encode(), _json(plain(item.payload))) for item in given
    )
