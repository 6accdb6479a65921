"""A worker that has its job's token and says what no worker says: it costs its own link, and no other job
anything."""

from collections.abc import Callable, Iterator

import pytest

from attacks.control_words import ADDRESSES, PROGRESS, WRONG, Hostile, encode, hello, report
from flamestream.core.protocol.actions import ToldCoordinator
from flamestream.core.protocol.events import Event, FromCoordinator
from flamestream.core.protocol.messages import MOST_TEXT, Failed, Hello, PeerLost, Stop, ToCoordinator
from flamestream.loop.reactor import EpollReactor
from flamestream.model.ids import NO_FENCE, WorkerId
from flamestream.net import control_link as control
from flamestream.net.acceptor import address_of, listen
from flamestream.net.control_link import LIMITS, PROTOCOL, ControlClient, ControlListener, ControlServer
from flamestream.net.dial import Dial
from flamestream.net.handshake import Purpose
from flamestream.net.tls import LinkKey
from support import loops

GOOD = WorkerId("good")


class Job:
    """One job's coordinator on the shared port, and a good worker of it."""

    def __init__(self, loop: EpollReactor, port: ControlListener, address: str, name: str) -> None:
        self.loop, self.name, self.address, self.token = loop, name, address, "token"
        self.heard: list[ToCoordinator] = []
        self.ends: list[tuple[WorkerId, str]] = []
        self.server = ControlServer(loop, port, name, self.token)
        self.server.handlers = self
        self.told: list[Event] = []
        self.good = ControlClient(loop, self.told.append, name, address, self.token, lambda: hello(GOOD))
        loops.turn_until(loop, lambda: self.heard, "the good worker's Hello")

    def connected(self, hello: Hello) -> None:
        self.heard.append(hello)

    def disconnected(self, worker: WorkerId, reason: str) -> None:
        self.ends.append((worker, reason))

    def from_worker(self, worker: WorkerId, message: ToCoordinator) -> None:
        if worker == "bug":
            raise KeyError("a bug of ours")
        self.heard.append(message)

    def works(self) -> None:
        """The good worker is heard, and hears, over the link that it has."""
        before = len(self.told)
        self.good.tell(ToldCoordinator(PROGRESS))
        loops.turn_until(self.loop, lambda: self.heard[-1] == PROGRESS, "its heartbeat")
        self.heard.pop()
        self.server.tell(GOOD, Stop("heard"))
        loops.turn_until(
            self.loop, lambda: self.told[before:] == [FromCoordinator(Stop("heard"))], "an answer"
        )
        assert GOOD not in [worker for worker, _ in self.ends]

    def close(self) -> None:
        self.good.close(0)
        self.server.close(0)


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with loops.reactor() as made:
        yield made


@pytest.fixture
def jobs(loop: EpollReactor) -> Iterator[tuple[Job, Job]]:
    """The first is attacked; the second must not notice."""
    listener = listen("127.0.0.1")
    address = address_of(listener)
    port = ControlListener(loop, listener)
    made = Job(loop, port, address, "attacked"), Job(loop, port, address, "other")
    yield made
    for job in made:
        job.close()
        assert job.server.held.held == job.server.links.held == 0, "all is given back"
    port.acceptor.close()
    assert port.held.held == port.links.held == 0


@pytest.fixture(autouse=True)
def all_goes_on(jobs: tuple[Job, Job]) -> Iterator[None]:
    """Behind each test: nothing of the attack was heard, and both jobs' workers are where they were."""
    for job in jobs:
        job.works()
    yield
    for job in jobs:
        job.works()
    assert jobs[1].heard == [hello(GOOD)] and not jobs[1].ends


def test_before_its_hello_a_connection_has_room_for_a_hello(jobs: tuple[Job, Job]) -> None:
    """Five of them once held 315 MB for as long as they liked."""
    hostile = [Hostile(jobs[0]) for _ in range(5)]
    for each in hostile:
        each.send_part(63 << 20, of=63 << 20)
        each.put_out()
    assert (
        jobs[0].server.acceptor.drops.last
        == f"a worker: a frame of {63 << 20} bytes, more than the limit of {control.MAX_HELLO}"
    )
    assert jobs[0].heard == [hello(GOOD)]


def test_a_connection_without_hello_ends_in_time(
    jobs: tuple[Job, Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "HELLO_SECONDS", 0.2)
    silent, partial = Hostile(jobs[0]), Hostile(jobs[0])
    partial.send_part(10, of=1000)
    silent.put_out()
    partial.put_out()
    assert jobs[0].server.acceptor.drops.last == "a worker: it has not said Hello"


def test_large_frames_may_follow_a_hello_at_once(loop: EpollReactor, jobs: tuple[Job, Job]) -> None:
    """What waited for a coordinator comes in the same breath."""
    lost = PeerLost(NO_FENCE, WorkerId("p"), "gone")
    large = encode(["Accepted", [0, 0], 1, 1, [], ["x" * 1000] * 1000, [], [], []])
    worker = Hostile(jobs[0], encode(hello("w")), encode(lost), large)
    loops.turn_until(loop, lambda: len(jobs[0].heard) == 4, "all that it says")
    assert jobs[0].heard[1:3] == [hello("w"), lost]
    assert not worker.ended
    worker.connection.close()


def test_links_are_bounded_and_the_oldest_without_a_hello_gives_way(
    loop: EpollReactor, jobs: tuple[Job, Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs[0].server.links._most = 4
    nameless = [Hostile(jobs[0]) for _ in range(10)]
    for each in nameless[:7]:
        each.put_out()
    assert not [each for each in nameless[7:] if each.ended]
    named = [Hostile(jobs[0], encode(hello(f"w{number}"))) for number in range(3)]
    loops.turn_until(loop, lambda: len(jobs[0].heard) == 4, "three more workers")
    Hostile(jobs[0]).put_out()
    assert jobs[0].server.acceptor.drops.last == "there are too many links"
    for each in named:
        each.connection.close()


def test_what_links_hold_together_is_bounded(loop: EpollReactor, jobs: tuple[Job, Job]) -> None:
    jobs[0].server.held._most = 4 << 20
    workers = [Hostile(jobs[0], encode(hello(f"w{number}"))) for number in range(4)]
    for worker in workers:
        worker.send_part(3 << 20, of=60 << 20)
    loops.turn_until(
        loop, lambda: sum(bool(worker.ended) for worker in workers) >= 3, "all but one are put out"
    )
    assert jobs[0].server.held.held <= 4 << 20
    assert any("it and those beside it hold too much" in reason for _, reason in jobs[0].ends)
    for worker in workers:
        worker.connection.close()
    loops.turn_until(loop, lambda: len(jobs[0].ends) == 4, "the end of the last one")


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_report_ends_its_link_and_is_not_heard(jobs: tuple[Job, Job], wrong: str) -> None:
    hostile = Hostile(jobs[0], encode(hello("w")), report(), WRONG[wrong])
    hostile.put_out()
    assert jobs[0].heard == [hello(GOOD), hello("w"), PROGRESS]
    assert [worker for worker, _ in jobs[0].ends] == ["w"]
    assert jobs[0].server.acceptor.drops.count == 1


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_that_is_none_ends_the_link(jobs: tuple[Job, Job], address: str) -> None:
    """Other workers would be told to dial it."""
    Hostile(jobs[0], encode(hello("w", address))).put_out()
    assert jobs[0].heard == [hello(GOOD)]


def test_what_a_message_makes_our_own_code_raise_ends_its_link(jobs: tuple[Job, Job]) -> None:
    Hostile(jobs[0], encode(hello("bug")), report()).put_out()
    assert jobs[0].ends == [(WorkerId("bug"), "KeyError: 'a bug of ours'")]


@pytest.mark.parametrize(
    "said",
    [lambda text: PeerLost(NO_FENCE, WorkerId("p"), text), lambda text: Failed(NO_FENCE, "user", text)],
    ids=["lost", "failed"],
)
def test_an_honest_worker_s_long_text_is_cut_and_heard(
    loop: EpollReactor, jobs: tuple[Job, Job], said: Callable[[str], ToCoordinator]
) -> None:
    jobs[0].good.tell(ToldCoordinator(said("x" * 1_000_000)))
    loops.turn_until(loop, lambda: len(jobs[0].heard) == 2, "the message")
    text = getattr(jobs[0].heard[-1], "message", "") or getattr(jobs[0].heard[-1], "reason", "")
    assert (len(text), text[-5:]) == (MOST_TEXT, "x ...")


def test_an_address_that_resolves_to_nothing_is_tried_again(loop: EpollReactor) -> None:
    """A label too long raises in the resolver's own checks."""
    dial = Dial(
        loop,
        f"{'x' * 100}.org:1",
        (Purpose(PROTOCOL, "j", 0, 0, "a", "b"), LinkKey(b"k")),
        lambda _: None,
        LIMITS,
    )
    loops.turn_until(loop, lambda: dial.failures >= 2, "two failures")
    dial.cancel()


def test_the_reason_is_said(jobs: tuple[Job, Job]) -> None:
    Hostile(jobs[0], encode(hello("w")), report(items_in=-1)).put_out()
    [(_, reason)] = jobs[0].ends
    assert reason == "a message that is malformed, or of another release: Expected `int` >= 0 - at `$[5]`"
