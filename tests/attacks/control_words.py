"""What a worker that has its job's token could say to a coordinator and no worker of ours does; said by
tests, and by `make attacks`."""

import struct
from typing import Any, Protocol

import msgspec

from flamestream.core.protocol.messages import MOST_CLASSES, MOST_TEXT, Hello, Progress
from flamestream.loop.reactor import EpollReactor
from flamestream.model.ids import NO_FENCE, WorkerId
from flamestream.model.time import Time
from flamestream.net.control_link import LIMITS, PROTOCOL
from flamestream.net.dial import Dial
from flamestream.net.framing import FrameConnection
from flamestream.net.handshake import Purpose
from flamestream.net.tls import LinkKey
from support import loops

CLASSES = [0] * MOST_CLASSES
PROGRESS = Progress(NO_FENCE, Time(1), Time(1), Time(1), 5, 5, latency=CLASSES, release=CLASSES)
ADDRESSES = [
    "",
    "x",
    "x:",
    ":1",
    "x:y",
    "x:99999",
    "x:-1",
    "x:\N{SUPERSCRIPT TWO}",
    "a b:1",
    "x\0:1",
    f"{'x' * 300}:1",
    "\N{SNOWMAN}:1",
]
"""None can be dialled."""


def hello(worker: str, address: str = "127.0.0.1:1") -> Hello:
    return Hello(WorkerId(worker), address, NO_FENCE, False, "3.11", "graph")


class At(Protocol):
    """Where a coordinator is reached, and what proves that one belongs there."""

    loop: EpollReactor
    name: str
    address: str
    token: str


class Hostile:
    """A proved connection, and its raw socket: a worker's token is all that it has."""

    def __init__(self, at: At, *first: bytes) -> None:
        self.loop = at.loop
        self.ended: list[str] = []
        made: list[FrameConnection] = []
        purpose = Purpose(PROTOCOL, at.name, 0, 0, "worker", "coordinator")
        Dial(self.loop, at.address, (purpose, LinkKey(at.token.encode())), made.append, LIMITS)
        loops.turn_until(self.loop, lambda: made, "the handshake")
        self.connection = made[0]
        self.connection.handle(lambda _: None, self.ended.append, 1 << 20)
        for frame in first:
            self.connection.send(frame)

    def send_part(self, size: int, of: int) -> None:
        """The beginning of a frame, as far as it is taken."""
        assert self.connection._tls is not None
        left, rest = size, memoryview(self.connection._tls.sealed([struct.pack(">I", of)]))
        while (rest or left) and not self.ended:
            if not rest:
                piece, left = min(left, 1 << 16), max(0, left - (1 << 16))
                rest = memoryview(self.connection._tls.sealed([bytes(piece)]))
            try:
                rest = rest[self.connection._socket.send(rest) :]
            except BlockingIOError:
                self.loop.soon(lambda: None)
                self.loop.turn()
            except OSError:
                return

    def gone(self) -> None:
        """Close, when what was said has left, unless it was put out before."""
        self.loop.turn()
        if not self.ended:
            self.connection.close()

    def put_out(self) -> None:
        loops.turn_until(self.loop, lambda: self.ended, "its end")


def encode(message: object) -> bytes:
    return msgspec.msgpack.encode(message)


def report(**fields: Any) -> bytes:
    """A heartbeat with these fields, whatever they are."""
    raw = msgspec.msgpack.decode(encode(PROGRESS))
    for name, value in fields.items():
        raw[1 + Progress.__struct_fields__.index(name)] = value
    return encode(raw)


WRONG: dict[str, bytes] = {
    "latencies of fewer classes": report(latency=[1, 2], release=[1, 2]),
    "latencies of more classes": report(latency=[1] * 500, release=[1] * 500),
    "latencies without releases": report(release=[]),
    "releases without latencies": report(latency=[]),
    "a negative class": report(latency=[-1, *CLASSES[1:]]),
    "a class beyond all bounds": report(latency=[1 << 63, *CLASSES[1:]]),
    "a negative count": report(items_in=-1),
    "a count beyond all bounds": report(items_out=(1 << 64) - 1),
    "more memory than there is": report(memory=1 << 62),
    "a negative time": report(minimal=-1),
    "more stretches than there are moments": report(given=[[1, 2]] * 5000),
    "a stretch before the beginning": report(given=[[-5, 2]]),
    "a stretch of three": report(given=[[1, 2, 3]]),
    "a long story": report(problem="x" * (MOST_TEXT + 1)),
    "no text": report(problem=b"\xff\xfe"),
    "half a text": encode(PROGRESS).replace(encode(""), b"\xa1\xff"),
    "a number for a text": report(problem=1),
    "lists in lists": b"\x91" * 100_000,
    "a negative epoch": encode(["CutTaken", [0, 0], -1, 5]),
    "a front that cannot be": encode(["Accepted", [0, 0], 1, 1, [], [], [[]], [], []]),
    "a failure of no category": encode(["Failed", [0, 0], "nonsense", "why"]),
    "a second Hello": encode(hello("w")),
    "another message": encode(["Nonsense", 1]),
    "nothing": b"",
}
