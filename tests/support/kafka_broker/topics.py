"""What is in a Kafka, whoever its brokers are: topics made, written and read for tests.

Does not: start brokers (the package, cluster.py).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

QUIET: dict[str, Any] = {"log_level": 0}


class Kafka:
    """Reached at `address`."""

    replicas = 1
    """Of topics made here."""

    @property
    def address(self) -> str:
        raise NotImplementedError

    def start(self) -> None:
        """Whatever is down; back when it answers."""
        raise NotImplementedError

    def kill(self) -> None:
        """SIGKILL, and back when it is dead."""
        raise NotImplementedError

    def pause(self) -> None:
        """It hangs: connections stay, nothing is answered."""
        raise NotImplementedError

    def resume(self) -> None:
        raise NotImplementedError

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address, **QUIET})

    def admin_call(self, call: Callable[[AdminClient], Mapping[Any, Any]]) -> None:
        """Something asked of the broker, and its answers."""
        admin = self.admin()
        for answer in call(admin).values():
            answer.result(30)

    def topic(self, partitions: int = 1, name: str = "", **settings: str) -> str:
        """A new topic; underscores in names of settings stand for dots."""
        name = name or f"topic-{uuid4().hex[:8]}"
        config = {key.replace("_", "."): value for key, value in settings.items()}
        admin = self.admin()  # kept until the answer: its end ends what it was asked
        admin.create_topics([NewTopic(name, partitions, self.replicas, config=config)])[name].result(30)
        return name

    def write(self, topic: str, *values: bytes | None, partition: int = 0, **settings: Any) -> None:
        """Durable when it returns. `settings` of `produce`."""
        producer = Producer(
            {"bootstrap.servers": self.address, "linger.ms": 0, "enable.idempotence": True, **QUIET}
        )
        errors: list[KafkaError | None] = []
        for value in values:
            producer.produce(
                topic,
                value,
                partition=partition,
                on_delivery=lambda error, _: errors.append(error),
                **settings,
            )
        assert producer.flush(30) == 0
        assert not any(errors), errors

    def read(self, topic: str, committed: bool = True, *, decided: bool = False) -> list[Message]:
        """Everything that it holds now, partition by partition.

        A commit is acknowledged before all partitions have heard of it: with `decided`, transactions under
        way are waited for.
        """
        isolation = "read_committed" if committed else "read_uncommitted"
        own = {
            "group.id": "tests",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
        consumer = Consumer(
            {
                "bootstrap.servers": self.address,
                "fetch.wait.max.ms": 10,
                "enable.auto.commit": False,
                **own,
                **QUIET,
            }
        )
        left = set(consumer.list_topics(topic, 10).topics[topic].partitions)
        ends = self._ends(topic, left) if decided else {}
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        found: dict[int, list[Message]] = {number: [] for number in left}
        while left:
            message = consumer.poll(30)
            assert message is not None, f"topic {topic} was not read to its end"
            number = message.partition()
            assert number is not None
            if (error := message.error()) is None:
                found[number].append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                offset = message.offset()
                assert offset is not None
                if offset >= ends.get(number, 0):
                    left.discard(number)
        consumer.close()
        return [message for number in sorted(found) for message in found[number]]

    def _ends(self, topic: str, numbers: Iterable[int]) -> dict[int, int]:
        own = {"group.id": "tests", "isolation.level": "read_uncommitted"}
        consumer = Consumer({"bootstrap.servers": self.address, **own, **QUIET})
        found = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), 10)[1] for number in numbers
        }
        consumer.close()
        return found
