"""The journal in a real ZooKeeper: what was reported counts for ever, a zombie's entry never does, an outage loses nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flamestream.adapters.journal_zookeeper import LARGEST, everything, zookeeper_journal
from flamestream.adapters.reactor import EpollReactor
from flamestream.adapters.zookeeper import ClusterState
from flamestream.adapters.zookeeper_server import EmbeddedZooKeeper
from flamestream.core.actions import Append, SealJournal, TrimJournal
from flamestream.core.events import Entry, Event, JournalAppended, JournalFailed, JournalSealed, SourceFailed
from flamestream.model.ids import Attempt, Fence, LayoutVersion, Offset, Partition
from flamestream.model.time import FrontId, Time
from support.eventually import eventually
from support.loops import reactor, turn_until
from support.processes import kill

FRONT = FrontId(3)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zk")) as server:
        yield server


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with reactor() as made:
        yield made


class Worker:
    """A worker's journal, driven by hand."""

    def __init__(self, loop: EpollReactor, address: str, job: str, attempt: int) -> None:
        self.loop, self.fence = loop, Fence(Attempt(attempt), LayoutVersion(attempt))
        self.events: list[Event] = []
        self.state = ClusterState(address)
        self.journal = zookeeper_journal(lambda: self.state, job, loop, self.events.append)

    def seal(self, cut: int = 0) -> list[tuple[int, bytes]]:
        self.journal.seal(SealJournal(self.fence, FRONT, Time(cut)))
        event = self.next()
        assert isinstance(event, JournalSealed), event
        return [(entry.time, entry.payloads) for entry in event.entries]

    def append(self, *times: int, payloads: bytes = b"x") -> None:
        for time in times:
            self.journal.append(Append(self.fence, FRONT, Entry(Time(time), Partition("docs"), Offset(time), 1, payloads)))

    def next(self) -> Event:
        turn_until(self.loop, lambda: bool(self.events), "an event")
        return self.events.pop(0)

    def reported(self, upto: int) -> None:
        """Wait until everything up to this time is durable."""
        while True:
            event = self.next()
            if isinstance(event, JournalAppended) and event.time >= upto:
                return


@pytest.fixture
def job(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


def test_what_was_reported_is_what_the_next_attempt_gets(loop: EpollReactor, shared: EmbeddedZooKeeper, job: str) -> None:
    first = Worker(loop, shared.address, job, 1)
    assert first.seal() == []
    first.append(10, 20)
    first.append(30, payloads=b"last")
    first.reported(30)
    second = Worker(loop, shared.address, job, 2)
    assert second.seal(cut=20) == [(20, b"x"), (30, b"last")]
    second.append(40)
    second.reported(40)
    assert [time for time, _ in Worker(loop, shared.address, job, 3).seal()] == [10, 20, 30, 40]


def test_an_audit_reads_all_that_counts_whatever_attempt_wrote_it(loop: EpollReactor, shared: EmbeddedZooKeeper, job: str) -> None:
    for attempt, times in ((1, (10, 20)), (2, (30,))):
        worker = Worker(loop, shared.address, job, attempt)
        worker.seal()
        worker.append(*times)
        worker.reported(times[-1])
    assert [entry.time for entry in everything(worker.state, job, FRONT)] == [10, 20, 30]


def test_a_zombies_entry_never_counts(loop: EpollReactor, shared: EmbeddedZooKeeper, job: str) -> None:
    zombie = Worker(loop, shared.address, job, 1)
    zombie.seal()
    successor = Worker(loop, shared.address, job, 2)
    assert successor.seal() == []
    zombie.append(10)
    event = zombie.next()
    assert isinstance(event, JournalFailed) and "newer attempt" in event.message
    assert Worker(loop, shared.address, job, 3).seal() == []


def test_an_older_attempt_can_not_seal_behind_a_newer_one(loop: EpollReactor, shared: EmbeddedZooKeeper, job: str) -> None:
    Worker(loop, shared.address, job, 5).seal()
    late = Worker(loop, shared.address, job, 4)
    late.journal.seal(SealJournal(late.fence, FRONT, Time(0)))
    event = late.next()
    assert isinstance(event, JournalFailed) and "attempt 5" in event.message


def test_a_trim_removes_what_is_below_and_nothing_else(loop: EpollReactor, shared: EmbeddedZooKeeper, job: str) -> None:
    worker = Worker(loop, shared.address, job, 1)
    worker.seal()
    for time in (10, 20, 30):
        worker.append(time)
        worker.reported(time)
    worker.journal.trim(TrimJournal(worker.fence, FRONT, Time(25)))
    path = f"/flamestream/{job}/journal/front-{FRONT}/entries"
    eventually(lambda: len(worker.state.client.get_children(path)) == 1, "one batch is left")
    assert [time for time, _ in Worker(loop, shared.address, job, 2).seal()] == [30]


def test_an_outage_is_told_and_loses_nothing(loop: EpollReactor, tmp_path: Path, job: str) -> None:
    with EmbeddedZooKeeper(tmp_path) as server:
        worker = Worker(loop, server.address, job, 1)
        worker.seal()
        worker.append(10)
        worker.reported(10)
        kill(server.pid)
        worker.append(20)
        assert isinstance(worker.next(), JournalFailed)
        server.ensure_running()
        worker.append(30)
        worker.reported(30)
        assert [time for time, _ in Worker(loop, server.address, job, 2).seal()] == [10, 20, 30]


def test_an_entry_that_no_server_takes_stops_the_job_with_the_way_out(loop: EpollReactor, shared: EmbeddedZooKeeper, job: str) -> None:
    worker = Worker(loop, shared.address, job, 1)
    worker.seal()
    worker.append(10, payloads=bytes(LARGEST))
    event = worker.next()
    assert isinstance(event, SourceFailed) and event.category == "user" and "shared volume" in event.message
