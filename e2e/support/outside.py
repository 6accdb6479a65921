"""The outside of a job under test, in a pod of its own: a producer of real text, a consumer that remembers everything, and an auditor.

    python3 outside.py            producer on 7001, consumer on 7002, questions by HTTP on 7003

The producer sends document `i` when it is due, whatever happens to the job, and again what is asked for after a reconnect. The consumer
keeps the last bundle and the fence of each slot, as docs/reference/wire-protocol.md asks, and the time of every delivery. The audit
computes what a sequential interpreter makes of the same documents and compares every slot byte by byte; it may be asked while the job runs
(then a slot may lack what is still under way, but must have a prefix) or when everything is through.

    /rate?per_second=50&documents=1000   send so many more, at that pace (0: as fast as they are taken)
    /end                                 no more documents will come
    /state                               documents sent, deliveries, items, the time
    /gap?since=T                         the longest pause between deliveries since then, and when it ended
    /latency?first=N&last=M              of documents N to M, in milliseconds
    /audit                               counts of what is lost, doubled, reordered; and whether all is through
"""

import bisect
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
from collections import deque
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
from verdict import verdict_of

sys.path.insert(0, "/opt/flamestream/app")

CHUNK = 1 << 18
WORDS = int(os.environ.get("WORDS", "250"))
SLOTS = 256
TICK = 0.05
FULL = 0.005
"""Seconds between two looks at a reader that takes nothing."""
EARLY = 0.0003
"""Seconds that being woken takes; so long before a document is due the producer waits for the clock alone."""


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


class Head(msgspec.Struct, array_like=True):
    """Of what a worker says; the rest is left as bytes."""

    kind: str
    second: msgspec.Raw
    third: msgspec.Raw
    fourth: msgspec.Raw = msgspec.Raw()


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
        self._newest = [0, 0]
        """Of all fences: what comes under it need not be looked into to be taken."""
        self._unread: deque[tuple[float, msgspec.Raw]] = deque()
        self._problem = ""
        self._head = msgspec.msgpack.Decoder(Head).decode
        self._selector = selectors.DefaultSelector()
        self._alarm = os.eventfd(0, os.EFD_NONBLOCK)
        self._selector.register(self._alarm, selectors.EVENT_READ, lambda: os.eventfd_read(self._alarm))
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
            found = self._selector.select(0 if self._unread else wait)
            for key, _ in found:
                key.data()
            self._send_due()
            if self._unread and not found:
                self._read()

    def wake(self) -> None:
        """For ever, in a thread of its own: the loop is woken just before a document is due. It waits in whole milliseconds itself, rounded
        up, so that each would leave half of one late, and that would count as the job's time."""
        told = 0.0
        while True:
            due = self._due
            time.sleep(FULL if due == told else min(TICK, max(0.0, due - EARLY - time.monotonic())))
            if told != due == self._due <= time.monotonic() + EARLY:
                os.eventfd_write(self._alarm, 1)
                told = due

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
            if not again and self.rate:
                if self._due > time.monotonic() + EARLY:
                    return
                while self._due > time.monotonic():
                    pass
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
            if not peer.send(msgspec.msgpack.encode(self._answer(frame, now))):
                self._drop(peer)
                return

    def _answer(self, frame: bytes, now: float) -> list[Any]:
        """Nothing but the fence and the number is looked at before a delivery under the newest fence is acknowledged: it would count as the
        job's time."""
        head = self._head(frame)
        if head.kind == "open":
            return self._open(msgspec.msgpack.decode(frame))
        fence = msgspec.msgpack.decode(head.second)
        if fence < self._newest and self._is_fenced(fence, [bundle[0] for bundle in msgspec.msgpack.decode(head.fourth)]):
            return ["fenced", fence]
        if self._problem:
            return ["failed", fence, "bug", self._problem]
        self._unread.append((now, head.fourth))
        return ["acknowledged", fence, head.third]

    def _open(self, question: list[Any]) -> list[Any]:
        fence, slots = question[2], question[6]
        if self._is_fenced(fence, slots):
            return ["fenced", fence]
        self._fences.update(dict.fromkeys(slots, fence))
        self._newest = max(self._newest, fence)
        while self._unread:
            self._read()
        return ["opened", fence, [self._last[slot] for slot in slots if slot in self._last]]

    def _is_fenced(self, fence: list[int], slots: list[int]) -> bool:
        return any(self._fences.get(slot, [0, 0]) > fence for slot in slots)

    def _read(self) -> None:
        """Look into the oldest delivery that was not looked into."""
        when, raw = self._unread.popleft()
        fresh = []
        for bundle in msgspec.msgpack.decode(raw):
            before = self._last.get(bundle[0])
            if before is not None and bundle[1] == before[1]:
                if bundle != before:
                    self._problem = self._problem or f"slot {bundle[0]}: bundle {bundle[1]} came again with other bytes"
            elif bundle[1] != (before[1] if before else 0) + 1:
                self._problem = self._problem or f"slot {bundle[0]}: bundle {bundle[1]} follows {before[1] if before else 0}"
            else:
                self._last[bundle[0]] = bundle
                fresh.append(bundle)
        if fresh:
            self.deliveries.append((when, fresh))

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
        if first >= len(self.sent):
            return {"documents": 0}
        done: dict[int, float] = {}
        begun = bisect.bisect_left(self.deliveries, self.sent[first], key=itemgetter(0))  # the rest is of documents before
        for when, bundles in self.deliveries[begun:]:
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
        from flamestream.reference import interpret

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
        verdict = verdict_of(expected, got, disorder, count)
        return verdict | {"complete": False, "clean": False, "first_difference": self._problem} if self._problem else verdict


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
    threading.Thread(target=OUTSIDE.wake, daemon=True).start()
    OUTSIDE.serve()
