"""Three brokers, each a controller as well: any one may be lost, and of each record two have a copy before it
counts."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from support.eventually import eventually
from support.kafka_broker import Broker
from support.kafka_broker.topics import Kafka

NUMBERS = (1, 2, 3)
TRANSACTIONS = "__transaction_state"
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "1",  # so that one broker coordinates all transactions
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "controller.quorum.fetch.timeout.ms": "1500",
    "controller.quorum.election.timeout.ms": "500",
    "replica.lag.time.max.ms": "5000",
}


class Cluster(Kafka):
    """What they keep is in folders below `folder`."""

    replicas = 3

    def __init__(self, folder: Path) -> None:
        self.brokers = {
            number: Broker(folder / str(number), SETTINGS | {"node.id": str(number)}, megabytes=256)
            for number in NUMBERS
        }
        voters = ",".join(f"{number}@{broker.control}" for number, broker in self.brokers.items())
        for broker in self.brokers.values():
            broker.more["controller.quorum.voters"] = voters

    @property
    def address(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    # --- its life -------------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Those that are down."""
        down = [broker for broker in self.brokers.values() if not broker.up]
        with ThreadPoolExecutor(len(NUMBERS)) as threads:
            list(threads.map(Broker.launch, down))

    def start(self) -> None:
        """Back when all are there, and every one has a copy of everything."""
        self.launch()
        eventually(self.whole, "the Kafka brokers are one cluster", within=120)

    def kill(self, *numbers: int) -> None:
        """These, or all, with SIGKILL; back when they are dead."""
        for number in numbers or NUMBERS:
            self.brokers[number].kill()

    def pause(self, *numbers: int) -> None:
        """These, or all."""
        for number in numbers or NUMBERS:
            self.brokers[number].pause()

    def resume(self) -> None:
        """All that live."""
        for broker in self.brokers.values():
            if broker.up:
                broker.resume()

    def leader(self, topic: str, partition: int = 0) -> int:
        """The number of the broker that leads it."""
        return eventually(
            lambda: max(0, int(self._partitions(topic)[partition].leader)),
            f"{topic}/{partition} has a leader",
        )

    @property
    def coordinator(self) -> int:
        """The number of the broker that coordinates transactions."""
        return self.leader(TRANSACTIONS)

    def _partitions(self, topic: str) -> Mapping[int, Any]:
        return self.admin().list_topics(topic, timeout=10).topics[topic].partitions

    def whole(self) -> bool:
        """All answer, and have copies of everything."""
        if not all(broker.answers() for broker in self.brokers.values()):
            return False
        try:
            found = self.admin().list_topics(timeout=5)
        except KafkaException:
            return False
        partitions = [each for topic in found.topics.values() for each in topic.partitions.values()]
        return len(found.brokers) == len(NUMBERS) and all(
            each.leader > 0 and len(each.isrs) == len(each.replicas) for each in partitions
        )

    # --- what is in it --------------------------------------------------------------------------------------

    def topic(self, partitions: int = 1, name: str = "", **settings: str) -> str:
        """Back when every broker knows it."""
        made = super().topic(partitions, name, **settings)
        up = [broker for broker in self.brokers.values() if broker.up]
        eventually(
            lambda: all(made in broker.admin().list_topics(timeout=5).topics for broker in up),
            f"topic {made} is known",
        )
        return made
