"""What comes over a connection: frames, the handshake, workers' and the coordinator's messages, producers and
consumers of the user's."""

import struct
from collections.abc import Iterable, Iterator
from typing import Any, get_args

import msgspec

from flamestream.connectors.socket import wire
from flamestream.connectors.socket.sink import SocketConsumer
from flamestream.connectors.socket.source import SocketProducer
from flamestream.core.protocol import events as ev
from flamestream.core.protocol import messages as msg
from flamestream.core.protocol.actions import Bundle, Deliver, Follow, OpenSink, Pull
from flamestream.core.protocol.queries import Lookup
from flamestream.model.decoding import DecodeError, msgpack_decoder
from flamestream.model.errors import FlameStreamError
from flamestream.model.ids import (
    Attempt,
    Epoch,
    Fence,
    LayoutVersion,
    MessageId,
    SequenceNumber,
    SinkName,
    Slot,
    WorkerId,
)
from flamestream.model.layout import Assignment
from flamestream.model.time import FrontId, Time
from flamestream.net.framing import FrameConnection
from flamestream.net.handshake import Accepted, Greeting, Limits, Purpose, Welcome
from flamestream.net.tls import LinkKey
from fuzz.stand_ins import Loop, Wire
from fuzz.target import Target, attempt, joined, pieces
from fuzz.targets.durable import FENCE, LAYOUT, MANIFEST

MOST = 64
"""Bytes of a frame, of the target `frame`."""
CATEGORIES = frozenset(kind.category for kind in FlameStreamError.__subclasses__())
_encode = msgspec.msgpack.Encoder().encode
KEY = LinkKey(b"key")


def framed(*frames: bytes) -> bytes:
    """As they travel."""
    return b"".join(struct.pack(">I", len(each)) + each for each in frames)


# --- frames -------------------------------------------------------------------------------------------------


def frame(data: bytes) -> None:
    """However a stream is cut into pieces, its frames are the same; none is longer than allowed, and not more
    than one is held."""
    chunks = list(pieces(data))
    stream = b"".join(chunks)
    frames, reason = _frames(*chunks)
    assert (frames, reason) == _frames(stream), "frames depend on how the stream was cut"
    assert all(len(each) <= MOST for each in frames)
    assert stream.startswith(framed(*frames)), "frames are not what was sent"
    assert reason, "a stream that ends has an end"


def _streams() -> Iterator[bytes]:
    stream = framed(b"abc", b"", b"x" * 60, b"y" * 40, b"z" * 64)
    yield joined([stream[:9], stream[9:100], stream[100:]])
    yield joined([stream])


def _frames(*chunks: bytes) -> tuple[list[bytes], str]:
    loop, sock, found, ends = Loop(), Wire(*chunks), list[bytes](), list[str]()
    connection = FrameConnection(loop, sock, MOST, found.extend, ends.append)  # type: ignore[arg-type]
    loop.run(sock)
    assert len(connection._partial) <= MOST + 4, "more than a frame is held"
    return found, "".join(ends)


def handshake(data: bytes) -> None:
    """A stranger's frames: nobody is established who has not the key."""
    loop, sock, refusals = Loop(), Wire(*(framed(each) for each in pieces(data))), list[str]()

    def established(_: FrameConnection) -> None:
        raise AssertionError("established without the key")

    Accepted(
        loop,
        sock,  # type: ignore[arg-type]  # it has what is called
        lambda half: half.welcome(KEY, established),
        refusals.append,
        Limits(1 << 20, 1 << 20),
    )
    loop.run(sock)
    assert len(refusals) == 1 and not sock.open, "a stranger is refused, once"


def _handshakes() -> Iterator[bytes]:
    greeting = _encode(Greeting(Purpose("p", "j", 3, 2, "a", "b")))
    yield joined([greeting, b"\x16\x03\x01"])
    yield joined([_encode(Welcome())])


# --- workers and the coordinator ----------------------------------------------------------------------------

LOOKUP = Lookup(3, Slot(1), b"k")
FRAME = msg.Frame(
    FENCE, 1,
    [
        msg.Data(Time(5), MessageId(7), [1, 2], [b"m", b"n"], [False, True], b"\x92\x01\x02"),
        msg.Traces([(bytes(8), bytes(16), bytes(8))]),
        msg.Acks([5], [7]), msg.Promise(FrontId(0), Time(5), Time(6)), msg.Question(FrontId(0), Time(6)),
        msg.Hold(Time(5), 1, "why"), msg.Undecided(Time(5)), msg.Reached(Time(6)), msg.MinimalTime(Time(5)),
        msg.Cut(Epoch(1), Time(5)),
        msg.Settled(Time(5)), msg.Ask(1, [LOOKUP], strict=True), msg.Prove(FrontId(0), 1), msg.Proved(1),
        msg.Look([(WorkerId("a"), msg.Ask(1, [LOOKUP], strict=False))]), msg.Peek(1, Time(5), [LOOKUP]),
        msg.Seen(1, Time(5), [b"s", None]),
    ],
)  # fmt: skip
A = WorkerId("a")
REPORTS: tuple[msg.ToCoordinator, ...] = (
    msg.Hello(A, "127.0.0.1:1", FENCE, True, "3.11", "g"), msg.Opened(FENCE, b"t", list(MANIFEST.outputs)),
    msg.Sealed(FENCE, Time(5)), msg.CutTaken(FENCE, Epoch(1), Time(5)),
    msg.Accepted(FENCE, Epoch(1), Time(5), list(MANIFEST.segments), ["x"], list(MANIFEST.fronts), []),
    msg.Refused(FENCE, Epoch(1), "why"), msg.PeerLost(FENCE, A, "why"),
    msg.Progress(FENCE, Time(1), Time(1), Time(2), 5, 6), msg.Failed(FENCE, "user", "why"),
)  # fmt: skip
ORDERS: tuple[msg.ToWorker, ...] = (
    msg.Recover(Assignment(FENCE, LAYOUT), {A: "127.0.0.1:1"}, "key", Time(9), Epoch(2), MANIFEST),
    msg.Seal(FENCE), msg.Replay(FENCE, Time(9)), msg.Announce(FENCE, Epoch(3), []),
    msg.Committed(FENCE, Epoch(3), Time(10)), msg.Warm(FENCE), msg.Abort(FENCE, Epoch(3)), msg.Drain(FENCE),
    msg.Stop("why"),
)  # fmt: skip
_KINDS = {kind: msgpack_decoder(kind) for kind in (msg.Frame, msg.ToCoordinator, msg.ToWorker)}


def message(data: bytes) -> None:
    """Frames of peers, reports of workers, orders of the coordinator: what is one is written as it was
    meant."""
    for kind, decode in _KINDS.items():
        found = attempt(decode, data, DecodeError)
        if found is not None:
            assert isinstance(found, get_args(kind) or kind)
            assert decode(_encode(found)) == found, f"{found!r} is written as something else"


def _messages() -> Iterator[bytes]:
    yield from map(_encode, (FRAME, *REPORTS, *ORDERS))


# --- producers and consumers of the user's ------------------------------------------------------------------


def producer(data: bytes) -> None:
    """A socket source: records without gap, each once, or a failure that names the producer."""
    loop, heard = Loop(), list[Any]()
    source = SocketProducer(
        ("producer", 7001), bool(data[:1] > b"\x7f"), "docs", "j", FrontId(0), heard.append, loop
    )
    source.follow(Follow(FENCE, FrontId(0), {}))
    source.pull(Pull(FENCE, FrontId(0), 1000, 1 << 20))
    sock = Wire(framed(*pieces(data)))
    source._connected(sock)  # type: ignore[arg-type]
    loop.run(sock)
    source.close()
    given, expected = list[Any](), _records(pieces(data))
    for event in heard:
        match event:
            case ev.RecordsArrived(first=first, payloads=payloads):
                assert first == len(given), "records are missing or come twice"
                given += payloads
            case ev.SourceFailed(category=category):
                assert category == "user" and event is heard[-1]
            case _:
                assert isinstance(event, ev.SourceEnded) and event is heard[-1], f"{event} of a producer"
    assert len(given) <= len(expected), "more records than were sent in order"
    assert all(
        value == sent for value, sent in zip(given, expected, strict=False) if isinstance(value, bytes)
    )


def _records(frames: Iterable[bytes]) -> list[bytes]:
    """Payloads of those that are numbered one after another."""
    found = list[bytes]()
    for each in frames:
        if int.from_bytes(each[:8], "big") == len(found) and len(each) >= 8:
            found.append(each[8:])
    return found


def _producers() -> Iterator[bytes]:
    records = [
        number.to_bytes(8, "big") + text for number, text in enumerate((b"a", b"w\xc3\xb6rd", b"\xff"))
    ]
    yield joined([*records, records[0], b""])
    yield joined([records[0], records[2]])


def consumer(data: bytes) -> None:
    """A socket sink: what is told of the consumer is true to its frames, and a failure has a category that
    there is."""
    loop, heard = Loop(), list[Any]()
    sink = SocketConsumer(("consumer", 7002), SinkName("out"), A, "j", heard.append, loop)
    sink.open(OpenSink(FENCE, SinkName("out"), [Slot(0), Slot(1)]))
    sink.deliver(Deliver(FENCE, SinkName("out"), 7, [Bundle(Slot(0), SequenceNumber(3), b"t", b"\x90")]))
    sock = Wire(framed(*pieces(data)))
    sink._connected(sock)  # type: ignore[arg-type]
    loop.run(sock)
    sink.close()
    for event in heard:
        assert isinstance(event, ev.SinkOpened | ev.SinkFenced | ev.SinkFailed | ev.BundlesAcknowledged)
        if isinstance(event, ev.BundlesAcknowledged):
            assert event.number == 7, "what nobody delivered is acknowledged"
        if isinstance(event, ev.SinkFailed):
            assert event.category in CATEGORIES, f"a consumer made the category {event.category!r}"
        if isinstance(event, ev.SinkOpened):
            assert all(last.sequence >= 0 for last in event.last.values())


def _answers() -> Iterator[bytes]:
    opened = wire.encode(wire.OpenedFrame(FENCE, [(Slot(0), SequenceNumber(2), b"s", b"\x90")]))
    yield joined([opened, wire.encode(wire.AcknowledgedFrame(FENCE, 7))])
    yield joined([opened, wire.encode(wire.FencedFrame(FENCE))])
    yield joined([opened, wire.encode(wire.FailedFrame(FENCE, "user", "no"))])
    yield joined([wire.encode(wire.OpenedFrame(Fence(Attempt(1), LayoutVersion(0)), [])), opened])


TARGETS = (
    Target("frame", frame, _streams),
    Target("handshake", handshake, _handshakes, runs=2000),
    Target("message", message, _messages, runs=20_000),
    Target("socket-producer", producer, _producers),
    Target("socket-consumer", consumer, _answers),
)
