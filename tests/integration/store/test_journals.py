"""What every journal promises, each where it really is: in a folder, in ZooKeeper, in a topic of a Kafka
broker."""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

import pytest
from msgspec.structs import replace

from flamestream.core.protocol.events import JournalAppended, JournalFailed
from flamestream.journal import places as journals
from flamestream.journal.places import JournalConfig, KafkaJournal
from flamestream.loop.reactor import EpollReactor
from flamestream.model.errors import Corrupt
from flamestream.store.zookeeper_server import EmbeddedZooKeeper
from support.eventually import eventually
from support.journals.worker import FRONT, Worker, entry
from support.kafka_broker import Broker
from support.loops import reactor

ALL = ["folder", "zookeeper", "kafka"]
FRONTS = 4


@dataclass
class Place:
    """A journal of one job, and a loop for the workers that use it."""

    config: JournalConfig
    loop: EpollReactor
    job: str = "index"

    def worker(self, attempt: int) -> Worker:
        return Worker(
            self.loop, attempt, lambda post: journals.build(self.config, self.job, FRONTS, self.loop, post)
        )

    def everything(self) -> list[int]:
        return [each.time for each in journals.everything(self.config, self.job, FRONT)]


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zk")) as server:
        yield server


@pytest.fixture(params=ALL)
def config(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> JournalConfig:
    if request.param == "folder":
        return JournalConfig(folder=str(tmp_path_factory.mktemp("journal")))
    if request.param == "zookeeper":
        return JournalConfig(zookeeper=request.getfixturevalue("zookeeper").access)
    broker: Broker = request.getfixturevalue("broker")
    return JournalConfig(kafka=KafkaJournal(brokers=broker.address, topic=f"journal-{uuid4().hex[:8]}"))


@pytest.fixture
def place(config: JournalConfig, request: pytest.FixtureRequest) -> Iterator[Place]:
    with reactor() as loop:
        yield Place(config, loop, f"job.{request.node.originalname}")


def test_what_was_reported_is_what_the_next_attempt_gets(place: Place) -> None:
    first = place.worker(1)
    assert first.seal() == []
    first.ask(10, 20)
    first.ask(30, payloads=b"last")
    first.reported(30)
    second = place.worker(2)
    assert second.sealed(20) == [entry(20), entry(30, b"last")], "to the last field"
    second.ask(40)
    second.reported(40)
    assert place.worker(3).seal() == [10, 20, 30, 40]


def test_nothing_is_reported_from_within_the_call(place: Place) -> None:
    worker = place.worker(1)
    worker.seal()
    worker.ask(10)
    assert worker.events == []


def test_an_audit_reads_all_that_counts_whatever_attempt_wrote_it(place: Place) -> None:
    for attempt, times in ((1, (10, 20)), (2, (30,))):
        worker = place.worker(attempt)
        worker.seal()
        worker.ask(*times)
        worker.reported(times[-1])
    assert place.everything() == [10, 20, 30]


def test_a_zombie_is_told_that_it_was_replaced_and_its_entries_never_count(place: Place) -> None:
    zombie = place.worker(1)
    zombie.seal()
    zombie.ask(10)
    zombie.reported(10)
    heir = place.worker(2)
    assert heir.seal() == [10]
    answer = zombie.append(20)
    assert isinstance(answer, JournalFailed) and "replaced" in answer.message
    heir.ask(15)
    heir.reported(15)
    zombie.ask(30)
    assert place.worker(3).seal() == [10, 15]
    assert place.everything() == [10, 15]
    assert not any(isinstance(event, JournalAppended) for event in zombie.events)


def test_an_older_attempt_can_not_seal_behind_a_newer_one(place: Place) -> None:
    place.worker(5).seal()
    late = place.worker(4)
    late.ask_to_seal()
    answer = late.next()
    assert isinstance(answer, JournalFailed) and "attempt 5" in answer.message


def test_a_worker_that_dies_with_entries_under_way_loses_none_that_it_was_told_of(place: Place) -> None:
    """Its process goes on while the heir seals, as one whose last writes are still on their way does."""
    counted: list[int] = []
    for attempt in range(1, 6):
        worker = place.worker(attempt)
        given = worker.seal()
        assert given[: len(counted)] == counted, "what counted once counts for ever"
        counted = given
        for time in range(attempt * 100, attempt * 100 + attempt):
            worker.ask(time)
            place.loop.soon(_nothing)
            place.loop.turn()
        counted += [
            time
            for time in range(attempt * 100, attempt * 100 + attempt)
            if worker.appended(time) in worker.events
        ]
    assert set(counted) <= set(place.worker(6).seal())


def test_a_trim_removes_what_is_below_and_nothing_else(place: Place) -> None:
    place.config = replace(place.config, fsync=False)
    for attempt, times in ((1, (10, 20)), (2, (30, 40))):
        worker = place.worker(attempt)
        worker.seal()
        for time in times:
            worker.ask(time)
            worker.reported(time)
    heir = place.worker(3)
    heir.seal(40)
    heir.ask(50)
    heir.reported(50)
    heir.ask_to_trim(30)

    def gone() -> bool:
        try:
            left = place.everything()
        except Corrupt:  # it says that some were trimmed
            return True
        return left[0] >= 30

    eventually(gone, "what is below is gone")
    assert place.worker(4).seal(30) == [30, 40, 50]


def test_a_journal_that_keeps_is_never_trimmed(place: Place) -> None:
    place.config = replace(place.config, keep=True)
    worker = place.worker(1)
    worker.seal()
    for time in (10, 20, 30):
        worker.ask(time)
        worker.reported(time)
    worker.ask_to_trim(1000)
    heir = place.worker(2)
    heir.seal(30)
    heir.ask_to_trim(1000)
    assert place.everything() == [10, 20, 30]


def _nothing() -> None:
    """So that a turn does not wait."""
