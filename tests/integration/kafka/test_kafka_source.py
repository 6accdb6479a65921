"""The Kafka source against a real broker: the producer's contract, and offsets that are not what one would
like."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer as Client
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]  # offered without saying so

import flamestream as fs
from flamestream.connectors import sources
from flamestream.core.protocol.actions import Follow, Pull, ReadRun
from flamestream.core.protocol.events import Entry, RecordsArrived, RunRead
from flamestream.model.ids import NOTE, Offset, Partition
from flamestream.model.payload import ErrorValue
from flamestream.model.time import Time
from flamestream.testing.port_driver import PortDriver
from flamestream.testing.producer_contract import (
    FRONT,
    PLENTY,
    PRODUCER_CHECKS,
    RECORDS,
    REPLAY_CHECKS,
    Front,
    Outside,
)
from flamestream.testing.producer_outages import check_gives_the_rest_behind_a_killed_server
from support.eventually import eventually
from support.kafka_broker import Broker
from support.kafka_broker.topics import QUIET
from support.places.kafka_places import Following, ReadTopic

WORDS = [f"wörd {number}" for number in range(RECORDS)]


@pytest.mark.parametrize("check", [*PRODUCER_CHECKS, *REPLAY_CHECKS], ids=lambda check: check.__name__)
def test_contract(broker: Broker, check: Callable[[Outside], None]) -> None:
    check(ReadTopic(broker, *WORDS))


@pytest.mark.slow  # a minute: brokers are killed in test_kafka_three_brokers.py and test_kafka_job.py
def test_a_killed_broker(broker: Broker) -> None:
    check_gives_the_rest_behind_a_killed_server(ReadTopic(broker, *WORDS))


def test_aborted_records_are_not_given_and_their_offsets_are_passed_over(broker: Broker) -> None:
    topic = ReadTopic(broker, "a")
    client = Client({"bootstrap.servers": broker.address, "transactional.id": topic.name, **QUIET})
    client.init_transactions(30)
    for word, ends in (
        ("lost", client.abort_transaction),
        ("b", client.commit_transaction),
        ("gone", client.abort_transaction),
    ):
        client.begin_transaction()
        client.produce(topic.name, word.encode())
        client.flush(30)
        ends(30)
    topic.write("c")
    with PortDriver() as driver:
        following = Following(topic, driver)
        following.wait("a", "b", "c")
        entry = Entry(Time(100), topic.partition, Offset(0), 3, end=following.offsets[topic.partition])
        following.producer.read(ReadRun(Front.fence(1), FRONT, entry))
        assert list(driver.take(RunRead).payloads) == ["a", "b", "c"], "a replay passes over the same"


@pytest.mark.parametrize("start", ["latest", "2100-01-01T00:00:00+00:00"])
def test_what_is_there_is_left_out_once_and_for_all(broker: Broker, start: str) -> None:
    topic = ReadTopic(broker, "old", start=start)
    with PortDriver() as driver:
        following = Following(topic, driver)
        driver.until(lambda: len(following.offsets) == 2, "both decisions")
        decided = following.offsets
    topic.write("new")
    with PortDriver() as driver:
        Following(topic, driver, decided).wait("new")


def test_an_older_mark_of_the_topic_is_known(broker: Broker) -> None:
    """Its name was like a partition's."""
    topic = ReadTopic(broker, "old", start="latest")
    with PortDriver() as driver:
        following = Following(topic, driver)
        driver.until(lambda: len(following.offsets) == 2, "both decisions")
        decided = {Partition(each.removeprefix(NOTE)): at for each, at in following.offsets.items()}
    assert decided.keys() != following.offsets.keys()
    topic.write("new")
    with PortDriver() as driver:
        Following(topic, driver, decided).wait("new")


def test_a_start_at_a_time_is_at_the_first_record_of_that_time(broker: Broker) -> None:
    topic = ReadTopic(broker, start="2026-01-01T00:00:00+00:00")
    topic.write("before", timestamp=1767225599999)
    topic.write("after", timestamp=1767225600000)
    with PortDriver() as driver:
        Following(topic, driver).wait("after")


def test_timestamps_are_hints_whatever_they_are(broker: Broker) -> None:
    topic = ReadTopic(broker, name=broker.topic(1, message_timestamp_after_max_ms=str(2**63 - 1)))
    far = int(time.time() * 1000) + 300 * 86_400_000
    topic.write("future", timestamp=far)
    topic.write("past", timestamp=1)
    with PortDriver() as driver:
        Following(topic, driver).wait("future", "past")


def test_new_partitions_are_read_from_their_beginning_also_with_start_latest(broker: Broker) -> None:
    topic = ReadTopic(broker, "old", start="latest")
    with PortDriver() as driver:
        following = Following(topic, driver)
        driver.until(lambda: len(following.offsets) == 2, "both decisions")
        admin = broker.admin()
        admin.create_partitions([NewPartitions(topic.name, 2)])[topic.name].result(30)
        eventually(
            lambda: len(admin.list_topics(topic.name, 10).topics[topic.name].partitions) == 2,
            "the new partition",
        )
        topic.write("new", partition=1)
        following.wait("new")
        assert topic.named(1) in following.offsets


def test_readers_share_the_partitions(broker: Broker) -> None:
    topic = ReadTopic(broker, partitions=3, readers=2)
    for number in range(3):
        topic.write(f"of {number}", partition=number)
    found = []
    for share in range(2):
        with PortDriver() as driver:
            producer = sources.build(
                topic.spec, FRONT, driver.post, driver.reactor, name="docs", job="job", share=share
            )
            driver.at_exit.append(producer.close)
            producer.follow(Follow(Front.fence(1), FRONT, {}))
            producer.pull(Pull(Front.fence(1), FRONT, PLENTY, PLENTY))
            count = 2 - share

            def payloads(driver: PortDriver = driver) -> list[Any]:
                return [
                    payload
                    for event in driver.events
                    if isinstance(event, RecordsArrived)
                    for payload in event.payloads
                ]

            driver.until(lambda count=count, payloads=payloads: len(payloads()) == count, "its records")  # type: ignore[misc]
            found.append(sorted(payloads()))
    assert found == [["of 0", "of 2"], ["of 1"]]


def test_records_that_expired_are_an_error_that_says_how_many(broker: Broker) -> None:
    topic = ReadTopic(broker, *WORDS)
    broker.admin_call(lambda admin: admin.delete_records([TopicPartition(topic.name, 0, 7)]))
    with PortDriver() as driver:
        failed = Following(topic, driver, {topic.partition: Offset(3)}).failure()
    assert failed.category == "corrupt"
    assert "4 offsets are lost" in failed.message
    with PortDriver() as driver:
        following = Following(topic, driver)
        following.producer.read(
            ReadRun(Front.fence(1), FRONT, Entry(Time(100), topic.partition, Offset(2), 3, end=Offset(5)))
        )
        assert "5 offsets are lost" in following.failure().message


def test_a_topic_that_was_created_again_is_an_error(broker: Broker) -> None:
    topic = ReadTopic(broker, *WORDS)
    with PortDriver() as driver:
        following = Following(topic, driver)
        following.wait(*WORDS)
        offsets = following.offsets
    broker.admin_call(lambda admin: admin.delete_topics([topic.name]))
    eventually(
        lambda: topic.name not in broker.admin().list_topics(timeout=10).topics, "the topic is deleted"
    )
    broker.topic(1, topic.name)
    topic.write(*WORDS)
    with PortDriver() as driver:
        failed = Following(topic, driver, offsets).failure()
    assert failed.category == "corrupt"
    assert "created again" in failed.message


def test_a_topic_that_is_deleted_while_it_is_read_ends_the_job(broker: Broker) -> None:
    topic = ReadTopic(broker, *WORDS)
    with PortDriver() as driver:
        following = Following(topic, driver)
        following.wait(*WORDS)
        broker.admin_call(lambda admin: admin.delete_topics([topic.name]))
        failed = following.failure()
    assert failed.category in ("user", "corrupt")
    assert topic.name in failed.message


def test_a_partition_that_is_gone_is_an_error(broker: Broker) -> None:
    """As in a cluster restored from a copy that had fewer."""
    topic = ReadTopic(broker, *WORDS)
    with PortDriver() as driver:
        failed = Following(topic, driver, {topic.partition: Offset(3), topic.named(5): Offset(7)}).failure()
    assert failed.category == "corrupt"
    assert "partition 5, read up to offset 7, is gone" in failed.message


def test_a_missing_topic_is_an_error_that_says_what_to_do(broker: Broker) -> None:
    with PortDriver() as driver:
        topic = ReadTopic(broker)
        topic.spec["kafka"]["topic"] = "nowhere"
        failed = Following(topic, driver).failure()
    assert (failed.category, "create it" in failed.message) == ("user", True)


def test_a_record_of_another_format_is_an_error_value_at_its_place(broker: Broker) -> None:
    topic = ReadTopic(broker, '{"n": 1}', "{", '{"n": 2}', value="json")
    with PortDriver() as driver:
        following = Following(topic, driver)
        driver.until(lambda: len(following.payloads) == 3, "all records")
        first, bad, last = following.payloads
    assert (first, last) == (fs.Map({"n": 1}), fs.Map({"n": 2}))
    assert isinstance(bad, ErrorValue)
    assert "offset 1" in bad.message


def test_a_full_record_has_key_headers_and_place(broker: Broker) -> None:
    topic = ReadTopic(broker, record="full")
    topic.write("value", key=b"key", headers=[("h", b"1")], timestamp=5)
    with PortDriver() as driver:
        Following(topic, driver).wait(fs.KafkaRecord(topic.name, 0, 0, 5, "key", "value", (("h", b"1"),)))


def test_a_wrong_setting_is_named(broker: Broker) -> None:
    topic = ReadTopic(broker, settings={"fetch.wait.max.msec": 1})
    with PortDriver() as driver:
        failed = Following(topic, driver).failure()
    assert (failed.category, "fetch.wait.max.msec" in failed.message) == ("user", True)
