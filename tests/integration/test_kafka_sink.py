"""The Kafka sink against a real broker: the consumer's contract in both forms, and what only Kafka can do wrong."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition

from flamestream.adapters import sinks
from flamestream.adapters.sinks.kafka_items import Place, place_in
from flamestream.core.events import SinkFailed
from flamestream.model.errors import Corrupt
from flamestream.model.ids import SinkName, WorkerId
from flamestream.model.payload import decode, decode_items, encode_items
from flamestream.ports import Consumer, Post, Reactor
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

FORMS = ["transactional", "low-latency"]


class Topic:
    """A topic that the sink writes to, with values that can be read back."""

    def __init__(self, broker: Broker, form: str, **more: Any) -> None:
        self.broker = broker
        self.name = broker.topic(3)
        self.committed = form == "transactional"
        settings = {"partitioner": "random", "value": "payload", "control": f"control-{self.name}", **more}
        self.spec = {"kafka": {"brokers": broker.address, "topic": self.name, "form": form, **settings}}

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(self.spec, SinkName(SINK), WorkerId(writer), "job", post, reactor)

    def records(self) -> list[tuple[Place, Message]]:
        """As its consumers see it."""
        found = []
        for message in self.broker.read(self.name, self.committed, decided=self.committed):
            headers: Any = message.headers()
            place = place_in(headers)
            assert place is not None
            found.append((place, message))
        return found

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        """In the order of the metas: what a delivery that was cut off lacks is written later, in another partition."""
        records = self.records()
        self._check_order(records)
        items = sorted((place.slot, place.meta, place.sequence, decode(message.value() or b"")) for place, message in records)
        bundles = groupby(items, lambda item: (item[0], item[2]))
        return [(slot, sequence, encode_items([(meta, value) for _, meta, _, value in of])) for (slot, sequence), of in bundles]

    def _check_order(self, records: Sequence[tuple[Place, Message]]) -> None:
        """The promise of docs/kafka.md: each partition has the items of a slot in their order, each once."""
        metas: dict[tuple[int, int], list[bytes]] = {}
        for place, message in sorted(records, key=lambda record: record[1].offset() or 0):
            metas.setdefault((message.partition() or 0, place.slot), []).append(place.meta)
        for (partition, slot), found in metas.items():
            assert found == sorted(set(found)), f"partition {partition}, slot {slot}: not in order, or twice: {found}"

    def stop(self) -> None:
        self.broker.kill()

    def start(self) -> None:
        self.broker.start()


BUT = {
    "check_an_item_may_be_big": "a long last item is not kept for comparison, so that records of the control topic stay small",
    "check_slots_change_their_owners": "a layout changes only with the attempt, and only that is fenced",
}
"""Checks of the kit that this sink does not pass, and why."""


@pytest.mark.parametrize("check", CONSUMER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("form", FORMS)
def test_contract(broker: Broker, form: str, check: Callable[[Outside], None]) -> None:
    if reason := BUT.get(check.__name__):
        pytest.skip(reason)
    check(Topic(broker, form))


@pytest.mark.slow  # a lone broker killed behind a commit may forget the markers of its partitions: docs/kafka.md, "A lone broker"
@pytest.mark.parametrize("form", FORMS)
def test_a_killed_broker(broker: Broker, form: str) -> None:
    check_a_killed_server_keeps_all(Topic(broker, form))


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("form", FORMS)
def test_workers_killed_at_any_moment(broker: Broker, form: str, seed: int) -> None:
    check_killed_at_any_moment(Topic(broker, form), seed, lives=4, items=200)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 20))
@pytest.mark.parametrize("form", FORMS)
def test_workers_killed_at_any_moment_for_long(broker: Broker, form: str, seed: int) -> None:
    check_killed_at_any_moment(Topic(broker, form), seed, lives=12, items=1000)


def test_readers_of_committed_records_see_low_latency_output_behind_its_commit(broker: Broker) -> None:
    topic = Topic(broker, "low-latency", commitSeconds=0.05)
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.open(fence(1), 0)
        worker.deliver(fence(1), bundle(0, 1))
        assert len(topic.records()) == 1, "at once for those who read uncommitted records"
        driver.until(lambda: len(broker.read(topic.name, committed=True)) == 1, "the commit")


def test_keys_values_and_partitions_are_the_users(broker: Broker) -> None:
    topic = Topic(broker, "transactional", value="text", key="__doc__", partitioner="slot")
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
        topic = Topic(broker, "low-latency", partitioner=partitioner)
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
    topic = Topic(broker, form)
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.open(fence(1), 0)
        worker.send(fence(1), bundle(0, 1, "x" * 2_000_000))
        failed = driver.take(SinkFailed)
    assert (failed.category, "message.max.bytes" in failed.message) == ("user", True)
    assert topic.records() == []


def test_a_payload_that_does_not_fit_the_format_fails_before_anything_is_written(broker: Broker) -> None:
    topic = Topic(broker, "transactional", value="bytes")
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.open(fence(1), 0)
        worker.send(fence(1), bundle(0, 1))
        failed = driver.take(SinkFailed)
    assert (failed.category, "value: json" in failed.message) == ("user", True)


def test_a_compacted_topic_is_refused_for_low_latency(broker: Broker) -> None:
    topic = Topic(broker, "low-latency")
    topic.spec["kafka"]["topic"] = broker.topic(1, cleanup_policy="compact")
    with PortDriver() as driver:
        worker = Worker(topic, "w1", driver)
        worker.send_open(fence(1), 0)
        failed = driver.take(SinkFailed)
    assert (failed.category, "form: transactional" in failed.message) == ("user", True)


def test_a_missing_topic_fails_with_what_to_do(broker: Broker) -> None:
    topic = Topic(broker, "transactional")
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
    topic = Topic(broker, form, value=value)
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
    topic = Topic(broker, "transactional", partitioner="slot")
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
