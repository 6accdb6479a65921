"""The outside of a benchmark for systems that do not speak our protocol: plain lines over TCP, on one
machine's monotonic clock.

    python benchmarks/harness/lines.py producer --port P --documents N --rate R --report FILE
    python benchmarks/harness/lines.py consumer --port P --expect LINES --report FILE

A system connects to the producer, sends the number of the first document it wants as a line, and gets the
rest of the corpus, one document a line; document `i` leaves at start + i / rate, whatever the system does. To
the consumer it makes as many connections as it likes and sends a change a line:
`word<TAB>document<TAB>documents so far<TAB>positions,with,commas`. The changes of one word must come in the
order of their connections. The consumer stamps each piece when its bytes are there, counts its lines, and
looks inside only at the end.

Keeps: the same corpus, schedule, clock and report as outside.py. Does not: acknowledge anything.
"""

import argparse
import contextlib
import json
import selectors
import signal
import socket
import time
from pathlib import Path
from types import FrameType
from typing import Any

from harness.corpus import documents

_PIECE = 1 << 18


class Stopped(Exception):
    """SIGTERM came."""


def listen(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port), backlog=256)


class Producer:
    """Serves the corpus on a schedule, to one system at a time."""

    def __init__(self, port: int, count: int, mean: int, rate: float) -> None:
        self.lines = [line.encode() + b"\n" for line in documents(count, mean)]
        self.expected = [len(set(line.decode().partition("\t")[2].split())) for line in self.lines]
        self.due: list[float] = []
        self.sent: list[float] = []
        self._rate = rate
        self._start = 0.0
        self._listener = listen(port)

    def serve(self) -> None:
        """Until SIGTERM. The connection stays open behind the last line: a stream has no end."""
        while True:
            peer = self._listener.accept()[0]
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                self._serve(peer, int(peer.makefile("rb").readline() or 0))
            except OSError:
                peer.close()

    def _serve(self, peer: socket.socket, first: int) -> None:
        self._start = self._start or time.monotonic() + 0.01
        for at in range(first, len(self.lines)):
            due = self._start + at / self._rate if self._rate else time.monotonic()
            if (left := due - time.monotonic()) > 0:
                time.sleep(left)
            if at == len(self.sent):
                self.sent.append(time.monotonic())
                self.due.append(due)
            peer.sendall(self.lines[at])
        while peer.recv(1024):
            pass


class Consumer:
    """Takes what comes, from any number of connections."""

    def __init__(self, port: int, expect: int) -> None:
        self._expect, self._count = expect, 0
        self._selector = selectors.DefaultSelector()
        self._listener = listen(port)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self.connections: list[list[tuple[float, bytes]]] = []

    def serve(self) -> None:
        """Until SIGTERM. Says `done` when as many lines have come as are expected."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self.connections.append([])
                    self._selector.register(
                        self._listener.accept()[0], selectors.EVENT_READ, self.connections[-1]
                    )
                    continue
                assert isinstance(key.fileobj, socket.socket)
                self._take(key.fileobj, key.data)

    def _take(self, peer: socket.socket, pieces: list[tuple[float, bytes]]) -> None:
        try:
            piece = peer.recv(_PIECE)
        except ConnectionError:
            piece = b""
        if not piece:
            self._selector.unregister(peer)
            peer.close()
            return
        pieces.append((time.monotonic(), piece))
        before = self._count
        self._count += piece.count(b"\n")
        if before < self._expect <= self._count:
            print("done", flush=True)


def report(connections: list[list[tuple[float, bytes]]]) -> dict[str, Any]:
    """When each document's last change came, how many came, and the times of all deliveries: as of
    outside.py."""
    last: dict[int, float] = {}
    counts: dict[int, int] = {}
    lengths: dict[bytes, int] = {}
    disorder = 0
    for pieces in connections:
        rest = b""
        for when, piece in pieces:
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                word, number, length, _ = line.split(b"\t")
                document = int(number)
                last[document] = max(when, last.get(document, when))
                counts[document] = counts.get(document, 0) + 1
                disorder += int(length) != lengths.get(word, 0) + 1
                lengths[word] = int(length)
    deliveries = sorted(when for pieces in connections for when, _ in pieces)
    return {"last": last, "counts": counts, "disorder": disorder, "deliveries": deliveries}


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise Stopped


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("role", choices=["producer", "consumer"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--mean", type=int, default=250)
    parser.add_argument(
        "--rate", type=float, default=50.0, help="documents a second; 0: as fast as they are taken"
    )
    parser.add_argument("--expect", type=int, default=0)
    parser.add_argument("--report", type=Path, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    outside: Producer | Consumer
    if options.role == "producer":
        outside = Producer(options.port, options.documents, options.mean, options.rate)
        print("ready", sum(outside.expected), flush=True)
    else:
        outside = Consumer(options.port, options.expect)
        print("ready", flush=True)
    with contextlib.suppress(Stopped):
        outside.serve()
    if isinstance(outside, Producer):
        options.report.write_text(
            json.dumps({"due": outside.due, "sent": outside.sent, "expected": outside.expected})
        )
    else:
        options.report.write_text(json.dumps(report(outside.connections)))


if __name__ == "__main__":
    main()
