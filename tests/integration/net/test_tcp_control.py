"""The control link over real TCP: Hello first, order, and what happens when either end goes."""

import socket
import time
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from flamestream.core.protocol.actions import ToldCoordinator
from flamestream.core.protocol.events import Event, FromCoordinator
from flamestream.core.protocol.messages import Drain, Hello, PeerLost, Progress, Stop, ToCoordinator
from flamestream.loop.reactor import EpollReactor
from flamestream.model.ids import NO_FENCE, WorkerId
from flamestream.model.time import Time
from flamestream.net import acceptor as acceptor_module
from flamestream.net.acceptor import address_of, listen
from flamestream.net.control_link import LIMITS, PROTOCOL, ControlClient, ControlListener, ControlServer
from flamestream.net.dial import Dial
from flamestream.net.framing import FrameConnection
from flamestream.net.handshake import Purpose
from flamestream.net.tls import LinkKey
from support import loops

ME = WorkerId("worker-1")
HELLO = Hello(ME, "127.0.0.1:1", NO_FENCE, False, "3.11", "graph")


def lost(number: int) -> PeerLost:
    return PeerLost(NO_FENCE, WorkerId(f"peer-{number}"), "gone")


def progress(number: int) -> Progress:
    return Progress(NO_FENCE, Time(number), Time(0), Time(0), 0, 0)


class Coordinator:
    """A server on a copy of the launcher's listening socket, and what it has heard."""

    def __init__(self, loop: EpollReactor, listener: socket.socket, token: str = "token") -> None:
        self.heard: list[ToCoordinator] = []
        self.ends: list[tuple[WorkerId, str]] = []
        self.server = ControlServer(loop, listener.dup(), "job", token)
        self.server.handlers = self

    def connected(self, hello: Hello) -> None:
        self.heard.append(hello)

    def disconnected(self, worker: WorkerId, reason: str) -> None:
        self.ends.append((worker, reason))

    def from_worker(self, _: WorkerId, message: ToCoordinator) -> None:
        self.heard.append(message)


class Client:
    def __init__(
        self, loop: EpollReactor, listener: socket.socket, token: str = "token", job: str = "job"
    ) -> None:
        self.events: list[Event] = []
        self.control = ControlClient(
            loop, self.events.append, job, address_of(listener), token, lambda: HELLO
        )

    def tell(self, message: ToCoordinator) -> None:
        self.control.tell(ToldCoordinator(message))


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with loops.reactor() as made:
        yield made


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with listen("127.0.0.1") as made:
        yield made


@pytest.fixture
def coordinator(loop: EpollReactor, listener: socket.socket) -> Iterator[Coordinator]:
    made = Coordinator(loop, listener)
    yield made
    made.server.close(0)


@pytest.fixture
def client(loop: EpollReactor, listener: socket.socket) -> Iterator[Client]:
    made = Client(loop, listener)
    yield made
    made.control.close(0)


def proved(loop: EpollReactor, listener: socket.socket) -> FrameConnection:
    connections: list[FrameConnection] = []
    purpose = Purpose(PROTOCOL, "job", 0, 0, "worker", "coordinator")
    Dial(loop, address_of(listener), (purpose, LinkKey(b"token")), connections.append, LIMITS)
    loops.turn_until(loop, lambda: connections, "the handshake")
    return connections[0]


def test_hello_is_first_and_what_was_told_before_follows_but_no_old_heartbeat(
    loop: EpollReactor, coordinator: Coordinator, client: Client
) -> None:
    client.tell(lost(1))
    client.tell(progress(2))
    client.tell(lost(3))
    loops.turn_until(loop, lambda: len(coordinator.heard) >= 3, "what was told")
    assert coordinator.heard == [HELLO, lost(1), lost(3)]


def test_both_hear_each_other_in_order(loop: EpollReactor, coordinator: Coordinator, client: Client) -> None:
    loops.turn_until(loop, lambda: coordinator.heard, "Hello")
    for number in range(100):
        client.tell(progress(number))
        coordinator.server.tell(ME, Stop(str(number)))
    coordinator.server.tell(WorkerId("unknown"), Stop("nobody hears this"))
    loops.turn_until(
        loop, lambda: len(coordinator.heard) == 101 and len(client.events) == 100, "all messages"
    )
    assert coordinator.heard[1:] == [progress(number) for number in range(100)]
    assert client.events == [FromCoordinator(Stop(str(number))) for number in range(100)]


def test_a_coordinator_that_comes_back_at_the_same_address_is_greeted_anew(
    loop: EpollReactor, listener: socket.socket, client: Client
) -> None:
    first = Coordinator(loop, listener)
    loops.turn_until(loop, lambda: first.heard, "the first Hello")
    first.server.close(0)
    loops.turn_until(loop, lambda: client.control._connection is None, "the loss")
    client.tell(lost(7))
    second = Coordinator(loop, listener)
    loops.turn_until(loop, lambda: len(second.heard) == 2, "the second Hello and what waited")
    assert second.heard == [HELLO, lost(7)]
    assert client.events == []
    second.server.close(0)


def test_a_worker_that_ends_is_told_once(
    loop: EpollReactor, listener: socket.socket, coordinator: Coordinator
) -> None:
    worker = Client(loop, listener)
    loops.turn_until(loop, lambda: coordinator.heard, "Hello")
    worker.control._connection.close()  # type: ignore[union-attr]
    worker.control.close(0)
    loops.turn_until(loop, lambda: coordinator.ends, "its end")
    assert coordinator.ends == [(ME, "closed by the peer")]


def test_last_words_arrive_although_the_process_ends_with_messages_unread(
    loop: EpollReactor, listener: socket.socket, coordinator: Coordinator
) -> None:
    worker = Client(loop, listener)
    loops.turn_until(loop, lambda: coordinator.heard, "Hello")
    words = [lost(number) for number in range(50)]
    for word in words:
        coordinator.server.tell(ME, Stop("not read any more"))
        worker.tell(word)
    worker.control.close(0)
    loops.turn_until(loop, lambda: coordinator.ends, "its end")
    assert coordinator.heard[1:] == words


def test_a_disconnected_worker_dials_again(
    loop: EpollReactor, coordinator: Coordinator, client: Client
) -> None:
    loops.turn_until(loop, lambda: coordinator.heard, "Hello")
    coordinator.server.disconnect(ME)
    loops.turn_until(loop, lambda: len(coordinator.heard) == 2, "another Hello")
    assert coordinator.ends == []


def test_a_worker_that_is_put_out_whenever_it_comes_keeps_its_distance(
    loop: EpollReactor, coordinator: Coordinator, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was retired: its pod lives on for seconds, and nobody lets it in."""

    def put_out(hello: Hello) -> None:
        coordinator.heard.append(hello)
        coordinator.server.disconnect(hello.worker)

    monkeypatch.setattr(coordinator, "connected", put_out)
    began = time.monotonic()
    loops.turn_until(loop, lambda: len(coordinator.heard) == 4, "three more tries")
    assert time.monotonic() - began > 3 * 0.25


def test_a_worker_whose_old_link_lingers_replaces_it(
    loop: EpollReactor, listener: socket.socket, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = Client(loop, listener), Client(loop, listener)
    old_lost: list[str] = []
    monkeypatch.setattr(old.control, "_lost", old_lost.append)
    loops.turn_until(loop, lambda: len(coordinator.heard) == 2 and old_lost, "two Hellos of one worker")
    coordinator.server.tell(ME, Drain(NO_FENCE))
    loops.turn_until(loop, lambda: old.events or new.events, "the message")
    assert coordinator.ends == [(ME, "replaced by a newer connection")]
    for client in (old, new):
        client.control.close(0)


@pytest.mark.parametrize(("token", "job"), [("another token", "job"), ("token", "another job")])
def test_a_worker_of_another_job_is_refused_and_keeps_trying(
    loop: EpollReactor, listener: socket.socket, coordinator: Coordinator, token: str, job: str
) -> None:
    stranger = Client(loop, listener, token, job)
    loops.turn_until(loop, lambda: stranger.control._dial.failures >= 3, "three refusals")
    assert coordinator.heard == []
    assert coordinator.ends == []
    stranger.control.close(0)


@pytest.mark.parametrize("words", [b"\x93garbage", b"\x91" * 500_000, b""])
def test_a_malformed_message_ends_the_connection_and_nothing_else(
    loop: EpollReactor, listener: socket.socket, coordinator: Coordinator, client: Client, words: bytes
) -> None:
    loops.turn_until(loop, lambda: coordinator.heard, "Hello")
    ended: list[str] = []
    garbage = proved(loop, listener)
    garbage.handle(lambda _: None, ended.append, 1 << 20)
    garbage.send(words)
    loops.turn_until(loop, lambda: ended, "its end")
    client.tell(lost(1))
    loops.turn_until(loop, lambda: len(coordinator.heard) == 2, "a message of the good worker")
    assert coordinator.ends == []


def test_what_waits_for_a_coordinator_is_bounded_and_the_newest_is_kept(
    loop: EpollReactor, listener: socket.socket
) -> None:
    worker = Client(loop, listener)
    for number in range(5_000):
        worker.tell(lost(number))
    coordinator = Coordinator(loop, listener)
    loops.turn_until(
        loop, lambda: len(coordinator.heard) > 1 and coordinator.heard[-1] == lost(4_999), "what waited"
    )
    assert len(coordinator.heard) == 1 + 1024
    worker.control.close(0)
    coordinator.server.close(0)


def test_a_machine_that_receives_nothing_for_two_seconds_is_given_up(
    loop: EpollReactor, coordinator: Coordinator, client: Client
) -> None:
    """A black hole needs a network of its own (e2e cuts a node); here, what the kernel was told."""
    loops.turn_until(loop, lambda: coordinator.heard, "Hello")
    link = client.control._connection
    assert link is not None
    options = (socket.TCP_USER_TIMEOUT, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)
    assert [link._socket.getsockopt(socket.IPPROTO_TCP, option) for option in options] == [2000, 1, 1], (
        "a standby sends no heartbeats"
    )


class Shard:
    """A leader's port, at an address of its own, and the job that it may coordinate."""

    def __init__(
        self, loop: EpollReactor, host: str, port: int, elsewhere: str, *, opens: bool = True
    ) -> None:
        self.heard: list[str] = []
        listener = listen(host, port)
        self.address = address_of(listener)
        self.listener = ControlListener(loop, listener, lambda _: elsewhere, opens=opens)
        self._loop = loop
        self.server: ControlServer | None = None

    def coordinate(self) -> None:
        self.server = ControlServer(self._loop, self.listener, "job", "token")
        self.server.handlers = self

    def close(self) -> None:
        if self.server is not None:
            self.server.close(0)
        self.listener.acceptor.close()

    def connected(self, hello: Hello) -> None:
        self.heard.append(hello.worker)

    def disconnected(self, worker: WorkerId, reason: str) -> None:
        """Nobody asks."""

    def from_worker(self, _: WorkerId, message: ToCoordinator) -> None:
        """Nobody asks."""


def test_a_leader_of_another_shard_leads_a_worker_to_its_own(
    loop: EpollReactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names as a cluster has them: this machine's name service does not."""
    with listen("127.0.0.1") as probe:
        port = int(probe.getsockname()[1])
    places = {"c.space.svc": "127.0.0.1", "c-1.space.svc": "127.0.0.2"}
    monkeypatch.setattr(
        "flamestream.net.dial.split", lambda address: (places[address.partition(":")[0]], port)
    )
    first = Shard(loop, "127.0.0.1", port, "c-1.space.svc:7700")
    own = Shard(loop, "127.0.0.2", port, "")
    client = ControlClient(loop, lambda _: None, "job", "c.space.svc:7700", "token", lambda: HELLO)
    try:
        loops.turn_until(loop, lambda: client._route.address == "c-1.space.svc:7700", "it is led")
        assert own.heard == [], "nobody coordinates it yet"
        own.coordinate()
        loops.turn_until(loop, lambda: own.heard, "Hello")
        assert first.heard == []
    finally:
        client.close(0)
        first.close()
        own.close()


def test_who_dials_a_leader_that_knows_no_job_yet_waits_and_is_not_sent_away(loop: EpollReactor) -> None:
    """A thousand that dial again and again would be all that it is busy with."""
    leader = Shard(loop, "127.0.0.1", 0, "", opens=False)
    client = ControlClient(loop, lambda _: None, "job", leader.address, "token", lambda: HELLO)
    try:
        loops.turn_until(loop, lambda: client._dial._handshake, "its connection")
        leader.coordinate()
        leader.listener.acceptor.open()
        loops.turn_until(loop, lambda: leader.heard, "Hello")
        assert leader.listener.acceptor.drops.count == 0
    finally:
        client.close(0)
        leader.close()


def test_of_a_crowd_that_dials_at_once_nobody_gives_way_to_others(
    loop: EpollReactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the workers of all jobs of a new leader."""
    monkeypatch.setattr(acceptor_module, "MAX_UNPROVED", 40)
    leader = Shard(loop, "127.0.0.1", 0, "", opens=False)
    hellos = [replace(HELLO, worker=WorkerId(f"w{number}")) for number in range(120)]
    clients = [
        ControlClient(loop, lambda _: None, "job", leader.address, "token", lambda hello=hello: hello)  # type: ignore[misc]
        for hello in hellos
    ]
    try:
        leader.coordinate()
        loops.turn_until(loop, lambda: all(each._dial._handshake for each in clients), "their connections")
        leader.listener.acceptor.open()
        loops.turn_until(loop, lambda: len(leader.heard) == 120, "each Hello")
        assert leader.listener.acceptor.drops.count == 0
    finally:
        for each in clients:
            each.close(0)
        leader.close()
