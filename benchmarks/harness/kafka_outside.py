"""The outside of the Kafka benchmark: a producer and a consumer, each a process of its own, on one machine's
monotonic clock.

    python benchmarks/harness/kafka_outside.py producer --brokers B --topic T --documents N --rate R --report FILE
    python benchmarks/harness/kafka_outside.py consumer --brokers B --topic T --isolation LEVEL --report FILE
             [--lines --expect N]

The producer writes document `i` at start + i / rate, whatever the engine does. The consumer stamps each
record when librdkafka gives it, and looks inside only at the end.
"""

import argparse
import json
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from harness import lines
from harness.corpus import documents

COMMON: dict[str, Any] = {"log_level": 0, "socket.nagle.disable": True}


def produce(options: argparse.Namespace) -> None:
    """All documents, on time."""
    corpus = [line.encode() for line in documents(options.documents, options.mean)]
    producer = Producer(
        {"bootstrap.servers": options.brokers, "linger.ms": 0, "enable.idempotence": True, **COMMON}
    )
    partitions = len(producer.list_topics(options.topic, 10).topics[options.topic].partitions)
    expected = [len(set(line.decode().partition("\t")[2].split())) for line in corpus]
    due: list[float] = []
    sent: list[float] = []
    print("ready", sum(expected), flush=True)
    input()
    start = time.monotonic() + 0.1
    for number, line in enumerate(corpus):
        due.append(start + number / options.rate if options.rate else time.monotonic())
        while (left := due[-1] - time.monotonic()) > 0:
            producer.poll(min(left, 0.02))
        sent.append(time.monotonic())
        while True:
            try:
                producer.produce(options.topic, line, partition=number % partitions)
                break
            except BufferError:  # only at full rate
                producer.poll(0.01)
        producer.poll(0)
    producer.flush(60)
    Path(options.report).write_text(json.dumps({"due": due, "sent": sent, "expected": expected}))
    print("sent", flush=True)


class Reading:
    """Everything that a topic gets."""

    def __init__(self, options: argparse.Namespace) -> None:
        own = {
            "group.id": "benchmark",
            "isolation.level": options.isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        self._consumer = Consumer({"bootstrap.servers": options.brokers, **own, **COMMON})
        numbers = self._consumer.list_topics(options.topic, 10).topics[options.topic].partitions
        self._consumer.assign([TopicPartition(options.topic, number, 0) for number in numbers])
        self.found: list[tuple[float, list[Message]]] = []
        self._left, self._lines = options.expect, options.lines
        self._stopped = False
        signal.signal(signal.SIGTERM, self._stop)

    def run(self) -> None:
        """Until SIGTERM."""
        while not self._stopped:
            first = self._consumer.poll(0.1)
            if first is not None and first.error() is None:
                more = self._consumer.consume(10_000, 0)
                self.found.append((time.monotonic(), [first, *more]))
                before, self._left = self._left, self._left - 1 - len(more)
                if before > 0 >= self._left:
                    print("done", flush=True)

    def _of_lines(self) -> dict[str, Any]:
        """Of records that are lines as of lines.py."""
        partitions: dict[int, list[tuple[float, bytes]]] = {}
        for when, messages in self.found:
            for message in messages:
                if message.error() is None:
                    partitions.setdefault(message.partition() or 0, []).append(
                        (when, (message.value() or b"") + b"\n")
                    )
        return lines.report(list(partitions.values())) | {"deliveries": [when for when, _ in self.found]}

    def _stop(self, _: int, __: FrameType | None) -> None:
        self._stopped = True

    def report(self) -> dict[str, Any]:
        """What job.measured wants."""
        if self._lines:
            return self._of_lines()
        last: dict[int, float] = {}
        counts: dict[int, int] = {}
        metas: dict[tuple[int, int], bytes] = {}
        disorder = 0
        for when, messages in self.found:
            for message in messages:
                document = json.loads(message.value() or b"")["document"]
                last[document] = when
                counts[document] = counts.get(document, 0) + 1
                headers: Any = message.headers()
                _, _, _, slot, _, _, meta, _ = msgspec.msgpack.decode(headers[0][1])
                place = (message.partition() or 0, slot)
                disorder += meta <= metas.get(place, b"")
                metas[place] = meta
        return {
            "last": last,
            "counts": counts,
            "deliveries": [when for when, _ in self.found],
            "disorder": disorder,
        }


def consume(options: argparse.Namespace) -> None:
    """Read, then report."""
    reading = Reading(options)
    print("ready", flush=True)
    reading.run()
    Path(options.report).write_text(json.dumps(reading.report()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("role", choices=["producer", "consumer"])
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--report", required=True)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--mean", type=int, default=250)
    parser.add_argument("--isolation", default="read_committed")
    parser.add_argument(
        "--lines", action="store_true", help="records are lines as of lines.py, not our sink's"
    )
    parser.add_argument("--expect", type=int, default=0, help="say `done` when so many have come")
    options = parser.parse_args()
    produce(options) if options.role == "producer" else consume(options)


if __name__ == "__main__":
    main()
