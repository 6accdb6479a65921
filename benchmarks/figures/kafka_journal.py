"""What an entry costs in a journal that is a topic, beside a bare produce and the other journals, in one run,
one after another.

    python benchmarks kafka_journal                          # the row of
                                                             docs/explanation/performance-of-parts.md
    python benchmarks kafka_journal --count 2000 --rate 100

An append is from the front's `append` to its JournalAppended, in a loop that has nothing else to do; a
produce is to its delivery report, acks=all, one record at a time. Milliseconds; the load is printed beside
them. A broker and a ZooKeeper of its own are started.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Producer
from harness.job import noise
from harness.kafka_outside import COMMON

from figures.kafka import _broker, topic
from flamestream.journal.places import JournalConfig, KafkaJournal, build
from flamestream.loop.reactor import EpollReactor
from flamestream.store.zookeeper_server import EmbeddedZooKeeper
from support.journals.worker import Worker


def produce(brokers: str) -> Callable[[int], None]:
    """A record of an entry's size, durable."""
    name, producer = (
        topic(brokers, 1),
        Producer({"bootstrap.servers": brokers, "linger.ms": 0, "enable.idempotence": True, **COMMON}),
    )

    def once(_: int) -> None:
        producer.produce(name, b"x" * 100)
        assert producer.flush(30) == 0

    return once


def append(config: JournalConfig) -> Callable[[int], None]:
    """An entry, durable."""
    loop = EpollReactor()
    worker = Worker(loop, 1, lambda post: build(config, "bench", 4, loop, post))
    worker.seal()

    def once(number: int) -> None:
        worker.ask(number + 1)
        while not worker.events:
            loop.turn()
        assert worker.events.pop() == worker.appended(number + 1), worker.events

    return once


def measured(calls: dict[str, Callable[[int], None]], rate: float, count: int, rounds: int) -> None:
    """The kinds take turns, so that noise hits all of them."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    number = 0
    for _ in range(rounds):
        for name, call in calls.items():
            due = time.monotonic()
            for place in range(count // rounds + 20):
                time.sleep(max(0.0, due - time.monotonic()))
                due += 1 / rate
                began = time.monotonic()
                call(number)
                number += 1
                if place >= 20:
                    took[name].append((time.monotonic() - began) * 1e3)
    for name, each in took.items():
        each.sort()
        row = {
            "n": len(each),
            "p50": round(each[len(each) // 2], 2),
            "p99": round(each[int(len(each) * 0.99)], 2),
        }
        print(json.dumps({"what": name, **row, **noise()}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brokers", default="")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as made,
        _broker(options.brokers) as brokers,
        EmbeddedZooKeeper(Path(made) / "zk") as zookeeper,
    ):
        calls = {
            "bare produce": produce(brokers),
            "topic": append(
                JournalConfig(kafka=KafkaJournal(brokers=brokers, topic=f"bench-{uuid4().hex[:8]}"))
            ),
            "zookeeper": append(JournalConfig(zookeeper=zookeeper.access)),
            "folder, fsync": append(JournalConfig(folder=str(Path(made) / "synced"))),
            "folder": append(JournalConfig(folder=str(Path(made) / "plain"), fsync=False)),
        }
        measured(calls, options.rate, options.count, options.rounds)


if __name__ == "__main__":
    main()
