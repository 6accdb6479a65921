"""The outside of a job under test, in a pod of its own: a producer of real text, a consumer that remembers everything, and an auditor.

    python3 outside.py            producer on 7001, consumer on 7002, questions by HTTP on 7003

The producer sends document `i` when it is due, whatever happens to the job, and again what is asked for after a reconnect. The consumer
keeps the last bundle and the fence of each slot, as docs/wire-protocol.md asks, and the time of every delivery. The audit computes what a
sequential interpreter makes of the same documents and compares every slot byte by byte; it may be asked while the job runs (then a slot
may lack what is still under way, but must have a prefix) or when everything is through.

    /rate?per_second=50&documents=1000   send so many more, at that pace (0: as fast as they are taken)
    /end                                 no more documents will come
    /state                               documents sent, deliveries, items, the time
    /gap?since=T                         the longest pause between deliveries since then, and when it ended
    /latency?first=N&last=M              of documents N to M, in milliseconds
    /audit                               counts of what is lost, doubled, reordered; and whether all is through
"""

import gc
import itertools
import json
import os
import select
import selectors
import socket
import struct
import sys
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

sys.path.insert(0, "/opt/flamestream/app")

CHUNK = 1 << 18
WORDS = int(os.environ.get("WORDS", "250"))
SLOTS = 256
TICK = 0.05
FULL = 0.005
"""Seconds between two looks at a reader that takes nothing."""


def documents() -> list[str]:
    """Real text, the same wherever this image runs: Python's own library, cut into pieces of WORDS words."""
    pieces: list[str] = []
    for file in sorted(Path("/usr/lib/python3.11").glob("*.py")):
        words = file.read_text(encoding="utf-8", errors="replace").split()
        pieces += [" ".join(words[at : at + WORDS]) for at in range(0, len(words), WORDS)]
    return pieces


class Peer:
    """A connection that gives whole frames."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(5.0)
        self.socket = connection
        self._bytes = bytearray()

    def frames(self) -> list[bytes] | None:
        """Those that are complete; None at the end of the connection."""
        try:
            data = self.socket.recv(CHUNK)
        except OSError:
            return None
        if not data:
            return None
        self._bytes += data
        frames = []
        while len(self._bytes) >= 4:
            (length,) = struct.unpack_from(">I", self._bytes)
            if len(self._bytes) < 4 + length:
                break
            frames.append(bytes(self._bytes[4 : 4 + length]))
            del self._bytes[: 4 + length]
        return frames

    def send(self, frame: bytes) -> bool:
        """Whether it could be sent."""
        try:
            self.socket.sendall(struct.pack(">I", len(frame)) + frame)
        except OSError:
            return False
        return True


class Outside:
    """Producer and consumer in one loop."""

    def __init__(self) -> None:
        self._pieces = documents()
        self.base = 0
        """The first document that was asked for; what it gives rests on those before."""
        self.wanted = 0
        self.rate = 0.0
        self.ended = False
        self.sent: list[float] = []
        self.deliveries: list[tuple[float, list[Any]]] = []
        self._due = 0.0
        self._source: Peer | None = None
        self._attempt = -1
        self._at = -1
        self._told_end = self._full = False
        """`_full`: the reader takes nothing, perhaps it is cut off: the consumer, which is in this loop too, must not wait for it."""
        self._last: dict[int, list[Any]] = {}
        self._fences: dict[int, list[int]] = {}
        self._selector = selectors.DefaultSelector()
        for port, accept in ((7001, self._accept_source), (7002, self._accept_sink)):
            listener = socket.create_server(("0.0.0.0", port), backlog=64)  # the pod's
            self._selector.register(listener, selectors.EVENT_READ, lambda one=listener, then=accept: then(one.accept()[0]))

    def text(self, number: int) -> str:
        """Document `number`."""
        return f"{number}\t{self._pieces[number % len(self._pieces)]}"

    def serve(self) -> None:
        """For ever."""
        while True:
            ready = self._source is not None and 0 <= self._at < self.wanted
            wait = max(FULL if self._full else 0.0, min(TICK, self._due - time.monotonic())) if ready else TICK
            for key, _ in self._selector.select(wait):
                key.data()
            self._send_due()

    # --- producer -------------------------------------------------------------------------------------------------------------------

    def _accept_source(self, connection: socket.socket) -> None:
        peer = Peer(connection)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._from_source(peer))

    def _from_source(self, peer: Peer) -> None:
        frames = peer.frames()
        if frames is None:
            self._drop(peer)
            return
        for frame in frames:
            said = json.loads(frame)
            if "next" not in said:
                continue
            if said["attempt"] < self._attempt:  # a worker that does not know yet that it was replaced
                self._drop(peer)
                return
            if self._source is not None and self._source is not peer:
                self._drop(self._source)
            self._attempt, self._source, self._at, self._told_end = said["attempt"], peer, int(said["next"].get("", 0)), False
            if not self.sent and self._at:
                self._begin_at(self._at)

    def _begin_at(self, first: int) -> None:
        """A restored job: what comes before was another outside's."""
        self.base, self.sent, self.wanted = first, [0.0] * first, max(self.wanted, first)

    def _drop(self, peer: Peer) -> None:
        if peer is self._source:
            self._source, self._at = None, -1
        if peer.socket.fileno() >= 0:
            self._selector.unregister(peer.socket)
            peer.socket.close()

    def _send_due(self) -> None:
        while self._source is not None and 0 <= self._at < self.wanted:
            again = self._at < len(self.sent)
            if not again and self.rate and self._due > time.monotonic():
                return
            self._full = not select.select([], [self._source.socket], [], 0)[1]
            if self._full:
                return
            if not self._source.send(struct.pack(">Q", self._at) + self.text(self._at).encode()):
                self._drop(self._source)
                return
            if not again:
                self.sent.append(self._due if self.rate else time.monotonic())
                self._due += 1 / self.rate if self.rate else 0.0
            self._at += 1
        if self._source is not None and self.ended and not self._told_end and self._at == self.wanted:
            self._told_end = self._source.send(b"")

    def more(self, per_second: float, count: int) -> None:
        """Called from the other thread: the pace first, then what there is."""
        self.rate, self._due = per_second, time.monotonic() + 0.05
        self.wanted += count

    # --- consumer -------------------------------------------------------------------------------------------------------------------

    def _accept_sink(self, connection: socket.socket) -> None:
        peer = Peer(connection)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._from_sink(peer))

    def _from_sink(self, peer: Peer) -> None:
        frames = peer.frames()
        if frames is None:
            self._drop(peer)
            return
        now = time.monotonic()
        for frame in frames:
            peer.send(msgspec.msgpack.encode(self._answer(msgspec.msgpack.decode(frame), now)))

    def _answer(self, question: list[Any], now: float) -> list[Any]:
        opening = question[0] == "open"
        fence = question[2] if opening else question[1]
        slots = question[6] if opening else [bundle[0] for bundle in question[3]]
        if any(self._fences.get(slot, [0, 0]) > fence for slot in slots):
            return ["fenced", fence]
        if opening:
            self._fences.update(dict.fromkeys(slots, fence))
            return ["opened", fence, [self._last[slot] for slot in slots if slot in self._last]]
        fresh = []
        for bundle in question[3]:
            before = self._last.get(bundle[0])
            if before is not None and bundle[1] == before[1]:
                if bundle != before:
                    return ["failed", fence, "bug", f"slot {bundle[0]}: bundle {bundle[1]} came again with other bytes"]
            elif bundle[1] != (before[1] if before else 0) + 1:
                return ["failed", fence, "bug", f"slot {bundle[0]}: bundle {bundle[1]} follows {before[1] if before else 0}"]
            else:
                self._last[bundle[0]] = bundle
                fresh.append(bundle)
        if fresh:
            self.deliveries.append((now, fresh))
        return ["acknowledged", fence, question[2]]

    # --- answers, in the other thread -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """How far it is."""
        last = self.deliveries[-1][0] if self.deliveries else 0.0
        return {
            "now": time.monotonic(), "base": self.base, "sent": len(self.sent), "wanted": self.wanted, "deliveries": len(self.deliveries),
            "last": last, "first": self.deliveries[0][0] if self.deliveries else 0.0,
        }  # fmt: skip

    def gap(self, since: float) -> dict[str, Any]:
        """The longest pause since then."""
        times = [since, *(when for when, _ in list(self.deliveries) if when >= since)]
        gaps = sorted(((b - a) * 1e3, b) for a, b in itertools.pairwise(times))
        longest, ended = gaps[-1] if gaps else (0.0, 0.0)
        clock = time.time() - time.monotonic()
        ends = [
            [round(ms), datetime.fromtimestamp(end + clock, UTC).isoformat(timespec="milliseconds")[11:-6]] for ms, end in gaps[-1:-5:-1]
        ]
        return {"gap_ms": round(longest, 1), "ended_after_s": round(ended - since, 3), "deliveries": len(times) - 1, "longest": ends}

    def latency(self, first: int, last: int) -> dict[str, Any]:
        """From when a document was due to leave to when its last change was received."""
        from flamestream.model.payload import decode_items

        __import__("workload")  # registers the payload types
        done: dict[int, float] = {}
        for when, bundles in list(self.deliveries):
            for bundle in bundles:
                for _, change in decode_items(bundle[3]):
                    done[change.document] = when
        ordered = sorted((done[i] - self.sent[i]) * 1e3 for i in range(first, min(last, len(self.sent))) if i in done)
        if not ordered:
            return {"documents": 0}
        pick = lambda q: round(ordered[min(len(ordered) - 1, int(q * len(ordered)))], 2)  # noqa: E731
        return {"documents": len(ordered), "p50": pick(0.5), "p95": pick(0.95), "p99": pick(0.99), "max": round(ordered[-1], 1)}

    def audit(self) -> dict[str, Any]:
        """Every slot's items, in the order delivered, against the reference."""
        import workload  # the application, from the job's own ConfigMap

        from flamestream.model import payload as payloads
        from flamestream.model.slot import slot_of
        from flamestream.model.time import FrontId, next_time
        from flamestream.testing.reference import interpret

        delivered = list(self.deliveries)  # before looking at what was sent: more comes while this runs
        count = len(self.sent)
        time_, runs = next_time(0, FrontId(0)), []
        for number in range(count):
            runs.append((time_, [self.text(number)]))
            time_ = next_time(time_, FrontId(0))
        expected: dict[int, list[bytes]] = {}
        for _, value in interpret(workload.graph, runs)["index"]:
            if value.document < self.base:
                continue
            expected.setdefault(slot_of(payloads.encode(value.word), SLOTS), []).append(payloads.encode(value))
        got: dict[int, list[bytes]] = {}
        metas: dict[int, bytes] = {}
        disorder = 0
        for _, bundles in delivered:
            for bundle in bundles:
                for meta, value in payloads.decode_items(bundle[3]):
                    disorder += bytes(meta) <= metas.get(bundle[0], b"")
                    metas[bundle[0]] = bytes(meta)
                    got.setdefault(bundle[0], []).append(payloads.encode(value))
        return _verdict(expected, got, disorder, count)


def _verdict(expected: dict[int, list[bytes]], got: dict[int, list[bytes]], disorder: int, sent: int) -> dict[str, Any]:
    lost = doubled = foreign = 0
    first = ""
    for slot in sorted({*expected, *got}):
        wanted, found = expected.get(slot, []), got.get(slot, [])
        common = next((at for at, (a, b) in enumerate(zip(wanted, found, strict=False)) if a != b), min(len(wanted), len(found)))
        if common < len(found):
            first = (
                first or f"slot {slot}, item {common}: {found[common]!r} instead of {wanted[common] if common < len(wanted) else None!r}"
            )
            doubled += len(found) - len(set(found))
            foreign += len(set(found) - set(wanted))
            lost += len(set(wanted[: len(found)]) - set(found))
    missing = sum(map(len, expected.values())) - sum(map(len, got.values()))
    clean = not (lost or doubled or foreign or disorder or first)
    return {
        "documents": sent, "items": sum(map(len, got.values())), "missing": missing, "complete": clean and missing == 0, "clean": clean,
        "lost": lost, "doubled": doubled, "foreign": foreign, "reordered": disorder, "first_difference": first[:500],
    }  # fmt: skip


OUTSIDE = Outside()


class Questions(BaseHTTPRequestHandler):
    """One request."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        given = dict(parse_qsl(parts.query))
        answer: Any = {}
        if parts.path == "/rate":
            OUTSIDE.more(float(given["per_second"]), int(given["documents"]))
        elif parts.path == "/end":
            OUTSIDE.ended = True
        elif parts.path == "/state":
            answer = OUTSIDE.state()
        elif parts.path == "/gap":
            answer = OUTSIDE.gap(float(given["since"]))
        elif parts.path == "/latency":
            answer = OUTSIDE.latency(int(given["first"]), int(given["last"]))
        elif parts.path == "/audit":
            answer = OUTSIDE.audit()
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


if __name__ == "__main__":
    gc.disable()  # everything is kept, and looking through it would be a pause of ours that is taken for the job's
    server = ThreadingHTTPServer(("0.0.0.0", 7003), Questions)  # the pod's
    threading.Thread(target=server.serve_forever, daemon=True).start()
    OUTSIDE.serve()
