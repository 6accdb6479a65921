"""Kafka with three brokers, three replicas, two of which must have a record: one broker dies with -9, and
nothing is lost or doubled.

A cluster of two goes on, and so must we; with one alone nothing is acknowledged until another is back.
"""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from flamestream.core.protocol.actions import ReadRun
from flamestream.core.protocol.events import (
    BundlesAcknowledged,
    Entry,
    JournalAppended,
    JournalFailed,
    JournalSealed,
    RunRead,
    SinkFailed,
)
from flamestream.journal import kafka_partitions as partitions
from flamestream.loop.reactor import EpollReactor
from flamestream.model.ids import Offset
from flamestream.model.time import Time
from flamestream.testing.consumer_contract import Worker, bundle, fence
from flamestream.testing.port_driver import PortDriver
from flamestream.testing.producer_contract import FRONT, Front
from support.journals.kafka import JournalTopic, failures
from support.journals.worker import FRONT as JOURNALLED
from support.kafka_broker.cluster import Cluster
from support.loops import reactor, turn_until
from support.places.kafka_places import Following, ReadTopic, WrittenTopic

BOTH = ("transactional", "low-latency")
SLOTS = (0, 1, 2)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("kafka"))
    try:
        yield made
    finally:
        made.kill()


@pytest.fixture
def cluster(three: Cluster) -> Cluster:
    """Whole, whatever the test before did to it."""
    three.start()
    return three


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with reactor() as made:
        yield made


# --- the sink -----------------------------------------------------------------------------------------------


def leader_of_the_output(cluster: Cluster, topic: WrittenTopic) -> int:
    return cluster.leader(topic.name)


def coordinator(cluster: Cluster, _: WrittenTopic) -> int:
    return cluster.coordinator


class Stream:
    """Bundles of three slots, so for three partitions, and the worker that delivers them."""

    def __init__(self, topic: WrittenTopic, driver: PortDriver) -> None:
        self._topic, self._driver = topic, driver
        self._sent = self._attempt = 0
        self.next_owner()

    def next_owner(self) -> None:
        """It is told of the last bundles."""
        self._attempt += 1
        self.worker = Worker(self._topic, f"w{self._attempt}", self._driver)
        last = self.worker.open(fence(self._attempt), *SLOTS)
        assert {slot: found.sequence for slot, found in last.items()} == (
            dict.fromkeys(SLOTS, self._sent) if self._sent else {}
        )

    def send(self, count: int) -> None:
        for _ in range(count):
            self._sent += 1
            self.worker.send(fence(self._attempt), *(bundle(slot, self._sent) for slot in SLOTS))

    @property
    def acknowledged(self) -> int:
        assert not [event for event in self._driver.events if isinstance(event, SinkFailed)], (
            self._driver.events
        )
        return sum(isinstance(event, BundlesAcknowledged) for event in self._driver.events)

    def wait(self, count: int = 0) -> None:
        """For so many acknowledgements, or all."""
        wanted = count or self._sent
        self._driver.until(lambda: self.acknowledged >= wanted, f"{wanted} acknowledgements")

    def check(self) -> None:
        """The topic's readers have each item once."""
        wanted = [
            (slot, sequence, bundle(slot, sequence).items)
            for slot in SLOTS
            for sequence in range(1, self._sent + 1)
        ]
        assert sorted(self._topic.taken()) == wanted


@pytest.mark.parametrize(
    ("form", "victim"),
    [
        ("transactional", coordinator),
        ("low-latency", leader_of_the_output),
        pytest.param("transactional", leader_of_the_output, marks=pytest.mark.slow),
        pytest.param("low-latency", coordinator, marks=pytest.mark.slow),
    ],
)
def test_each_item_is_there_once_though_a_broker_dies_in_the_middle(
    cluster: Cluster, form: str, victim: Callable[[Cluster, WrittenTopic], int]
) -> None:
    """It never comes back to the first owner, and comes back to the second in the middle."""
    topic = WrittenTopic(cluster, form, partitioner="slot")
    with PortDriver() as driver:
        stream = Stream(topic, driver)
        stream.send(20)
        stream.wait(5)
        cluster.kill(victim(cluster, topic))
        stream.wait()
        stream.next_owner()
        stream.check()
        cluster.launch()
        while not cluster.whole():
            stream.send(1)
            stream.wait()
        stream.check()


# --- one of three -------------------------------------------------------------------------------------------


def has_a_problem(consumer: object) -> bool:
    return bool(getattr(consumer, "problem", ""))


def test_with_one_broker_of_three_nothing_counts_and_everyone_says_so(
    cluster: Cluster, driver: PortDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both forms of the sink, and a journal. When the others are back they go on, and what was under way is
    there once."""
    monkeypatch.setattr(partitions, "DELIVERY_SECONDS", 2.0)
    journal = JournalTopic(driver.reactor, cluster)
    writer = journal.worker(1)
    writer.seal()
    writer.wrote(10)
    streams = [Stream(WrittenTopic(cluster, form, partitioner="slot"), driver) for form in BOTH]
    for stream in streams:
        stream.send(1)
        stream.wait(1)
        driver.take(BundlesAcknowledged)
    cluster.kill(
        *[number for number in cluster.brokers if number != cluster.leader(journal.name, JOURNALLED)]
    )
    for stream in streams:
        stream.send(1)
    assert isinstance(writer.append(20), JournalFailed)
    for stream in streams:
        driver.until(partial(has_a_problem, stream.worker.consumer), "a `problem`")
    assert (driver.events, writer.events) == ([], [])
    cluster.launch()
    assert failures(writer.reported(20)) == [], "it is said once"
    streams[0].wait(2)
    for stream in streams:
        stream.next_owner()
        stream.check()
    assert journal.worker(2).seal() == [10, 20]


# --- the source ---------------------------------------------------------------------------------------------


def test_a_source_reads_on_and_again_when_its_leader_dies(cluster: Cluster) -> None:
    words = [f"word {number}" for number in range(10)]
    topic = ReadTopic(cluster, *words)
    with PortDriver() as driver:
        following = Following(topic, driver, records=5)
        cluster.kill(cluster.leader(topic.name))
        words.append("behind the first death")
        topic.write(words[-1])
        following.pull()
        following.wait(*words)
        assert following.payloads == words, "in order"
        cluster.start()
        following.producer.read(
            ReadRun(Front.fence(1), FRONT, Entry(Time(100), topic.partition, Offset(2), 3, end=Offset(5)))
        )
        cluster.kill(cluster.leader(topic.name))
        assert list(driver.take(RunRead).payloads) == words[2:5]


# --- the journal --------------------------------------------------------------------------------------------


def test_a_journal_goes_on_when_its_leader_dies_and_the_next_attempt_gets_what_was_reported(
    cluster: Cluster, loop: EpollReactor
) -> None:
    topic = JournalTopic(loop, cluster)
    first = topic.worker(1)
    first.seal()
    described = cluster.admin().list_topics(topic.name).topics[topic.name].partitions[JOURNALLED]
    assert len(described.replicas) == 3
    first.wrote(10)
    first.ask(20, 30)
    cluster.kill(cluster.leader(topic.name, JOURNALLED))
    first.ask(40, 50)
    first.reported(50)
    assert topic.worker(2).seal() == [10, 20, 30, 40, 50]


def test_what_counts_counts_for_ever_though_the_leader_dies_while_two_attempts_write(
    cluster: Cluster, loop: EpollReactor
) -> None:
    """A zombie has entries under way, and its heir a seal: what the zombie is told of, the heir has; nothing
    more ever counts."""
    topic = JournalTopic(loop, cluster)
    zombie = topic.worker(1)
    zombie.seal()
    zombie.wrote(10)
    zombie.ask(20, 30)
    heir = topic.worker(2)
    heir.ask_to_seal()
    cluster.kill(cluster.leader(topic.name, JOURNALLED))
    zombie.ask(40)
    turn_until(
        loop, lambda: any(isinstance(event, JournalSealed) for event in heir.events), "the heir's seal"
    )
    (sealed,) = [event for event in heir.events if isinstance(event, JournalSealed)]
    counted = [entry.time for entry in sealed.entries]
    zombie.ask(50)
    turn_until(
        loop,
        lambda: any("replaced" in getattr(event, "message", "") for event in zombie.events),
        "the zombie is told",
    )
    heir.wrote(100)
    told = [event.time for event in zombie.events if isinstance(event, JournalAppended)]
    assert set(told) <= set(counted)
    assert topic.worker(3).seal() == [*counted, 100]
