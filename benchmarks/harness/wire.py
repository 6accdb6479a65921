"""The outside of our socket sources and sinks, by docs/reference/wire-protocol.md and nothing of ours: a
producer, a consumer, their loop.

The producer sends document `i` when it is due, whatever the engine does, and notes beside that when it really
left: an engine that holds it up does not hide the wait of what stood behind. What is asked for after a
reconnect is sent again. The consumer stamps a delivery when its bytes are there, answers it by its number
alone, and looks inside later: all that would count as the engine's time. For benchmarks, a process each
(outside.py), and for end-to-end tests, both in one loop of a pod (e2e/support/outside.py).

Keeps: a consumer's rules 1 to 4; nobody waits for a reader that takes nothing. Does not: survive its process,
stop by itself.
"""

import json
import select
import selectors
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

TICK = 0.05
"""Seconds after which a loop looks whether something was asked of it meanwhile, so none is due earlier."""
_CHUNK = memoryview(bytearray(1 << 18))


class Peer:
    """A connection of whole frames."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(5.0)
        self.socket = connection
        self.is_open = True
        self.is_full = False
        self._bytes = bytearray()

    def frames(self) -> list[bytes] | None:
        """Those that are complete; None at the end of the connection."""
        try:
            size = self.socket.recv_into(_CHUNK)
        except OSError:
            return None
        if not size:
            return None
        self._bytes += _CHUNK[:size]
        return self._taken()

    def send(self, frame: bytes) -> bool:
        """Whether it could be sent."""
        try:
            self.socket.sendall(self._framed(frame))
        except OSError:
            return False
        return True

    def _taken(self) -> list[bytes]:
        frames = []
        while len(self._bytes) >= 4:
            (length,) = struct.unpack_from(">I", self._bytes)
            if len(self._bytes) < 4 + length:
                break
            frames.append(bytes(self._bytes[4 : 4 + length]))
            del self._bytes[: 4 + length]
        return frames

    def _framed(self, frame: bytes) -> bytes:
        return struct.pack(">I", len(frame)) + frame


class LinePeer(Peer):
    """A connection of whole lines, of a system that does not speak our protocol (as in lines.py)."""

    def _taken(self) -> list[bytes]:
        *lines, self._bytes = self._bytes.split(b"\n")
        return [bytes(line) for line in lines]

    def _framed(self, frame: bytes) -> bytes:
        return frame + b"\n"


Hears = Callable[[Peer, list[bytes]], None]


class Wire:
    """The sockets of one loop, over `select`: epoll rounds its wait up to whole milliseconds, which would
    count as the engine's."""

    def __init__(self) -> None:
        self._selector = selectors.SelectSelector()

    def listen(self, host: str, port: int, hear: Hears, kind: type[Peer] = Peer) -> int:
        """Frames of every connection to this port go to `hear`. The port: 0 is any that is free."""
        listener = socket.create_server((host, port), backlog=64)
        self._selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener, hear, kind))
        return int(listener.getsockname()[1])

    def turn(self, seconds: float) -> bool:
        """Wait so long for something to hear; whether there was."""
        found = self._selector.select(seconds)
        for key, events in found:
            if events & selectors.EVENT_READ:
                key.data()
        return bool(found)

    def takes(self, peer: Peer) -> bool:
        """Whether something can be sent without waiting; if not, `turn` ends when it can."""
        full = not select.select([], [peer.socket], [], 0)[1]
        if full != peer.is_full:
            peer.is_full = full
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if full else 0)
            self._selector.modify(peer.socket, events, self._selector.get_key(peer.socket).data)
        return not full

    def drop(self, peer: Peer) -> None:
        """End a connection."""
        if peer.is_open:
            self._selector.unregister(peer.socket)
            peer.socket.close()
            peer.is_open = False

    def close(self) -> None:
        """End them all."""
        for key in self._selector.get_map().values():
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()

    def _accept(self, listener: socket.socket, hear: Hears, kind: type[Peer]) -> None:
        peer = kind(listener.accept()[0])
        self._selector.register(peer.socket, selectors.EVENT_READ, lambda: self._hear(peer, hear))

    def _hear(self, peer: Peer, hear: Hears) -> None:
        if not peer.is_open:  # dropped a moment ago, in this same turn
            return
        if (frames := peer.frames()) is None:
            self.drop(peer)
        else:
            hear(peer, frames)


class Producer:
    """Serves documents, numbered from 0, at the pace that it is given."""

    peers = Peer

    def __init__(self, wire: Wire, host: str, port: int, text: Callable[[int], bytes]) -> None:
        self.base = 0
        """The first document that was asked for; what it gives rests on those before."""
        self.wanted = 0
        """How many are to be sent in all."""
        self.ended = False
        """Whether no more will be wanted."""
        self.due: list[float] = []
        self.sent: list[float] = []
        self._wire, self._text = wire, text
        self._rate = self._next = 0.0
        self._peer: Peer | None = None
        self._attempt, self._at = -1, 0
        self._told_end = False
        self.port = wire.listen(host, port, self._hear, self.peers)

    @property
    def is_asked(self) -> bool:
        """Whether somebody reads."""
        return self._peer is not None and self._peer.is_open

    def more(self, per_second: float, count: int) -> None:
        """So many more documents, at that pace (0: as fast as they are taken). Another thread may call it:
        the pace first."""
        self._rate, self._next = per_second, time.monotonic() + TICK
        self.wanted += count

    def wait(self) -> float:
        """Seconds for which there is nothing to send."""
        if not self.is_asked or self._at >= self.wanted or (self._peer and self._peer.is_full):
            return TICK
        return max(0.0, min(TICK, self._next - time.monotonic()))

    def send_due(self) -> None:
        """All that is due and is taken."""
        while self._peer is not None and self._peer.is_open and self._at < self.wanted:
            again = self._at < len(self.sent)
            if not again and self._rate and self._next > time.monotonic():
                return
            if not self._wire.takes(self._peer):
                return
            if not again:
                self.sent.append(time.monotonic())
                self.due.append(self._next if self._rate else self.sent[-1])
                self._next += 1 / self._rate if self._rate else 0.0
            if not self._peer.send(self._frame(self._at)):
                self._wire.drop(self._peer)
                return
            self._at += 1
        if self._peer is not None and self.is_asked and self.ended and not self._told_end:
            self._told_end = self._peer.send(b"")

    def _hear(self, peer: Peer, frames: list[bytes]) -> None:
        for said in map(json.loads, frames):
            if "next" not in said:
                continue
            if said["attempt"] < self._attempt:  # a worker that does not know yet that it was replaced
                self._wire.drop(peer)
                return
            self._serve(peer, int(said["next"].get("", 0)), said["attempt"])

    def _serve(self, peer: Peer, first: int, attempt: int) -> None:
        if self._peer is not None and self._peer is not peer:
            self._wire.drop(self._peer)
        self._attempt, self._peer, self._at, self._told_end = attempt, peer, first, False
        if not self.sent and self._at:  # a restored job: what comes before was another outside's
            self.base, self.sent, self.due, self.wanted = (
                self._at,
                [0.0] * self._at,
                [0.0] * self._at,
                max(self.wanted, self._at),
            )

    def _frame(self, number: int) -> bytes:
        return struct.pack(">Q", number) + self._text(number)


class LineProducer(Producer):
    """The same in lines, to whom says the number of the first document as a line; the newest is served."""

    peers = LinePeer

    def _hear(self, peer: Peer, frames: list[bytes]) -> None:
        for line in frames:
            self._serve(peer, int(line), self._attempt + 1)

    def _frame(self, number: int) -> bytes:
        return self._text(number)


class _Head(msgspec.Struct, array_like=True):
    """Of what a worker says; the rest is left as bytes."""

    kind: str
    second: msgspec.Raw
    third: msgspec.Raw
    fourth: msgspec.Raw = msgspec.Raw()


class Consumer:
    """Takes deliveries of every worker: keeps each slot's fence and last bundle, and what came when."""

    def __init__(self, wire: Wire, host: str, port: int) -> None:
        self.deliveries: list[tuple[float, list[Any]]] = []
        """What was new, by the time at which it came."""
        self.problem = ""
        """The first bundle that may not follow its slot's last one; nothing is taken from then on."""
        self._last: dict[int, list[Any]] = {}
        self._fences: dict[int, list[int]] = {}
        self._newest = [0, 0]
        """Of all fences: what comes under it need not be looked into to be taken."""
        self._unread: deque[tuple[float, msgspec.Raw]] = deque()
        self._head = msgspec.msgpack.Decoder(_Head).decode
        self._fence = msgspec.msgpack.Decoder(list[int]).decode
        self._wire = wire
        self.port = wire.listen(host, port, self._hear)

    @property
    def is_behind(self) -> bool:
        """Whether something came that nobody looked into."""
        return bool(self._unread)

    def read(self, most: int = sys.maxsize) -> None:
        """Look into what came, the oldest first, `most` deliveries of it."""
        for _ in range(min(most, len(self._unread))):
            self._read(*self._unread.popleft())

    def _hear(self, peer: Peer, frames: list[bytes]) -> None:
        now = time.monotonic()
        for frame in frames:
            if not peer.send(msgspec.msgpack.encode(self._answer(frame, now))):
                self._wire.drop(peer)
                return

    def _answer(self, frame: bytes, now: float) -> list[Any]:
        head = self._head(frame)
        if head.kind == "open":
            return self._open(msgspec.msgpack.decode(frame))
        fence = self._fence(head.second)
        if fence < self._newest and self._is_fenced(
            fence, [bundle[0] for bundle in msgspec.msgpack.decode(head.fourth)]
        ):
            return ["fenced", fence]
        if self.problem:
            return ["failed", fence, "bug", self.problem]
        self._unread.append((now, head.fourth))
        return ["acknowledged", fence, head.third]

    def _open(self, question: list[Any]) -> list[Any]:
        fence, slots = question[2], question[6]
        if self._is_fenced(fence, slots):
            return ["fenced", fence]
        self._fences.update(dict.fromkeys(slots, fence))
        self._newest = max(self._newest, fence)
        self.read()
        return ["opened", fence, [self._last[slot] for slot in slots if slot in self._last]]

    def _is_fenced(self, fence: list[int], slots: list[int]) -> bool:
        return any(self._fences.get(slot, [0, 0]) > fence for slot in slots)

    def _read(self, when: float, raw: msgspec.Raw) -> None:
        fresh = []
        for bundle in msgspec.msgpack.decode(raw):
            slot, number = bundle[0], bundle[1]
            before = self._last.get(slot)
            had = before[1] if before else 0
            if number == had + 1:
                self._last[slot] = bundle
                fresh.append(bundle)
            elif bundle != before:
                what = "came again with other bytes" if number == had else f"follows {had}"
                self.problem = self.problem or f"slot {slot}: bundle {number} {what}"
        if fresh:
            self.deliveries.append((when, fresh))


class LineConsumer:
    """Takes lines of any number of connections: what came when, as it is. It acknowledges nothing."""

    is_behind = False
    problem = ""

    def __init__(self, wire: Wire, host: str, port: int) -> None:
        self.deliveries: list[tuple[float, list[bytes]]] = []
        self.port = wire.listen(host, port, self._hear, LinePeer)

    def read(self, most: int = sys.maxsize) -> None:
        """Nothing is to be looked into."""

    def _hear(self, _: Peer, lines: list[bytes]) -> None:
        if lines:
            self.deliveries.append((time.monotonic(), lines))
