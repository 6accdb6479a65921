"""Topics of a real broker: one that a source reads, with what it gives, and one that a sink writes."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from confluent_kafka import Message

from flamestream.connectors import sinks, sources
from flamestream.connectors.kafka.items import Place, place_in
from flamestream.core.protocol.actions import Follow, Pull
from flamestream.core.protocol.events import RecordsArrived, SourceFailed
from flamestream.model.ids import Offset, Partition, SinkName, WorkerId
from flamestream.model.payload import decode, encode_items
from flamestream.ports import Consumer, Post, Producer, Reactor
from flamestream.testing.consumer_contract import SINK
from flamestream.testing.port_driver import PortDriver
from flamestream.testing.producer_contract import FRONT, PLENTY, Front
from support.kafka_broker.topics import Kafka


class ReadTopic:
    """A topic with one partition of ten records, unless said otherwise."""

    def __init__(self, broker: Kafka, *words: str, name: str = "", partitions: int = 1, **spec: Any) -> None:
        self.broker, self.payloads = broker, list(words)
        self.name = name or broker.topic(partitions)
        self.partition = self.named(0)
        self.spec = {"kafka": {"brokers": broker.address, "topic": self.name, "discoverSeconds": 0.2, **spec}}
        self.write(*words)

    def named(self, number: int) -> Partition:
        return Partition(f"{self.name}/{number}")

    def write(self, *words: str, **settings: Any) -> None:
        self.broker.write(self.name, *(word.encode() for word in words), **settings)

    def connect(self, post: Post, reactor: Reactor) -> Producer:
        return sources.build(self.spec, FRONT, post, reactor, name="docs", job="job")

    def stop(self) -> None:
        self.broker.kill()

    def start(self) -> None:
        self.broker.start()


class Following:
    """A producer that follows the topic from `offsets`, and what it has decided and given."""

    def __init__(
        self,
        topic: ReadTopic,
        driver: PortDriver,
        offsets: dict[Partition, Offset] | None = None,
        records: int = PLENTY,
    ) -> None:
        """`records` may be given; `pull` lets the rest come."""
        self._driver = driver
        self.producer = topic.connect(driver.post, driver.reactor)
        driver.at_exit.append(self.producer.close)
        self.producer.follow(Follow(Front.fence(1), FRONT, offsets or {}))
        self.pull(records)

    def pull(self, records: int = PLENTY) -> None:
        self.producer.pull(Pull(Front.fence(1), FRONT, records, PLENTY))

    @property
    def offsets(self) -> dict[Partition, Offset]:
        """What a snapshot would have now."""
        arrived = [event for event in self._driver.events if isinstance(event, RecordsArrived)]
        return {event.partition: event.end for event in arrived if event.end is not None}

    @property
    def payloads(self) -> list[Any]:
        return [
            payload
            for event in self._driver.events
            if isinstance(event, RecordsArrived)
            for payload in event.payloads
        ]

    def wait(self, *payloads: Any) -> None:
        self._driver.until(lambda: len(self.payloads) >= len(payloads), f"{len(payloads)} records")
        assert sorted(self.payloads, key=repr) == sorted(payloads, key=repr)

    def failure(self) -> SourceFailed:
        return self._driver.take(SourceFailed)


class WrittenTopic:
    """A topic that the sink writes to, with values that can be read back."""

    def __init__(self, broker: Kafka, form: str, **more: Any) -> None:
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
        """In the order of the metas: what a delivery that was cut off lacks is written later, in another
        partition."""
        records = self.records()
        self._check_order(records)
        items = sorted(
            (place.slot, place.meta, place.sequence, decode(message.value() or b""))
            for place, message in records
        )
        bundles = groupby(items, lambda item: (item[0], item[2]))
        return [
            (slot, sequence, encode_items([(meta, value) for _, meta, _, value in of]))
            for (slot, sequence), of in bundles
        ]

    def _check_order(self, records: Sequence[tuple[Place, Message]]) -> None:
        """The promise of docs/reference/kafka.md: each partition has the items of a slot in their order, each
        once."""
        metas: dict[tuple[int, int], list[bytes]] = {}
        for place, message in sorted(records, key=lambda record: record[1].offset() or 0):
            metas.setdefault((message.partition() or 0, place.slot), []).append(place.meta)
        for (partition, slot), found in metas.items():
            assert found == sorted(set(found)), (
                f"partition {partition}, slot {slot}: not in order, or twice: {found}"
            )

    def stop(self) -> None:
        self.broker.kill()

    def start(self) -> None:
        self.broker.start()
