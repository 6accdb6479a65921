"""The Kafka sink against a real broker: the consumer's contract in both forms, and what only Kafka can do
wrong."""

from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition

from flamestream.connectors import sinks
from flamestream.core.protocol.events import SinkFailed
from flamestream.model.errors import Corrupt
from flamestream.model.payload import decode_items
from flamestream.testing.consumer_contract import (
    CONSUMER_CHECKS,
    SINK,
    Outside,
    Worker,
    bundle,
    fence,
)
from flamestream.testing.consumer_kills import check_killed_at_any_moment
from flamestream.testing.consumer_outages import check_a_killed_server_keeps_all
from flamestream.testing.port_driver import PortDriver
from support.kafka_broker import Broker
from support.places.kafka_places import WrittenTopic

FORMS = ["transactional", "low-latency"]

BUT = {
    "check_an_item_may_be_big": "a long last item is not kept for comparison, so that records of the control "
    "topic stay small",
    "check_slots_change_their_owners": "a layout changes only with the attempt, and only that is fenced",
}
"""Checks of the kit that this sink does not pass, and why."""


@pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("form", FORMS)
def test_contract(broker: Broker, form: str, check: Callable[[Outside], None]) -> None:
    if reason := BUT.get(check.__name__):
        pytest.skip(reason)
    check(WrittenTopic(broker, form))


# a lone broker killed behind a commit may forget the markers of its partitions: docs/reference/kafka.md, "A
# lone broker"
@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_killed_broker(broker: Broker, form: str) -> None:
    check_a_killed_server_keeps_all(WrittenTopic(broker, form))


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("form", FORMS)
def test_workers_killed_at_any_moment(broker: Broker, form: str, seed: int) -> None:
    check_killed_at_any_moment(WrittenTopic(broker, form), seed, lives=4, items=200)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 20))
@pytest.mark.parametrize("form", FORMS)
def test_workers_killed_at_any_moment_for_long(broker: Broker, form: str, seed: int) -> None:
    check_killed_at_any_moment(WrittenTopic(broker, form), seed, lives=12, items=1000)


def test_readers_of_committed_records_see_low_latency_output_behind_its_commit(broker: Broker) -> None:
    topic = WrittenTopic(broker, "low-latency", commitSeconds=0.05)
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1))
        assert len(topic.records()) == 1, "at once for those who read uncommitted records"
        driver.until(lambda: len(broker.read(topic.name, committed=True)) == 1, "the commit")


def test_keys_values_and_partitions_are_the_users(broker: Broker) -> None:
    topic = WrittenTopic(broker, "transactional", value="text", key="__doc__", partitioner="slot")
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.open(fence(1), 0, 1, 2)
        worker.deliver(fence(1), *(bundle(slot, 1, f"text {slot}") for slot in range(3)))
    assert [(message.partition(), message.value(), message.key()) for _, message in topic.records()] == [
        (slot, f"text {slot}".encode(), (str.__doc__ or "").encode()) for slot in range(3)
    ]


@pytest.mark.parametrize("partitioner", ["random", "murmur2_random"])
def test_an_item_without_a_key_has_one_partition(broker: Broker, partitioner: str) -> None:
    def places() -> dict[bytes, int | None]:
        topic = WrittenTopic(broker, "low-latency", partitioner=partitioner)
        with PortDriver() as driver:
            worker = Worker(topic, "w1", driver)
            worker.open(fence(1), 0)
            for sequence in range(1, 30):
                worker.deliver(fence(1), bundle(0, sequence))
        return {place.meta: message.partition() for place, message in topic.records()}

    first = places()
    assert set(first.values()) == {0, 1, 2}
    assert places() == first


@pytest.mark.parametrize("form", FORMS)
def test_a_record_that_is_too_large_fails_with_what_to_do(broker: Broker, form: str) -> None:
    topic = WrittenTopic(broker, form)
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.open(fence(1), 0)
        worker.send(fence(1), bundle(0, 1, "x" * 2_000_000))
        failed = driver.take(SinkFailed)
    assert (failed.category, "message.max.bytes" in failed.message) == ("user", True)
    assert topic.records() == []


def test_a_payload_that_does_not_fit_the_format_fails_before_anything_is_written(broker: Broker) -> None:
    topic = WrittenTopic(broker, "transactional", value="bytes")
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.open(fence(1), 0)
        worker.send(fence(1), bundle(0, 1))
        failed = driver.take(SinkFailed)
    assert (failed.category, "value: json" in failed.message) == ("user", True)


def test_a_compacted_topic_is_refused_for_low_latency(broker: Broker) -> None:
    topic = WrittenTopic(broker, "low-latency")
    topic.spec["kafka"]["topic"] = broker.topic(1, cleanup_policy="compact")
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.send_open(fence(1), 0)
        failed = driver.take(SinkFailed)
    assert (failed.category, "form: transactional" in failed.message) == ("user", True)


def test_a_missing_topic_fails_with_what_to_do(broker: Broker) -> None:
    topic = WrittenTopic(broker, "transactional")
    topic.spec["kafka"]["topic"] = "nowhere"
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.send_open(fence(1), 0)
        failed = driver.take(SinkFailed)
    assert failed.category == "user"
    assert "create it" in failed.message


@pytest.mark.parametrize("value", ["payload", "json"])
@pytest.mark.parametrize("form", FORMS)
def test_everything_can_be_read_back_in_the_total_order(broker: Broker, form: str, value: str) -> None:
    """Of a topic that another job writes to as well."""
    topic = WrittenTopic(broker, form, value=value)
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.open(fence(1), 0, 1)
        for sequence in (1, 2, 3):
            worker.deliver(fence(1), bundle(1, sequence), bundle(0, sequence))
    broker.write(topic.name, b"not of ours")
    found = list(sinks.read(topic.spec, f"spec.sinks.{SINK}", "job"))
    expected = sorted(
        (meta, slot, sequence, payload)
        for slot in (0, 1)
        for sequence in (1, 2, 3)
        for meta, payload in decode_items(bundle(slot, sequence).items)
    )
    assert found == expected
    assert list(sinks.read(topic.spec, f"spec.sinks.{SINK}", "another job")) == []


def test_what_has_expired_cannot_be_read_back_and_that_is_said(broker: Broker) -> None:
    topic = WrittenTopic(broker, "transactional", partitioner="slot")
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1))
        worker.deliver(fence(1), bundle(0, 2))
    second = topic.records()[1][1].offset()
    assert second is not None
    broker.admin_call(lambda admin: admin.delete_records([TopicPartition(topic.name, 0, second)]))
    with pytest.raises(Corrupt, match="bundle 2 of slot 0 follows 0"):
        list(sinks.read(topic.spec, f"spec.sinks.{SINK}", "job"))
