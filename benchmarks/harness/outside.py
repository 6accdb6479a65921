"""The outside of a benchmark: a producer and a consumer, each a process of its own, on one machine's monotonic clock.

    python benchmarks/harness/outside.py producer --port P --documents N --rate R --report FILE
    python benchmarks/harness/outside.py consumer --port P --report FILE

Document `i` is due at start + i / rate, whatever the engine does. The producer's report has that time beside the one at which it really
left first, so an engine that holds the producer up does not hide the wait of what stood behind; what is asked for after a reconnect is
sent again. The consumer stamps every delivery when its bytes are there, acknowledges it, and looks inside only at the end. Both speak
docs/reference/wire-protocol.md and nothing else of ours but the payload decoder.
"""

import argparse
import json
import selectors
import signal
import socket
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from harness.corpus import documents

_CHUNK = memoryview(bytearray(1 << 18))


def listen(port: int) -> socket.socket:
    """A listening socket on this machine."""
    listener = socket.create_server(("127.0.0.1", port), backlog=64)
    listener.setblocking(False)
    return listener


class Peer:
    """A connection that gives whole frames."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self._bytes = bytearray()

    def frames(self) -> list[bytes] | None:
        """Those that are complete; None at the end of the connection."""
        try:
            size = self.socket.recv_into(_CHUNK)
        except (ConnectionError, TimeoutError):
            return None
        if not size:
            return None
        self._bytes += _CHUNK[:size]
        frames = []
        while len(self._bytes) >= 4:
            (length,) = struct.unpack_from(">I", self._bytes)
            if len(self._bytes) < 4 + length:
                break
            frames.append(bytes(self._bytes[4 : 4 + length]))
            del self._bytes[: 4 + length]
        return frames

    def send(self, frame: bytes) -> None:
        self.socket.sendall(struct.pack(">I", len(frame)) + frame)


class Producer:
    """Serves the corpus on a schedule."""

    def __init__(self, port: int, lines: Iterable[str], rate: float, fill: int = 0) -> None:
        """The first `fill` of them leave as fast as they are taken."""
        self.lines = [line.encode() for line in lines]
        self.rate, self._fill, self._filled = rate, fill, 0.0
        self.due: list[float] = []
        self.sent: list[float] = []
        self._listener = listen(port)

    def serve(self) -> None:
        """Until the engine has everything and hangs up."""
        peer, start, at = None, 0.0, 0
        # epoll rounds its wait up to whole milliseconds, which would count as the engine's.
        selector = selectors.SelectSelector()
        selector.register(self._listener, selectors.EVENT_READ)
        ended = False
        while True:
            due = self._due(at, start)
            waiting = peer is not None and at < len(self.lines)
            for key, _ in selector.select(max(0.0, due - time.monotonic()) if waiting else 0.2):
                if key.fileobj is self._listener:
                    if peer is not None:
                        selector.unregister(peer.socket)
                    peer = Peer(self._listener.accept()[0])
                    selector.register(peer.socket, selectors.EVENT_READ)
                    at, ended = -1, False
                elif peer is not None and (frames := peer.frames()) is None:
                    selector.unregister(peer.socket)
                    peer = None
                    if ended:
                        return
                elif peer is not None and at < 0 and frames:
                    at = int(json.loads(frames[0])["next"].get("", 0))
                    start = start or time.monotonic() + 0.01
            if peer is not None and at >= 0:
                at = self._send_due(peer, at, start)
                if at == len(self.lines) and not ended:
                    ended = True
                    peer.send(b"")

    def _due(self, at: int, start: float) -> float:
        if not self.rate or at < self._fill:
            return start
        if self._fill and not self._filled:
            self._filled = time.monotonic()
        return (self._filled or start) + (at - self._fill) / self.rate

    def _send_due(self, peer: Peer, at: int, start: float) -> int:
        while at < len(self.lines) and self._due(at, start) <= time.monotonic():
            if at == len(self.sent):
                self.sent.append(time.monotonic())
                self.due.append(self._due(at, start) if self.rate and at >= self._fill else self.sent[-1])
            try:
                peer.send(struct.pack(">Q", at) + self.lines[at])
            except (ConnectionError, TimeoutError):
                return at
            at += 1
        return at


class Head(msgspec.Struct, array_like=True):
    """Of a question; the rest is left as bytes."""

    kind: str
    second: msgspec.Raw
    third: msgspec.Raw
    fourth: msgspec.Raw = msgspec.Raw()


class Consumer:
    """Takes deliveries of every worker; keeps what each slot got last, and refuses older fences.

    Under the newest fence it looks at nothing but a delivery's number: what it does between a delivery and its answer would count as the
    engine's time, and keep it from stamping the next one.
    """

    def __init__(self, port: int) -> None:
        self.deliveries: list[tuple[float, list[Any]]] = []
        self._unread: list[tuple[float, msgspec.Raw]] = []
        self._last: dict[int, list[Any]] = {}
        self._fence = [0, 0]
        self._head = msgspec.msgpack.Decoder(Head).decode
        self._pair = msgspec.msgpack.Decoder(list[int]).decode
        self._listener = listen(port)
        self._stopped = False
        signal.signal(signal.SIGTERM, self._stop)

    def serve(self) -> None:
        """Until SIGTERM."""
        selector = selectors.DefaultSelector()
        selector.register(self._listener, selectors.EVENT_READ)
        while not self._stopped:
            for key, _ in selector.select(0.2):
                if key.fileobj is self._listener:
                    peer = Peer(self._listener.accept()[0])
                    selector.register(peer.socket, selectors.EVENT_READ, peer)
                elif (frames := key.data.frames()) is None:
                    selector.unregister(key.fileobj)
                else:
                    now = time.monotonic()
                    for frame in frames:
                        self._answer(key.data, frame, now)

    def _answer(self, peer: Peer, frame: bytes, now: float) -> None:
        head = self._head(frame)
        if head.kind == "open":
            self._open(peer, msgspec.msgpack.decode(frame))
        elif (fence := self._pair(head.second)) < self._fence:
            peer.send(msgspec.msgpack.encode(["fenced", fence]))
        else:
            peer.send(msgspec.msgpack.encode(["acknowledged", fence, head.third]))
            self._unread.append((now, head.fourth))

    def _open(self, peer: Peer, question: list[Any]) -> None:
        """A worker opens its slots. All workers of an attempt do, before anything of it comes, so one fence for all slots is enough."""
        fence, slots = question[2], question[6]
        if fence < self._fence:
            peer.send(msgspec.msgpack.encode(["fenced", fence]))
            return
        self._fence = fence
        self.read()
        peer.send(msgspec.msgpack.encode(["opened", fence, [self._last[slot] for slot in slots if slot in self._last]]))

    def read(self) -> None:
        """Look into what has come, and drop what had come before."""
        for when, raw in self._unread:
            new = [bundle for bundle in msgspec.msgpack.decode(raw) if self._last.get(bundle[0], [0, 0])[1] < bundle[1]]
            self._last.update((bundle[0], bundle) for bundle in new)
            self.deliveries.append((when, new))
        self._unread.clear()

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopped = True


def report(consumer: Consumer) -> dict[str, Any]:
    """When each document's last change came, how many came, and the times of all deliveries."""
    import workload  # registers the payload types

    from flamestream.model.payload import decode_items

    consumer.read()
    last: dict[int, float] = {}
    counts: dict[int, int] = {}
    lengths: dict[str, int] = {}
    disorder = 0
    for when, bundles in consumer.deliveries:
        for bundle in bundles:
            for _, change in decode_items(bundle[3]):
                assert isinstance(change, workload.Change)
                last[change.document] = when
                counts[change.document] = counts.get(change.document, 0) + 1
                disorder += change.documents != lengths.get(change.word, 0) + 1
                lengths[change.word] = change.documents
    return {"last": last, "counts": counts, "disorder": disorder, "deliveries": [when for when, bundles in consumer.deliveries if bundles]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["producer", "consumer"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--mean", type=int, default=250)
    parser.add_argument("--rate", type=float, default=50.0, help="documents a second; 0: as fast as they are taken")
    parser.add_argument("--lines", type=Path, help="a file of documents instead of the corpus")
    parser.add_argument("--fill", type=int, default=0, help="so many leave as fast as they are taken, before the rate counts")
    parser.add_argument("--report", type=Path, required=True)
    options = parser.parse_args()
    if options.role == "producer":
        lines = options.lines.read_text().splitlines() if options.lines else documents(options.documents, options.mean)
        producer = Producer(options.port, lines, options.rate, options.fill)
        print("ready", flush=True)
        producer.serve()
        expected = [len(set(line.decode().partition("\t")[2].split())) for line in producer.lines]
        options.report.write_text(json.dumps({"due": producer.due, "sent": producer.sent, "expected": expected}))
    else:
        consumer = Consumer(options.port)
        print("ready", flush=True)
        consumer.serve()
        options.report.write_text(json.dumps(report(consumer)))


if __name__ == "__main__":
    main()
