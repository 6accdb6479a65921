"""Reads journalled runs of a topic again: the same records, or an error that says what is missing.

Runs are asked for in the order of their times, which hops between partitions; so each partition has a short
queue of what was fetched ahead, and is paused while that is long.

Keeps: a run is given exactly as it entered, or not at all. Does not: read anything new (kafka/source.py).
"""

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from flamestream.connectors.kafka.source_topic import checked_offset
from flamestream.core.protocol.events import Entry
from flamestream.model.errors import Corrupt
from flamestream.net.kafka.clients import Clients
from flamestream.net.kafka.failures import BrokersAway, failure_of, judged
from flamestream.net.kafka.identity import ANSWER_SECONDS

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import Consumer, Message, TopicPartition

AHEAD: Final = 20_000
"""Records fetched and not asked for yet, of one partition."""
SILENCE_SECONDS: Final = 5.0
_BATCH: Final = 500


@dataclass(slots=True)
class _Ahead:
    messages: "deque[Message]" = field(default_factory=deque)
    next: int = 0
    """Nothing below it was fetched and dropped but what the runs before had."""
    paused: bool = False


class KafkaReplay:
    """All partitions of one front. Calls block."""

    def __init__(self, clients: Clients, topic: str, isolation: str, where: str) -> None:
        self._clients, self._topic = clients, topic
        self._isolation = isolation
        self._where = f"{where}: topic {topic!r}"
        self._consumer: Consumer | None = None
        self._ahead: dict[int, _Ahead] = {}

    def read(self, number: int, entry: Entry) -> "list[Message]":
        """The records of the run. Raises Corrupt, or BrokersAway, after which the same may be asked again."""
        ahead = self._positioned(number, entry.first)
        found: list[Message] = []
        deadline = time.monotonic() + SILENCE_SECONDS
        while len(found) < entry.count:
            while ahead.messages and len(found) < entry.count:
                message = ahead.messages[0]
                offset = _offset(message)
                if offset >= entry.next:
                    raise self._missing(number, entry, len(found))
                if offset >= entry.first:
                    found.append(message)
                ahead.messages.popleft()
            if (
                len(found) < entry.count
                and not ahead.messages
                and not self._fetch(number)
                and time.monotonic() > deadline
            ):
                self._ahead.pop(number, None)
                self._check_offsets(number, entry)
                raise BrokersAway(
                    f"{self._where}, partition {number}: no answer to reading offset {entry.first} again"
                )
        ahead.next = entry.next
        return found

    def close(self) -> None:
        """Let go of the brokers: nothing more is replayed."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        self._ahead.clear()

    def _positioned(self, number: int, first: int) -> _Ahead:
        ahead = self._ahead.get(number)
        # Further on the same way: what lies between comes, or has come, and is passed over.
        if ahead is not None and ahead.next <= first:
            return ahead
        if self._consumer is None:
            self._consumer = self._clients.consumer(**{"isolation.level": self._isolation})
        self._ahead[number] = ahead = _Ahead(next=first)
        with failure_of(self._where):
            if any(place.partition == number for place in self._consumer.assignment()):
                self._consumer.incremental_unassign([self._place(number)])
            self._consumer.incremental_assign([self._place(number, first)])
        return ahead

    def _fetch(self, number: int) -> bool:
        """Whether anything came."""
        assert self._consumer is not None
        self._pause_others(number)
        with failure_of(self._where):
            first = self._consumer.poll(0.1)
            if first is None:
                return False
            messages = [first, *self._consumer.consume(_BATCH, 0)]
        for message in messages:
            place = message.partition()
            if (error := message.error()) is not None:
                failure = judged(error, f"{self._where}, partition {place}")
                if isinstance(failure, Corrupt) and place in self._ahead:
                    self._check_offsets(place, None)
                raise failure
            assert place is not None, "a record has a place"
            if place in self._ahead:
                self._ahead[place].messages.append(message)
        return True

    def _pause_others(self, number: int) -> None:
        assert self._consumer is not None
        for other, ahead in self._ahead.items():
            # The one that is asked for is never paused: its run would wait for what nobody fetches.
            full = other != number and len(ahead.messages) > AHEAD
            if full != ahead.paused:
                (self._consumer.pause if full else self._consumer.resume)([self._place(other)])
                ahead.paused = full

    def _check_offsets(self, number: int, entry: Entry | None) -> None:
        assert self._consumer is not None
        with failure_of(self._where):
            low, high = self._consumer.get_watermark_offsets(self._place(number), ANSWER_SECONDS)
        first = self._ahead[number].next if entry is None else entry.first
        checked_offset(self._where, number, first, low, high)

    def _missing(self, number: int, entry: Entry, found: int) -> Corrupt:
        return Corrupt(
            f"{self._where}, partition {number}: the run of {entry.count} records from offset {entry.first} "
            f"to before {entry.next} has "
            f"only {found} now: compaction has removed some before they were in a snapshot. Raise "
            "min.compaction.lag.ms of the topic"
        )

    def _place(self, number: int, offset: int = -1001) -> "TopicPartition":
        from confluent_kafka import TopicPartition  # an extra

        return TopicPartition(self._topic, number, offset)


def _offset(message: "Message") -> int:
    offset = message.offset()
    assert offset is not None, "a record has a place"
    return offset
