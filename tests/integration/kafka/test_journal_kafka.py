"""The journal in a topic of a real broker, beyond what every journal promises (test_journals.py).

A topic that would lose entries is refused; a broker that dies or hangs loses nothing; what its cleaner
removes was not needed.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flamestream.core.protocol.events import JournalFailed, SourceFailed
from flamestream.journal import kafka_partitions as partitions
from flamestream.loop.reactor import EpollReactor
from flamestream.model.payload import decode_many, encode_many
from flamestream.net.kafka.clients import Secret
from flamestream.net.kafka.own_topics import settings_of
from support.eventually import eventually
from support.journals.kafka import JOB, JournalTopic, failures
from support.journals.worker import FRONT
from support.kafka_broker import Broker
from support.kafka_broker.secure import PASSWORD, SecureBroker
from support.loops import reactor, turn_until

QUICKLY_CLEANED: dict[str, str] = {
    "cleanup_policy": "compact", "segment_bytes": "1048576", "segment_ms": "300",
    "min_cleanable_dirty_ratio": "0.001", "delete_retention_ms": "0",
}  # fmt: skip


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with reactor() as made:
        yield made


@pytest.fixture
def topic(loop: EpollReactor, broker: Broker) -> JournalTopic:
    return JournalTopic(loop, broker)


# --- the topic ----------------------------------------------------------------------------------------------


def test_the_topic_is_made_compacted_with_a_partition_for_each_front(topic: JournalTopic) -> None:
    topic.worker(1).seal()
    admin = topic.broker.admin()
    assert len(admin.list_topics(topic.name).topics[topic.name].partitions) == 4
    assert topic.config.kafka is not None
    found = settings_of(admin, topic.name, "test")
    assert {name: found[name] for name in partitions.SETTINGS} == partitions.SETTINGS


def test_a_topic_whose_records_expire_is_refused(loop: EpollReactor, broker: Broker) -> None:
    message = JournalTopic(loop, broker, broker.topic(4, cleanup_policy="delete")).refusal()
    assert "cleanup.policy is delete" in message and "must be compact" in message


def test_a_topic_with_too_few_partitions_is_refused(loop: EpollReactor, broker: Broker) -> None:
    assert (
        "it has 2 partitions"
        in JournalTopic(loop, broker, broker.topic(2, cleanup_policy="compact")).refusal()
    )


def test_a_topic_of_another_job_is_refused(loop: EpollReactor, broker: Broker) -> None:
    topic = JournalTopic(loop, broker, broker.topic(4, cleanup_policy="compact"))
    broker.write(topic.name, b"x", partition=FRONT, key=b"a cat")
    assert "name another" in topic.refusal()


# --- trouble ------------------------------------------------------------------------------------------------


def test_a_broker_killed_between_is_told_once_and_loses_nothing(topic: JournalTopic) -> None:
    worker = topic.worker(1)
    worker.seal()
    worker.wrote(10)
    topic.broker.kill()
    try:
        assert isinstance(worker.append(20), JournalFailed)
    finally:
        topic.broker.start()
    assert failures(worker.reported(20)) == []
    worker.wrote(30)
    assert topic.worker(2).seal() == [10, 20, 30]


def test_a_broker_killed_while_entries_are_on_their_way_loses_none_that_was_reported(
    topic: JournalTopic,
) -> None:
    worker = topic.worker(1)
    worker.seal()
    worker.wrote(10)
    topic.broker.pause()
    worker.ask(20)  # it is sent to a broker that does not read any more
    topic.loop.later(0.1, lambda: None)
    topic.loop.turn()
    topic.broker.kill()
    topic.broker.start()
    worker.reported(20)
    assert topic.worker(2).seal() == [10, 20]


def test_a_seal_waits_for_the_broker_and_says_so(topic: JournalTopic) -> None:
    first = topic.worker(1)
    first.seal()
    first.wrote(10)
    topic.broker.kill()
    second = topic.worker(2)
    try:
        second.ask_to_seal()
        event = second.next()
        assert isinstance(event, JournalFailed) and "cannot seal" in event.message
    finally:
        topic.broker.start()
    turn_until(topic.loop, lambda: second.events, "it is sealed")
    assert [each.time for each in second.next().entries] == [10]  # type: ignore[union-attr]


def test_a_broker_that_hangs_for_longer_than_a_try_gets_each_entry_once(
    topic: JournalTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as short:
        # Of the producer that is hung alone: the next one meets a busy broker.
        short.setattr(partitions, "DELIVERY_SECONDS", 1.0)
        worker = topic.worker(1)
        worker.seal()
    worker.wrote(10)
    topic.broker.pause()
    try:
        worker.ask(20)
        assert isinstance(worker.next(), JournalFailed)
        turn_until(topic.loop, lambda: worker.journal._logs[FRONT]._outage.failures >= 3, "two more tries")  # type: ignore[attr-defined]
    finally:
        topic.broker.resume()
    worker.reported(20)
    worker.wrote(30)
    copies = [
        message.key() for message in topic.broker.read(topic.name) if b"/batch/" in (message.key() or b"")
    ]
    assert len(copies) == len(set(copies)), "no key is used twice"
    assert topic.worker(2).seal() == [10, 20, 30]
    assert topic.everything() == [10, 20, 30]


def test_an_entry_that_is_too_large_stops_the_job_with_the_way_out_and_loses_nothing(
    loop: EpollReactor, broker: Broker
) -> None:
    topic = JournalTopic(loop, broker, broker.topic(4, cleanup_policy="compact", max_message_bytes="20000"))
    worker = topic.worker(1)
    worker.seal()
    fits = encode_many(["x" * 15_000])
    worker.ask(10, payloads=fits)
    worker.reported(10)
    worker.ask(20, payloads=bytes(30_000))
    event = worker.next()
    assert (
        isinstance(event, SourceFailed) and event.category == "user" and "max.message.bytes" in event.message
    )
    (entry,) = topic.worker(2).sealed()
    assert decode_many(entry.payloads) == ["x" * 15_000]


# --- the cleaner --------------------------------------------------------------------------------------------


def test_behind_the_brokers_cleaner_what_counts_is_the_same(loop: EpollReactor, broker: Broker) -> None:
    """Each attempt writes once more behind the next one's seal; the last one trims; the first one wakes up
    when the cleaner was there."""
    topic = JournalTopic(loop, broker, broker.topic(4, **QUICKLY_CLEANED))
    asleep = before = topic.worker(1)
    asleep.seal()
    for attempt in range(2, 6):
        worker = topic.worker(attempt)
        worker.seal()
        if before is not asleep:
            assert isinstance(before.append(attempt), JournalFailed)
        worker.ask(attempt * 100)
        worker.reported(attempt * 100)
        before = worker
    times = iter(range(1000, 10_000))

    def cleaned() -> bool:
        """Segments are closed, and cleaned, only when more is written."""
        for _ in range(20):
            time = next(times)
            worker.ask(time)
            worker.reported(time)
        worker.ask_to_trim(time)
        there = [message.key() for message in broker.read(topic.name) if message.partition() == FRONT]
        return not any(
            b"/seal/00000004/" in key or b"/batch/00000003/" in key for key in there if key is not None
        )

    eventually(cleaned, "the cleaner has removed what was trimmed, and the older seals")
    answer = asleep.append(5)
    assert isinstance(answer, JournalFailed) and "a newer attempt 5" in answer.message
    newest = next(times) - 1
    assert topic.worker(6).seal(newest) == [newest]


# --- logging in ---------------------------------------------------------------------------------------------


def test_it_logs_in_with_a_secret_from_a_file(loop: EpollReactor, tmp_path: Path) -> None:
    server = SecureBroker(tmp_path / "kafka")
    server.start()
    try:
        password = tmp_path / "password.txt"
        password.write_text(PASSWORD)
        access = server.access("PLAIN", {})
        access["secrets"] = {"sasl.password": Secret(file=str(password))}
        topic = JournalTopic(loop, server, "index-journal", access)
        server.allow("TOPIC", "index-journal", "CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE")
        server.allow("GROUP", f"flamestream-{JOB}-journal", "READ")
        worker = topic.worker(1)
        worker.seal()
        worker.wrote(10)
        assert topic.worker(2).seal() == [10]
    finally:
        server.kill()
