"""The outside of a Nexmark run: a producer of events and a consumer of rows, each a process of its own, on
one monotonic clock.

    python -m nexmark.outside producer --form wire --port P --events FILE --phases JSON --report FILE
    python -m nexmark.outside consumer --form lines --port P --report FILE

A run has phases: first events leave as fast as they are taken, which says what the system carries, then at a
share of that, then at a fixed rate. `form` is what the system speaks: `wire`
(docs/reference/wire-protocol.md, ours) or `lines` (peers/flink, OutsideTables). The producer says when a
phase begins. Between phases nothing leaves, so that none finds the backlog of another. Both end at SIGTERM,
and then report.

Keeps: an event is due by the schedule alone, so that who lets the producer wait pays for it; what a system
asks for again is sent again. Does not: know what rows mean (causes.py).
"""

import argparse
import contextlib
import json
import select
import signal
import socket
import struct
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from harness.lines import Consumer as Lines
from harness.lines import Stopped, _stop
from harness.outside import serve
from harness.wire import TICK, Consumer, Wire

from nexmark.changes import Change, change
from nexmark.results import Newest, Row

PAUSE: Final = 2.5
"""Seconds between phases: more than a checkpoint's interval."""
RECOVERS: Final = 5.0
"""Seconds more behind the last one, in which a system fails."""
_PIECE: Final = 1 << 18
_FINEST: Final = 0.0002
"""Seconds that are waited for the next event at least, so that a high rate does not cost a core."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Events that leave at one pace."""

    name: str
    seconds: float
    most: int
    """Events at most."""
    rate: float = 0.0
    """A second; 0: as fast as they are taken, or `share` of that."""
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Past:
    """What a phase came to."""

    name: str
    first: int
    """Number of its first event."""
    count: int
    start: float
    """When the first was due, on the monotonic clock."""
    rate: float
    """Events a second: taken, at full speed, else due."""

    def due(self, number: int) -> float:
        """When an event of a phase with a pace was due."""
        return self.start + (number - self.first) / self.rate

    @property
    def end(self) -> int:
        """Number of the first event behind it."""
        return self.first + self.count


def said(word: str) -> None:
    """Said on standard output, for whoever started this process."""
    print(word, flush=True)


class Producer:
    """Serves the events of a file to one connection at a time: the newest that asked."""

    def __init__(self, form: str, port: int, events: Path) -> None:
        self._wire = form == "wire"
        self._bytes, self._ends = _framed(events, self._wire)
        self._listener = socket.create_server(("127.0.0.1", port), backlog=16)
        self.port = int(self._listener.getsockname()[1])
        self._peer: socket.socket | None = None
        self._new: dict[socket.socket, bytes] = {}
        self._byte = 0
        self.past: list[Past] = []

    @property
    def at(self) -> int:
        """Number of the next event that leaves whole."""
        return bisect_right(self._ends, self._byte)

    def serve(
        self, phases: list[Phase], hang_up: float, say: Callable[[str], None] = said,
        pause: float = PAUSE, recovers: float = RECOVERS,
    ) -> None:  # fmt: skip
        """Every phase, with pauses between and a longer one behind, then nothing more until SIGTERM. `hang_up` seconds
        into the last one the connection breaks; 0: never. `say` is told where it is."""
        while self._peer is None:
            self._turn(0, TICK)
        for phase in phases:
            say(f"phase {phase.name}")
            breaks = time.monotonic() + hang_up if hang_up and phase is phases[-1] else float("inf")
            self.past.append(self._paced(phase, breaks) if phase.rate or phase.share else self._full(phase))
            self._until(time.monotonic() + pause, self.past[-1].end)
        self._until(time.monotonic() + recovers, self.past[-1].end)
        say("done")
        self._until(float("inf"), self.past[-1].end)

    def _full(self, phase: Phase) -> Past:
        """Its rate is that of the second half: full buffers are no throughput."""
        start, first = time.monotonic(), self.past[-1].end if self.past else 0
        limit, taken = min(first + phase.most, len(self._ends)), [(start, first)]
        while taken[-1][0] < start + phase.seconds and taken[-1][1] < limit:
            self._turn(limit, TICK)
            taken.append((time.monotonic(), self.at))
        middle = next(each for each in taken if each[0] >= (start + taken[-1][0]) / 2)
        (since, before), (until, after) = middle, taken[-1]
        return Past(
            phase.name,
            first,
            after - first,
            start,
            (after - before) / (until - since) if until > since else 0.0,
        )

    def _paced(self, phase: Phase, breaks: float) -> Past:
        first = self.past[-1].end if self.past else 0
        rate = phase.rate or phase.share * self.past[0].rate
        count = max(0, min(int(phase.seconds * rate), phase.most, len(self._ends) - first))
        past = Past(phase.name, first, count, time.monotonic() + TICK, rate)
        while (now := time.monotonic()) < past.due(past.end):
            due = min(past.end, first + max(0, int((now - past.start) * rate) + 1))
            self._turn(due, max(_FINEST, min(TICK, past.due(due) - now)))
            if now > breaks:
                self._break()
                breaks = float("inf")
        return past

    def _until(self, deadline: float, limit: int) -> None:
        while time.monotonic() < deadline:
            self._turn(limit, TICK)

    def _turn(self, limit: int, seconds: float) -> None:
        """Send events below `limit` as far as they are taken, and hear who asks; wait for either so long at
        most."""
        end = self._ends[limit - 1] if limit else 0
        reads = [self._listener, *self._new, *([self._peer] if self._peer else [])]
        writes = [self._peer] if self._peer and self._byte < end else []
        readable, writable, _ = select.select(reads, writes, [], seconds)
        for each in readable:
            if each is self._listener:
                self._new[self._listener.accept()[0]] = b""
            else:
                self._hear(each)
        if writable and self._peer in writable:
            try:
                self._byte += self._peer.send(self._bytes[self._byte : min(end, self._byte + _PIECE)])
            except OSError:
                self._break()

    def _hear(self, peer: socket.socket) -> None:
        try:
            said = peer.recv(1 << 16)
        except OSError:
            said = b""
        if peer is self._peer:
            if not said:
                self._break()
            return
        self._new[peer] += said
        number = _asked(self._new[peer], self._wire)
        if number is not None or not said:
            del self._new[peer]
        if number is not None:
            self._break()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.setblocking(False)
            self._peer, self._byte = peer, self._ends[number - 1] if number else 0

    def _break(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None


def _framed(events: Path, wire: bool) -> tuple[memoryview, "array[int]"]:
    """All events as they leave, and where each one ends."""
    ends, at, pieces = array("Q"), 0, []
    with events.open("rb") as lines:
        for number, line in enumerate(lines):
            piece = struct.pack(">IQ", len(line) + 7, number) + line[:-1] if wire else line
            at += len(piece)
            ends.append(at)
            pieces.append(piece)
    return memoryview(b"".join(pieces)), ends


def _asked(said: bytes, wire: bool) -> int | None:
    """The number of the event that a new connection asks for first, once it has said so."""
    if not wire:
        return int(said) if said.endswith(b"\n") else None
    (length,) = struct.unpack_from(">I", said) if len(said) >= 4 else (1 << 32,)
    return int(json.loads(said[4 : 4 + length])["next"].get("", 0)) if len(said) >= 4 + length else None


Received = list[tuple[float, list[Change]]]
"""When what came, in order."""


def consumed(port: int, form: str) -> Received:
    """All that comes to a port until SIGTERM."""
    if form == "wire":
        wire = Wire()
        ours = Consumer(wire, "127.0.0.1", port)
        serve(wire, lambda: TICK, lambda: None)
        ours.read()
        if ours.problem:
            raise SystemExit(ours.problem)
        return [
            (when, [_change(payload) for bundle in bundles for payload in _payloads(bundle[3])])
            for when, bundles in ours.deliveries
        ]
    lines = Lines(port, 0)
    signal.signal(signal.SIGTERM, _stop)
    print("ready", flush=True)
    with contextlib.suppress(Stopped):
        lines.serve()
    return [received for pieces in lines.connections for received in by_lines(pieces)]


def _payloads(items: bytes) -> list[Any]:
    from flamestream.model.payload import decode_items

    return [payload for _, payload in decode_items(items)]


def _change(payload: Row | Newest) -> Change:
    return ("+U", payload.row) if isinstance(payload, Newest) else ("+I", payload)


def by_lines(pieces: list[tuple[float, bytes]]) -> Iterator[tuple[float, list[Change]]]:
    """What came of whole lines with each piece of a connection."""
    rest = b""
    for when, piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield when, [change(line) for line in whole]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("role", choices=["producer", "consumer"])
    parser.add_argument("--form", choices=["wire", "lines"], required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--events", type=Path)
    parser.add_argument("--phases", default="[]")
    parser.add_argument(
        "--hang-up",
        type=float,
        default=0.0,
        help="seconds into the last phase at which the connection breaks; 0: never",
    )
    parser.add_argument("--pause", type=float, default=PAUSE, help="seconds between phases")
    parser.add_argument("--recovers", type=float, default=RECOVERS, help="seconds more behind the last one")
    parser.add_argument("--report", type=Path, required=True)
    options = parser.parse_args()
    if options.role == "consumer":
        options.report.write_bytes(msgspec.msgpack.encode(consumed(options.port, options.form)))
        return
    producer = Producer(options.form, options.port, options.events)
    signal.signal(signal.SIGTERM, _stop)
    print("ready", flush=True)
    with contextlib.suppress(Stopped):
        phases = [Phase(**phase) for phase in json.loads(options.phases)]
        producer.serve(phases, options.hang_up, pause=options.pause, recovers=options.recovers)
    # It may have ended by itself, and be told to end while it reports.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    options.report.write_text(json.dumps([asdict(past) for past in producer.past]))


if __name__ == "__main__":
    main()
