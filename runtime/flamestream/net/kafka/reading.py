"""Reading partitions of a topic to a known end: control topics at an opening, and the tail of an output
topic.

The end is what the partition holds when the reading begins. A reader that sees only committed records waits
until everything below that end is decided; whatever could hold it open has been fenced before, so the wait is
short, and bounded.

Keeps: it gives every visible record below the end, or raises. Does not: interpret records.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from flamestream.net.kafka.clients import Clients
from flamestream.net.kafka.failures import BrokersAway, failure_of, judged
from flamestream.net.kafka.identity import ANSWER_SECONDS, TopicIdentity

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import Consumer, Message

READ_SECONDS: Final = 60.0
_BATCH: Final = 1000


def bounds_of(
    consumer: "Consumer", topic: str, numbers: Iterable[int], where: str
) -> dict[int, tuple[int, int]]:
    """First offset and high watermark of each partition. `consumer` must read uncommitted records, else open
    transactions hide some."""
    from confluent_kafka import TopicPartition  # an extra

    with failure_of(where, f"topic {topic!r}"):
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), ANSWER_SECONDS)
            for number in numbers
        }


def visible(
    clients: Clients, topic: str, committed: bool, where: str
) -> "tuple[dict[int, int], Iterator[Message]]":
    """The first offset of each partition, and the records up to the ends of now that a consumer sees
    (`committed`: one that reads so)."""
    numbers = TopicIdentity(clients, topic, where, f"topic {topic!r}").now().partitions
    uncommitted = clients.reader("read_uncommitted")
    bounds = bounds_of(uncommitted, topic, numbers, where)
    starts, ends = ({number: bound[side] for number, bound in bounds.items()} for side in (0, 1))

    def records() -> "Iterator[Message]":
        reader = clients.reader("read_committed") if committed else uncommitted
        try:
            yield from read_to(reader, topic, starts, ends, where)
        finally:
            # A set: where all records are visible both are one consumer.
            for each in {uncommitted, reader}:
                each.close()

    return starts, records()


def read_to(
    consumer: "Consumer", topic: str, starts: Mapping[int, int], ends: Mapping[int, int], where: str
) -> "Iterator[Message]":
    """Records of the partitions from `starts` to before `ends`. `consumer` has enable.partition.eof."""
    from confluent_kafka import KafkaError, TopicPartition  # an extra

    left = {number: end for number, end in ends.items() if starts[number] < end}
    if not left:
        return
    deadline = time.monotonic() + READ_SECONDS
    with failure_of(where, f"topic {topic!r}"):
        consumer.assign([TopicPartition(topic, number, starts[number]) for number in left])
    while left:
        first = consumer.poll(0.5)
        if first is None:
            if time.monotonic() > deadline:
                raise BrokersAway(_undecided(where, topic, left, READ_SECONDS))
            continue
        for message in [first, *consumer.consume(_BATCH, 0)]:
            number, offset = message.partition(), message.offset()
            assert number is not None and offset is not None, "a message has a place"
            if (error := message.error()) is None:
                if offset < ends.get(number, 0):
                    yield message
                if offset + 1 >= ends.get(number, 0):
                    left.pop(number, None)
            # The last offsets may be markers of transactions, which nobody is given: then only this says that
            # the end is reached. Below the end it says where something undecided begins.
            elif error.code() == KafkaError._PARTITION_EOF:
                if offset >= ends.get(number, 0):
                    left.pop(number, None)
            else:
                raise judged(error, f"{where}: topic {topic!r}, partition {number}")
    consumer.unassign()


def _undecided(where: str, topic: str, left: Mapping[int, int], seconds: float) -> str:
    ends = ", ".join(f"partition {number} before offset {end}" for number, end in sorted(left.items()))
    return (
        f"{where}: topic {topic!r} was not read to its end within {seconds:g} s ({ends}): the brokers are "
        "slow, or hold a transaction that they never decide; kafka-transactions.sh find-hanging names such"
    )
