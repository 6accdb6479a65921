"""Links between workers over real TCP: order, fences, who dials, and the one end of a link."""

from collections.abc import Iterator

import msgspec
import pytest

from flamestream.core.protocol.actions import LinkPeers, ToPeer
from flamestream.core.protocol.events import Event, FromPeer, LinkBroken
from flamestream.core.protocol.messages import Data, Frame, MinimalTime
from flamestream.core.protocol.vocabulary import vocabulary
from flamestream.loop.reactor import EpollReactor
from flamestream.model.errors import Bug, PayloadError
from flamestream.model.ids import Attempt, Fence, LayoutVersion, MessageId, WorkerId
from flamestream.model.time import Time
from flamestream.net.acceptor import address_of, listen
from flamestream.net.dial import Dial
from flamestream.net.framing import FrameConnection
from flamestream.net.handshake import Limits, Purpose
from flamestream.net.links import PROTOCOL, LinkSettings, TcpLinks
from flamestream.net.tls import LinkKey
from support import loops

FIRST = Fence(Attempt(1), LayoutVersion(1))
SECOND = Fence(Attempt(2), LayoutVersion(2))
KEY = "the key of attempt one"


class Worker:
    """The shell's part of a worker: its links and what they have posted."""

    def __init__(self, loop: EpollReactor, name: str, settings: LinkSettings | None = None) -> None:
        self.me = WorkerId(name)
        self.events: list[Event] = []
        listener = listen("127.0.0.1")
        self.address = address_of(listener)
        self.links = TcpLinks(loop, self.events.append, listener, "job", self.me, settings)

    def link(self, *others: "Worker", fence: Fence = FIRST, key: str = KEY) -> None:
        everyone = {worker.me: worker.address for worker in (self, *others)}
        self.links.link(LinkPeers(fence, key, everyone))

    def send(self, to: "Worker", number: int, fence: Fence = FIRST) -> None:
        self.links.send(ToPeer(to.me, Frame(fence, number, [MinimalTime(Time(number))])))

    def numbers(self, sender: "Worker") -> list[int]:
        return [
            event.frame.sequence
            for event in self.events
            if isinstance(event, FromPeer) and event.peer == sender.me
        ]

    @property
    def broken(self) -> list[LinkBroken]:
        return [event for event in self.events if isinstance(event, LinkBroken)]


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with loops.reactor() as made:
        yield made


@pytest.fixture
def a(loop: EpollReactor) -> Iterator[Worker]:
    worker = Worker(loop, "a")
    yield worker
    worker.links.close()


@pytest.fixture
def b(loop: EpollReactor) -> Iterator[Worker]:
    worker = Worker(loop, "b")
    yield worker
    worker.links.close()


def linked(loop: EpollReactor, a: Worker, b: Worker) -> None:
    a.link(b)
    b.link(a)
    a.send(b, 1)
    b.send(a, 1)
    loops.turn_until(loop, lambda: a.numbers(b) and b.numbers(a), "a link both ways")


def proved(loop: EpollReactor, to: Worker, me: str, knows: str = "") -> FrameConnection:
    """A connection that has proved to be worker `me` and said what it `knows`, under our control."""
    connections: list[FrameConnection] = []
    purpose = Purpose(PROTOCOL, "job", FIRST.attempt, FIRST.layout, me, to.me)
    Dial(
        loop,
        to.address,
        (purpose, LinkKey(KEY.encode())),
        connections.append,
        Limits(max_frame=1 << 20, max_unsent=1 << 20),
    )
    loops.turn_until(loop, lambda: connections, "the handshake")
    connections[0].send((knows or vocabulary()).encode())
    return connections[0]


def test_frames_go_both_ways_in_order(loop: EpollReactor, a: Worker, b: Worker) -> None:
    a.link(b)
    b.link(a)
    for number in range(1, 501):
        a.send(b, number)
        b.send(a, number)
    loops.turn_until(loop, lambda: len(a.numbers(b)) == len(b.numbers(a)) == 500, "all frames")
    assert a.numbers(b) == b.numbers(a) == list(range(1, 501))


def test_a_frame_arrives_as_it_was_sent(loop: EpollReactor, a: Worker, b: Worker) -> None:
    linked(loop, a, b)
    data = Data(
        Time((1 << 64) - 1),
        MessageId((1 << 64) - 1),
        [0, 4095],
        [b"\xff\0", b""],
        [True, False],
        bytes(range(256)) * 9_000,
    )
    sent = Frame(FIRST, 2, [data, MinimalTime(Time(7))])
    a.links.send(ToPeer(b.me, sent))
    loops.turn_until(loop, lambda: len(b.numbers(a)) == 2, "the frame")
    assert b.events[-1] == FromPeer(a.me, sent)


def test_an_acceptor_may_hear_of_the_attempt_later_than_the_dialler(
    loop: EpollReactor, a: Worker, b: Worker
) -> None:
    a.link(b)
    a.send(b, 1)
    loops.turn_until(
        loop, lambda: any(waiting.greeted for waiting in b.links.acceptor.unproved), "a greeting that is held"
    )
    b.link(a)
    loops.turn_until(loop, lambda: b.numbers(a) == [1], "the frame sent before the link was up")
    assert b.links.acceptor.drops.count == 0


def test_a_dialler_tries_again_until_its_peer_listens(loop: EpollReactor, a: Worker) -> None:
    placeholder = listen("127.0.0.1")
    address, port = address_of(placeholder), placeholder.getsockname()[1]
    placeholder.close()
    a.links.link(LinkPeers(FIRST, KEY, {a.me: a.address, WorkerId("b"): address}))
    a.links.send(ToPeer(WorkerId("b"), Frame(FIRST, 1, [])))
    loops.turn_until(loop, lambda: a.links._links[WorkerId("b")]._dial.failures > 2, "refused tries")  # type: ignore[union-attr]
    events: list[Event] = []
    late = TcpLinks(loop, events.append, listen("127.0.0.1", port), "job", WorkerId("b"))
    late.link(LinkPeers(FIRST, KEY, {a.me: a.address, WorkerId("b"): address}))
    loops.turn_until(loop, lambda: events, "the frame")
    assert events == [FromPeer(a.me, Frame(FIRST, 1, []))]
    late.close()


def test_a_link_that_does_not_come_up_is_broken_once_on_both_sides(loop: EpollReactor) -> None:
    soon = LinkSettings(link_seconds=0.2)
    a, b = Worker(loop, "a", soon), Worker(loop, "b", soon)
    a.link(b, key="another key")
    b.link(a)
    loops.turn_until(loop, lambda: a.broken and b.broken, "both ends")
    assert a.events == [LinkBroken(FIRST, b.me, a.broken[0].reason)]
    assert "it has another key" in a.broken[0].reason
    assert b.events == [LinkBroken(FIRST, a.me, "no link within 0.2 s (it did not dial)")]
    assert b.links.acceptor.drops.count > 0
    a.links.close()
    b.links.close()


def test_a_peer_that_ends_breaks_the_link_once_behind_its_last_frame(
    loop: EpollReactor, a: Worker, b: Worker
) -> None:
    linked(loop, a, b)
    b.send(a, 2)
    b.links.close()
    loops.turn_until(loop, lambda: a.broken, "the end")
    a.send(b, 2)
    a.send(b, 3)
    loop.soon(lambda: None)
    loop.turn()
    assert a.numbers(b) == [1, 2]
    assert a.events[-1] == LinkBroken(FIRST, b.me, "closed by the peer")
    assert len(a.broken) == 1


def test_a_new_attempt_ends_the_old_links_without_a_word(loop: EpollReactor, a: Worker, b: Worker) -> None:
    linked(loop, a, b)
    a.link(b, fence=SECOND, key="the second key")
    b.link(a, fence=SECOND, key="the second key")
    a.send(b, 2, FIRST)
    a.send(b, 11, SECOND)
    loops.turn_until(loop, lambda: 11 in b.numbers(a), "a frame of the new attempt")
    assert b.numbers(a) == [1, 11]
    assert a.broken == b.broken == []


def test_a_worker_of_an_older_attempt_is_not_heard(loop: EpollReactor, a: Worker, b: Worker) -> None:
    linked(loop, a, b)
    b.link(a, fence=SECOND, key="the second key")
    a.send(b, 99)  # a zombie: it does not know of the second attempt
    again = TcpLinks(loop, a.events.append, listen("127.0.0.1"), "job", a.me)
    again.link(LinkPeers(FIRST, KEY, {b.me: b.address}))
    again.send(ToPeer(b.me, Frame(FIRST, 99, [])))
    loops.turn_until(
        loop, lambda: "it belongs to an older attempt" in b.links.acceptor.drops.last, "the refusal"
    )
    assert b.numbers(a) == [1]
    again.close()


def test_a_malformed_frame_of_a_proved_peer_breaks_the_link(loop: EpollReactor, b: Worker) -> None:
    b.links.link(LinkPeers(FIRST, KEY, {WorkerId("a"): "127.0.0.1:1"}))
    connection = proved(loop, b, "a")
    connection.send(b"\x93garbage")
    loops.turn_until(loop, lambda: b.broken, "the end")
    assert b.events == [LinkBroken(FIRST, WorkerId("a"), b.broken[0].reason)]
    assert b.broken[0].reason.startswith("a malformed frame: ")


def test_a_frame_nested_without_end_breaks_the_link_and_not_the_worker(loop: EpollReactor, b: Worker) -> None:
    b.links.link(LinkPeers(FIRST, KEY, {WorkerId("a"): "127.0.0.1:1"}))
    connection = proved(loop, b, "a")
    connection.send(b"\x94\x92\x01\x01\x01\x90" + b"\x91" * 500_000)
    loops.turn_until(loop, lambda: b.broken, "the end")
    assert b.broken[0].reason.startswith("a malformed frame: ")


def test_a_peer_of_another_release_ends_the_link_before_anything_of_it_is_read(
    loop: EpollReactor, b: Worker
) -> None:
    b.links.link(LinkPeers(FIRST, KEY, {WorkerId("a"): "127.0.0.1:1"}))
    connection = proved(loop, b, "a", knows="0123456789abcdef")
    connection.send(msgspec.msgpack.encode(Frame(FIRST, 1, [])))
    loops.turn_until(loop, lambda: b.broken, "the end")
    assert b.events == [LinkBroken(FIRST, WorkerId("a"), b.broken[0].reason)]
    for word in ("a is of another release", "0123456789abcdef", vocabulary(), "the same image"):
        assert word in b.broken[0].reason


def test_one_that_speaks_the_protocol_of_an_older_release_is_named(loop: EpollReactor, b: Worker) -> None:
    b.links.link(LinkPeers(FIRST, KEY, {WorkerId("a"): "127.0.0.1:1"}))
    purpose = Purpose("flamestream-link/2", "job", FIRST.attempt, FIRST.layout, "a", b.me)
    limits = Limits(max_frame=1 << 20, max_unsent=1 << 20)
    older = Dial(loop, b.address, (purpose, LinkKey(KEY.encode())), lambda _: None, limits)
    loops.turn_until(loop, lambda: b.links.acceptor.drops.count, "the refusal")
    older.cancel()
    assert b.links.acceptor.drops.last == (
        f"a is of another release: it speaks flamestream-link/2, not {PROTOCOL}"
    )


def test_a_second_connection_of_a_peer_does_not_replace_the_first(
    loop: EpollReactor, a: Worker, b: Worker
) -> None:
    linked(loop, a, b)
    purpose = Purpose(PROTOCOL, "job", FIRST.attempt, FIRST.layout, a.me, b.me)
    second = Dial(
        loop,
        b.address,
        (purpose, LinkKey(KEY.encode())),
        lambda _: None,
        Limits(max_frame=1 << 20, max_unsent=1 << 20),
    )
    loops.turn_until(loop, lambda: b.links.acceptor.drops.last == "no link is open for it", "the refusal")
    second.cancel()
    a.send(b, 2)
    loops.turn_until(loop, lambda: b.numbers(a) == [1, 2], "a frame on the first connection")


def test_what_waits_for_a_link_is_bounded(loop: EpollReactor, a: Worker) -> None:
    small = LinkSettings(limits=Limits(max_frame=1 << 20, max_unsent=10_000))
    waiting = Worker(loop, "z", small)
    waiting.links.link(LinkPeers(FIRST, KEY, {a.me: a.address}))
    for number in range(2_000):
        waiting.send(a, number)
    loops.turn_until(loop, lambda: waiting.broken, "the end")
    assert "bytes wait for the link, more than 10000" in waiting.broken[0].reason
    waiting.links.close()


def test_a_frame_too_large_to_send_names_the_way_out(loop: EpollReactor, a: Worker) -> None:
    small = Worker(loop, "z", LinkSettings(limits=Limits(max_frame=1_000, max_unsent=10_000)))
    small.links.link(LinkPeers(FIRST, KEY, {a.me: a.address}))
    data = Data(Time(1), MessageId(1), [1], [b"m"], [False], bytes(2_000))
    with pytest.raises(PayloadError, match="split the payloads"):
        small.links.send(ToPeer(a.me, Frame(FIRST, 1, [data])))
    small.links.close()


def test_sending_to_a_worker_outside_the_layout_is_a_bug(loop: EpollReactor, a: Worker, b: Worker) -> None:
    a.link(b)
    with pytest.raises(Bug, match="no link to nobody"):
        a.links.send(ToPeer(WorkerId("nobody"), Frame(FIRST, 1, [])))
