"""Somebody between two ends of a link, who hears and changes what passes: the link ends, and nothing that was
changed is heard."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from flamestream.core.protocol.actions import LinkPeers, ToldCoordinator, ToPeer
from flamestream.core.protocol.events import Event, FromCoordinator, FromPeer, LinkBroken
from flamestream.core.protocol.messages import Data, Frame, Hello, PeerLost, Stop, ToCoordinator
from flamestream.loop.reactor import EpollReactor
from flamestream.model import payload as codec
from flamestream.model.ids import NO_FENCE, Attempt, Fence, LayoutVersion, MessageId, WorkerId
from flamestream.model.time import FrontId, Time, Timestamp, time_of
from flamestream.net import control_link as control
from flamestream.net.acceptor import address_of, listen
from flamestream.net.control_link import LIMITS, ControlClient, ControlServer
from flamestream.net.links import LinkSettings, TcpLinks
from flamestream.reference import interpret
from support import loops
from support.eventually import eventually
from support.net.middle import Change, Middle, Way
from support.processes import listening
from support.runs.local_job import LocalJob

FENCE = Fence(Attempt(1), LayoutVersion(1))
A, B, C = WorkerId("a"), WorkerId("b"), WorkerId("c")
KEY = "the key of attempt one"
SECRET = b"what a user's record says"
COUNT = 300


class Attack:
    """What is done to one piece of one direction, once. Holds back, repeats, leaves out, alters, puts in."""

    def __init__(self, kind: str, way: Way, piece: int) -> None:
        self._kind, self._way, self._piece = kind, way, piece
        self._chance = random.Random(piece)
        self._pieces = {Way.THERE: 0, Way.BACK: 0}
        self._held = b""
        self.old = b""
        """A piece of this direction that passed before."""
        self.struck = False

    def __call__(self, way: Way, data: bytes) -> bytes:
        self._pieces[way] += 1
        if way is not self._way:
            return data
        if self._held:
            data, self._held = data + self._held, b""
        if self._pieces[way] != self._piece:
            self.old = self.old or data
            return data
        self.struck = True
        return self._changed(data)

    def _changed(self, data: bytes) -> bytes:
        place = self._chance.randrange(len(data))
        if self._kind == "held back":
            self._held = data
            return b""
        return {
            "flipped": data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :],
            "left out": b"",
            "repeated": data + data,
            "an old one": self.old + data,
            "shortened": data[:place],
            "put in": data[:place] + b"\x17\3\3\0\x20" + self._chance.randbytes(32) + data[place:],
        }[self._kind]


KINDS = ["flipped", "left out", "repeated", "an old one", "shortened", "put in", "held back"]


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with loops.reactor() as made:
        yield made


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


class Linked:
    """Workers a and b, and somebody between them."""

    def __init__(self, loop: EpollReactor, stack: ExitStack, change: Change) -> None:
        self.loop = loop
        self.events: dict[WorkerId, list[Event]] = {A: [], B: []}
        settings = LinkSettings(replace(LIMITS, handshake_seconds=0.3), link_seconds=1.0)
        listeners = {A: listen("127.0.0.1"), B: listen("127.0.0.1")}
        addresses = {worker: address_of(listener) for worker, listener in listeners.items()}
        self.middle = Middle(addresses[B], change)
        stack.callback(self.middle.close)
        addresses[B] = self.middle.address  # a dials b
        self.links = {
            worker: TcpLinks(loop, self.events[worker].append, listeners[worker], "job", worker, settings)
            for worker in (A, B)
        }
        for links in self.links.values():
            stack.callback(links.close)
            links.link(LinkPeers(FENCE, KEY, addresses))

    def send(self, number: int) -> None:
        data = Data(Time(number), MessageId(number), [0], [b"m"], [False], SECRET * (number % 7))
        for worker, peer in ((A, B), (B, A)):
            self.links[worker].send(ToPeer(peer, Frame(FENCE, number, [data])))

    def heard(self, worker: WorkerId) -> list[int]:
        return [event.frame.sequence for event in self.events[worker] if isinstance(event, FromPeer)]

    def broken(self, worker: WorkerId) -> list[LinkBroken]:
        return [event for event in self.events[worker] if isinstance(event, LinkBroken)]

    def speak(self) -> None:
        """In many small pieces."""
        for number in range(1, COUNT + 1):
            self.send(number)
            if number % 10 == 0:
                self.loop.soon(lambda: None)
                self.loop.turn()

    def over(self) -> bool:
        """All has come, or both ends know that there is no link any more."""
        return all(self.broken(worker) for worker in (A, B)) or all(
            len(self.heard(worker)) >= COUNT for worker in (A, B)
        )

    def whole_so_far(self) -> None:
        for worker in (A, B):
            heard = self.heard(worker)
            assert heard == list(range(1, len(heard) + 1)), "in order, none left out, none twice"
            frames = [event.frame for event in self.events[worker] if isinstance(event, FromPeer)]
            assert all(frame.messages[0].payloads == SECRET * (frame.sequence % 7) for frame in frames)  # type: ignore[union-attr]


def test_nothing_of_what_workers_say_can_be_read(loop: EpollReactor, stack: ExitStack) -> None:
    pair = Linked(loop, stack, lambda _, data: data)
    pair.speak()
    loops.turn_until(loop, pair.over, "all frames")
    pair.whole_so_far()
    assert len(pair.heard(A)) == len(pair.heard(B)) == COUNT
    for heard in pair.middle.heard.values():
        assert len(heard) > COUNT * 3 * len(SECRET)
        assert SECRET not in heard
        assert KEY.encode() not in heard


@pytest.mark.parametrize("piece", [1, 2, 3, 7])
@pytest.mark.parametrize("way", list(Way))
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_changed_between_workers_is_not_heard(
    loop: EpollReactor, stack: ExitStack, kind: str, way: Way, piece: int
) -> None:
    attack = Attack(kind, way, piece)
    pair = Linked(loop, stack, attack)
    pair.speak()
    # what is missing shows with what comes behind it, or with the end
    if kind in ("left out", "shortened", "held back"):
        loops.turn_until(loop, lambda: attack.struck or pair.over(), "the attack")
        pair.send(COUNT + 1)
        loop.later(0.3, pair.middle.cut)
    loops.turn_until(loop, pair.over, "the end of the link, or all frames")
    pair.whole_so_far()


def test_a_link_cannot_be_led_to_another_worker(loop: EpollReactor, stack: ExitStack) -> None:
    """Somebody sends a's call for b to c, and says in the clear that it is for c."""
    events: dict[WorkerId, list[Event]] = {A: [], C: []}
    listeners = {A: listen("127.0.0.1"), C: listen("127.0.0.1")}
    middle = Middle(
        address_of(listeners[C]),
        lambda way, data: data.replace(b"\xa1b", b"\xa1c") if way is Way.THERE else data,
    )
    stack.callback(middle.close)
    addresses = {A: address_of(listeners[A]), B: middle.address, C: "127.0.0.1:1"}
    links = {
        me: TcpLinks(loop, events[me].append, listeners[me], "job", me, LinkSettings(link_seconds=0.5))
        for me in (A, C)
    }
    for each in links.values():
        stack.callback(each.close)
        each.link(LinkPeers(FENCE, KEY, addresses))
    links[A].send(ToPeer(B, Frame(FENCE, 1, [])))
    loops.turn_until(
        loop,
        lambda: any(isinstance(event, LinkBroken) and event.peer == B for event in events[A]),
        "no link to b",
    )
    assert links[C].acceptor.drops.last == "it has another key"
    assert not [event for event in events[C] if isinstance(event, FromPeer)]


# --- the control link ---------------------------------------------------------------------------------------


class Controlled:
    """A worker, its coordinator, and somebody between them."""

    def __init__(self, loop: EpollReactor, stack: ExitStack, change: Change) -> None:
        self.loop = loop
        self.heard: list[ToCoordinator] = []
        self.told: list[Event] = []
        self.ends = 0
        listener = listen("127.0.0.1")
        self.middle = Middle(address_of(listener), change)
        stack.callback(self.middle.close)
        self.server = ControlServer(loop, listener, "job", "the job's token")
        self.server.handlers = self
        stack.callback(self.server.close, 0)
        hello = Hello(A, "127.0.0.1:1", NO_FENCE, False, "3.11", "graph")
        self.client = ControlClient(
            loop, self.told.append, "job", self.middle.address, "the job's token", lambda: hello
        )
        stack.callback(self.client.close, 0)

    def connected(self, hello: Hello) -> None:
        self.heard.append(hello)

    def disconnected(self, worker: WorkerId, reason: str) -> None:
        self.ends += 1

    def from_worker(self, _: WorkerId, message: ToCoordinator) -> None:
        self.heard.append(message)

    def lost(self) -> list[int]:
        """What the worker said, as the coordinator heard it."""
        return [int(message.reason) for message in self.heard if isinstance(message, PeerLost)]

    def stops(self) -> list[int]:
        """What the coordinator said, as the worker heard it."""
        said = [event.message for event in self.told if isinstance(event, FromCoordinator)]
        return [int(message.reason) for message in said if isinstance(message, Stop)]

    def speak(self, number: int) -> None:
        self.client.tell(ToldCoordinator(PeerLost(FENCE, B, str(number))))
        self.server.tell(A, Stop(str(number)))


@pytest.mark.parametrize("piece", [1, 2, 3, 7])
@pytest.mark.parametrize("way", list(Way))
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_changed_on_a_control_link_is_not_heard_and_the_worker_dials_again(
    loop: EpollReactor, stack: ExitStack, monkeypatch: pytest.MonkeyPatch, kind: str, way: Way, piece: int
) -> None:
    monkeypatch.setattr(control, "LIMITS", replace(LIMITS, handshake_seconds=0.3))
    attack = Attack(kind, way, piece)
    link = Controlled(loop, stack, attack)
    number = 0

    def spoke() -> bool:
        nonlocal number
        if number < 400:
            number += 1
            link.speak(number)
        if attack.struck and number == 200:
            link.middle.cut()  # what is missing shows with the end
        return attack.struck and number == 400 and bool(link.lost()) and link.lost()[-1] == 400

    loops.turn_until(loop, spoke, "the last word, on whatever connection")
    for heard in (link.lost(), link.stops()):
        assert heard == sorted(set(heard)), "in order, none twice"
    for seen in link.middle.heard.values():
        assert b"the job's token" not in seen and b"127.0.0.1:1" not in seen


# --- a whole job --------------------------------------------------------------------------------------------

WORDS = """
import flamestream as fs

graph = fs.Graph("words")
counts = graph.source("numbers").flat_map(lambda n: [(n % 17, n), (n % 5, n)]).reduce(
    key=lambda p: p[0], initial=str, combine=lambda a, p: (a + str(p[1]))[-12:], emit=lambda a, p: (p[0], a)
)
counts.sink("out", key=lambda c: c[0])
"""
ITEMS = 20_000


class Now:
    """Flips a byte of what passes next, whenever it is told to."""

    def __init__(self) -> None:
        self.strikes = 0
        self.due = False

    def __call__(self, _: Way, data: bytes) -> bytes:
        if not self.due:
            return data
        self.due = False
        self.strikes += 1
        place = len(data) * self.strikes // 7
        return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]


def test_a_job_s_output_stays_right_whatever_is_changed_between_its_processes(
    tmp_path: Path, stack: ExitStack
) -> None:
    """Workers say that they are at 127.0.0.2: there somebody listens for each, and passes on."""
    job = LocalJob(tmp_path, WORDS, {"generator": {"count": ITEMS, "rate": 4_000}})
    stack.callback(job.close)
    job.start_coordinator()
    control, links = Now(), Now()
    middle = Middle(address_of(job.listener), control)
    stack.callback(middle.close)
    for _ in range(2):
        name = job.start_worker(coordinator=middle.address, advertised="127.0.0.2")
        port = _port(job.workers[name].pid)
        stack.callback(Middle(f"127.0.0.1:{port}", links, listen("127.0.0.2", port)).close)
    job.until_delivered(500)
    for attempt, struck in enumerate((links, control, links), start=1):
        status = job.until_running()
        struck.due = True
        if struck is links:
            job.until_running(status.attempt + 1)
        job.until_delivered(500 * attempt)
    assert job.ended() == 0, job.logs()
    assert (links.strikes, control.strikes) == (2, 1)
    runs = [(time_of(Timestamp(1 + number), FrontId(0)), [number]) for number in range(ITEMS)]
    expected = [codec.encode_many([payload]) for _, payload in interpret(job.graph, runs)["out"]]
    assert [codec.encode_many([payload]) for _, payload in job.delivered()] == expected


def _port(pid: int) -> int:
    return eventually(lambda: listening(pid), "the worker listens")[0]
