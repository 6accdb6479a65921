"""The outside of a run between topics: a producer that keeps a schedule, and a consumer, each a process of
its own, on one machine's clock.

    python -m rtm.outside producer --brokers B --topic T --rate R --report FILE
    python -m rtm.outside consumer --brokers B --topic T --isolation LEVEL --report FILE

Both run until SIGTERM, then write what they saw. The producer sends a pilot, whose result says that the
system has started, and begins at the line `go`; a record's key is its user, so that a user's records keep
their order. The consumer says `first` at the first result. It looks inside only at the end.
"""

import argparse
import json
import signal
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from harness.kafka_outside import COMMON
from harness.results import percentile

from rtm.records import PILOT, Schedule, pilot


def produce(options: argparse.Namespace, stopped: threading.Event) -> None:
    """Records when they are due."""
    producer = Producer({"bootstrap.servers": options.brokers, "linger.ms": 0, "acks": "all", **COMMON})
    producer.produce(options.topic, pilot(time.time()), PILOT)
    assert producer.flush(60) == 0, "the broker did not take the pilot"
    print("ready", flush=True)
    input()
    schedule, number, late = Schedule(time.time() + 0.1, options.rate), 0, list[float]()
    while not stopped.is_set():
        while (left := schedule.due(number) - time.time()) > 0:
            time.sleep(left)  # the client's own waits are of whole milliseconds: it would spin
        late.append(-left * 1000)
        key = str(schedule.fields(number)["user"])
        producer.produce(options.topic, schedule.value(number), key)
        producer.poll(0)
        number += 1
    assert producer.flush(60) == 0, "the broker did not take all records"
    sent = {"start": schedule.start, "count": number, "late_p99_ms": round(percentile(late, 99), 2)}
    Path(options.report).write_text(json.dumps(sent))


def consume(options: argparse.Namespace, stopped: threading.Event) -> None:
    """All results of the topic's partition."""
    own = {"group.id": "rtm", "isolation.level": options.isolation, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": options.brokers, **own, **COMMON})
    consumer.assign([TopicPartition(options.topic, 0, 0)])
    found: list[tuple[float, Message]] = []
    print("ready", flush=True)
    while not stopped.is_set():
        if (message := consumer.poll(0.1)) is None:
            continue
        if not found:
            print("first", flush=True)
        messages, when = [message, *consumer.consume(1000, 0)], time.time()
        found += [(when, each) for each in messages if each.error() is None]
    rows = [
        [when, message.timestamp()[1] / 1000, json.loads(message.value() or b"")] for when, message in found
    ]
    Path(options.report).write_text(json.dumps(rows))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("role", choices=["producer", "consumer"])
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--report", required=True)
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--isolation", default="read_committed")
    options = parser.parse_args()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    produce(options, stopped) if options.role == "producer" else consume(options, stopped)


if __name__ == "__main__":
    main()
