"""Whoever finds a worker's port without the key: dropped, counted, bounded, and never heard by the core."""

import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import msgspec
import pytest

from flamestream.core.protocol.actions import LinkPeers, ToPeer
from flamestream.core.protocol.events import Event, FromPeer
from flamestream.core.protocol.messages import Frame
from flamestream.loop.reactor import EpollReactor
from flamestream.model.ids import Attempt, Fence, LayoutVersion, WorkerId
from flamestream.net import acceptor as acceptor_module
from flamestream.net.acceptor import address_of, listen
from flamestream.net.dial import Dial
from flamestream.net.handshake import Greeting, Limits, Purpose, Welcome
from flamestream.net.links import PROTOCOL, LinkSettings, TcpLinks
from flamestream.net.tls import LinkKey
from support import loops

FENCE = Fence(Attempt(5), LayoutVersion(2))
A, B = WorkerId("a"), WorkerId("b")
KEY = "secret"
LIMITS = Limits(max_frame=1 << 20, max_unsent=1 << 20)


class Pair:
    """Workers a and b; b's port is the one under attack."""

    def __init__(self, loop: EpollReactor, settings: LinkSettings | None = None) -> None:
        self.loop = loop
        self.events: list[Event] = []
        listeners = {A: listen("127.0.0.1"), B: listen("127.0.0.1")}
        self.addresses = {worker: address_of(listener) for worker, listener in listeners.items()}
        self.a = TcpLinks(loop, lambda _: None, listeners[A], "job", A, settings)
        self.b = TcpLinks(loop, self.events.append, listeners[B], "job", B, settings)
        self.sent = 0

    def link(self) -> None:
        for links in (self.a, self.b):
            links.link(LinkPeers(FENCE, KEY, self.addresses))

    def works(self) -> None:
        """A frame gets through, and it is the next: nothing else was heard."""
        self.sent += 1
        self.a.send(ToPeer(B, Frame(FENCE, self.sent, [])))
        loops.turn_until(self.loop, lambda: len(self.events) >= self.sent, "the frame")
        assert self.events == [FromPeer(A, Frame(FENCE, number, [])) for number in range(1, self.sent + 1)]

    def dial(self) -> socket.socket:
        host, port = self.addresses[B].split(":")
        return socket.create_connection((host, int(port)))

    def close(self) -> None:
        self.a.close()
        self.b.close()


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with loops.reactor() as made:
        yield made


@pytest.fixture
def make(loop: EpollReactor) -> Iterator[Callable[..., Pair]]:
    """Pairs that are closed behind the test."""
    with ExitStack() as stack:

        def made(settings: LinkSettings | None = None) -> Pair:
            pair = Pair(loop, settings)
            stack.callback(pair.close)
            return pair

        yield made


@pytest.fixture
def pair(make: Callable[..., Pair]) -> Pair:
    """A pair that is linked and works."""
    made = make()
    made.link()
    made.works()
    return made


def framed(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def greeting(fence: Fence = FENCE, *, job: str = "job", dialler: str = A, acceptor: str = B) -> bytes:
    purpose = Purpose(PROTOCOL, job, fence.attempt, fence.layout, dialler, acceptor)
    return framed(msgspec.msgpack.encode(Greeting(purpose)))


def dropped(pair: Pair, data: bytes) -> str:
    """Send `data` on a connection of its own; why it was dropped."""
    before = pair.b.acceptor.drops.count
    with pair.dial() as hostile:
        hostile.sendall(data)
        hostile.shutdown(socket.SHUT_WR)
        loops.turn_until(
            pair.loop, lambda: pair.b.acceptor.drops.count == before + 1, f"the drop of {data[:40]!r}"
        )
    return pair.b.acceptor.drops.last


@pytest.mark.parametrize("seed", range(60))
def test_random_bytes_are_dropped_and_harmless(pair: Pair, seed: int) -> None:
    chance = random.Random(seed)
    data = chance.randbytes(chance.choice((1, 3, 4, 5, 40, 3_000)))
    dropped(pair, data if seed % 2 else framed(data))
    pair.works()


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_greeting_is_dropped_and_harmless(
    loop: EpollReactor, make: Callable[..., Pair], seed: int
) -> None:
    pair = make()
    pair.b.link(LinkPeers(FENCE, KEY, pair.addresses))  # b waits for a: a whole greeting would be answered
    chance = random.Random(seed)
    damaged = bytearray(greeting())
    for _ in range(chance.randint(1, 4)):
        damaged[chance.randrange(4, len(damaged))] = chance.randrange(256)
    dropped(pair, bytes(damaged))
    pair.a.link(LinkPeers(FENCE, KEY, pair.addresses))
    pair.works()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">I", 1 << 31), "a frame of 2147483648 bytes, more than the limit of 2048"),
        (framed(b""), "it does not keep to the handshake"),
        (framed(b"\x91" * 2_000), "it does not keep to the handshake"),
        (framed(msgspec.msgpack.encode(Welcome())), "it does not keep to the handshake"),
        (greeting() + greeting(), "it sent more than the handshake asks for"),
        (greeting(job="other"), "it does not look for this worker"),
        (greeting(acceptor="c"), "it does not look for this worker"),
        (greeting(Fence(Attempt(4), LayoutVersion(9))), "it belongs to an older attempt"),
        (greeting(dialler="stranger"), "no link is open for it"),
    ],
)
def test_who_does_not_belong_here_is_dropped_with_a_reason(pair: Pair, data: bytes, reason: str) -> None:
    assert dropped(pair, data) == reason
    pair.works()


def test_a_right_greeting_without_the_key_gets_no_further(
    loop: EpollReactor, make: Callable[..., Pair]
) -> None:
    pair = make()
    pair.b.link(LinkPeers(FENCE, KEY, pair.addresses))
    purpose = Purpose(PROTOCOL, "job", FENCE.attempt, FENCE.layout, A, B)
    stranger = Dial(
        loop,
        pair.addresses[B],
        (purpose, LinkKey(b"a guess")),
        lambda _: pytest.fail("it was let in"),
        LIMITS,
    )
    loops.turn_until(loop, lambda: pair.b.acceptor.drops.count, "the drop")
    assert pair.b.acceptor.drops.last == "it has another key"
    stranger.cancel()
    pair.a.link(LinkPeers(FENCE, KEY, pair.addresses))
    pair.works()


@pytest.mark.parametrize("early", [greeting()[:3], b"\x16\3\1\0\5hello", framed(b"x"), bytes(5_000)])
def test_what_is_said_in_the_clear_behind_the_greeting_ends_the_connection(
    loop: EpollReactor, make: Callable[..., Pair], early: bytes
) -> None:
    """It could be anybody's, and must not pass for what TLS has brought."""
    pair = make()
    pair.b.link(LinkPeers(FENCE, KEY, pair.addresses))
    dropped(pair, greeting() + early)
    assert pair.events == []
    pair.a.link(LinkPeers(FENCE, KEY, pair.addresses))
    pair.works()


def test_a_silent_peer_is_dropped_when_its_time_is_over(
    loop: EpollReactor, make: Callable[..., Pair]
) -> None:
    pair = make(LinkSettings(limits=replace(LIMITS, handshake_seconds=0.1)))
    pair.link()
    pair.works()
    with pair.dial():
        loops.turn_until(loop, lambda: pair.b.acceptor.drops.count == 1, "the drop")
    assert pair.b.acceptor.drops.last == "it was silent for too long"
    pair.works()


def test_a_greeting_of_an_attempt_that_never_comes_is_not_held_for_ever(
    loop: EpollReactor, make: Callable[..., Pair]
) -> None:
    pair = make(LinkSettings(limits=replace(LIMITS, handshake_seconds=0.1)))
    pair.link()
    pair.works()
    with pair.dial() as hostile:
        hostile.sendall(greeting(Fence(Attempt(1 << 60), LayoutVersion(0))))
        loops.turn_until(loop, lambda: pair.b.acceptor.drops.count == 1, "the drop")
    pair.works()


def test_silent_peers_cannot_lock_a_worker_out(
    loop: EpollReactor, make: Callable[..., Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor_module, "MAX_UNPROVED", 5)
    pair = make()
    silent = [pair.dial() for _ in range(40)]
    loops.turn_until(loop, lambda: pair.b.acceptor.drops.count == 35, "all but five are dropped")
    pair.link()
    pair.works()
    assert len(pair.b.acceptor.unproved) <= 5
    for hostile in silent:
        hostile.close()
