"""A topic as a source sees it: its identity, its partitions, and where reading begins.

Where a partition begins is decided once, at the job's first start, and journalled (as runs without records)
before anything of it is read; so a crash in between, a later start and a new partition all find what was
decided:

- a partition with an offset goes on there;
- one without an offset begins as `start` says, until the topic's mark is in the journal behind the beginnings
  of all partitions;
- one that appears later begins at its first record.

The mark is a note beside the partitions (model/ids.py), named after the topic's id. A topic that was deleted
and created again has another id, and offsets that mean other records: that is an error, never a silent jump.

Keeps: no record between what was read and what is read next is passed over in silence. Does not: read records
(kafka/source.py).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from flamestream.connectors.kit.producer import Chunk
from flamestream.model.errors import Corrupt
from flamestream.model.ids import NOTE, Offset, Partition
from flamestream.net.kafka.clients import Clients
from flamestream.net.kafka.failures import failure_of
from flamestream.net.kafka.identity import ANSWER_SECONDS, Described, TopicIdentity

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import Consumer, TopicPartition

_MARK: Final = "topic-id "
EARLIEST: Final = -2
LATEST: Final = -1


class KafkaTopic:
    """`share` of `shares`: the front has the partitions whose number leaves `share` when divided by
    `shares`."""

    def __init__(self, clients: Clients, topic: str, start: int, share: int, shares: int, where: str) -> None:
        self.name = topic
        self._start = start
        """EARLIEST, LATEST, or milliseconds since 1970."""
        self._share, self._shares = share, shares
        self._where = f"{where}: topic {topic!r}"
        self._identity = TopicIdentity(clients, topic, self._where)
        self._id = ""

    def partition(self, number: int) -> Partition:
        """The partition as runs, messages and positions name it."""
        return Partition(f"{self.name}/{number}")

    def number(self, partition: Partition) -> int:
        """The number of a partition that `partition` has named."""
        return int(partition.rpartition("/")[2])

    def places(self, offsets: Mapping[Partition, Offset]) -> "list[TopicPartition]":
        """The offsets as the client has them, without our notes."""
        from confluent_kafka import TopicPartition  # an extra

        return [
            TopicPartition(self.name, self.number(partition), offset)
            for partition, offset in offsets.items()
            if not _id_in(partition)
        ]

    # --- at a start -----------------------------------------------------------------------------------------

    def beginnings(
        self, consumer: "Consumer", offsets: Mapping[Partition, Offset]
    ) -> tuple[dict[int, int], list[Chunk]]:
        """The offset to read each partition from, and the decisions that are new. Raises Corrupt if what
        comes next is not there."""
        described = self._identity.now()
        self._id, numbers = described.id, self._own(described)
        self._check_identity(offsets, numbers)
        begins: dict[int, int] = {}
        decided: list[Chunk] = []
        for number in numbers:
            given = offsets.get(self.partition(number))
            if given is None:
                begins[number] = self._first(
                    consumer, number, EARLIEST if self._mark in offsets else self._start
                )
                decided.append(_beginning(self.partition(number), begins[number]))
            else:
                begins[number] = self._still_there(consumer, number, given)
        if self._mark not in offsets:
            # Behind the beginnings: while it lacks, a start that was cut off decides the rest of them anew.
            decided.append(_beginning(self._mark, 1))
        return begins, decided

    @property
    def _mark(self) -> Partition:
        return Partition(NOTE + _MARK + self._id)

    def _check_identity(self, offsets: Mapping[Partition, Offset], numbers: list[int]) -> None:
        for known in offsets:
            if (its := _id_in(known)) and its != self._id:
                raise Corrupt(
                    f"{self._where} was deleted and created again (its id was {its}, "
                    f"now {self._id}): the offsets read so far mean nothing in it. Restore the old topic, "
                    "or begin anew (`flamestream reset`)"
                )
            if not its and self.number(known) not in numbers:
                raise Corrupt(
                    f"{self._where}: partition {self.number(known)}, read up to offset {offsets[known]}, is "
                    "gone; restore the topic"
                )

    def _first(self, consumer: "Consumer", number: int, start: int) -> int:
        from confluent_kafka import TopicPartition  # an extra

        with failure_of(self._where):
            low, high = consumer.get_watermark_offsets(TopicPartition(self.name, number), ANSWER_SECONDS)
            if start == EARLIEST:
                return low
            if start == LATEST:
                return high
            (found,) = consumer.offsets_for_times([TopicPartition(self.name, number, start)], ANSWER_SECONDS)
        # -1: every record is older than that.
        return found.offset if found.offset >= 0 else high

    def _still_there(self, consumer: "Consumer", number: int, offset: int) -> int:
        from confluent_kafka import TopicPartition  # an extra

        with failure_of(self._where):
            low, high = consumer.get_watermark_offsets(TopicPartition(self.name, number), ANSWER_SECONDS)
        return checked_offset(self._where, number, offset, low, high)

    # --- while it runs --------------------------------------------------------------------------------------

    def look(self) -> None:
        """Ask for new partitions; `appeared` has the answer later."""
        self._identity.look()

    def appeared(self, known: Mapping[int, int]) -> dict[int, Chunk]:
        """Partitions that are new since, and the decision where each begins. An answer that does not come is
        asked for again."""
        if (seen := self._identity.seen()) is None:
            return {}
        if seen.id != self._id:
            raise Corrupt(
                f"{self._where} was deleted and created again while it was read; "
                "begin anew (`flamestream reset`)"
            )
        return {
            number: _beginning(self.partition(number), 0) for number in self._own(seen) if number not in known
        }

    def _own(self, described: Described) -> list[int]:
        return [number for number in described.partitions if number % self._shares == self._share]


def checked_offset(where: str, number: int, offset: int, low: int, high: int) -> int:
    """`offset`, if the partition still goes on there. Raises Corrupt that says what is lost."""
    if offset < low:
        raise Corrupt(
            f"{where}, partition {number}: the next record is at offset {offset}, but the broker has deleted "
            f"everything below {low}: "
            f"{low - offset} offsets are lost to retention. Restore them, or begin anew (`flamestream "
            "reset`); and raise retention.ms"
        )
    if offset > high:
        raise Corrupt(
            f"{where}, partition {number}: the next record is at offset {offset}, but the partition ends at "
            f"{high}: it has lost "
            f"{offset - high} offsets that were read already (an unclean election, or a topic created "
            "again). Restore the topic"
        )
    return offset


def _beginning(partition: Partition, offset: int) -> Chunk:
    return Chunk(partition, Offset(offset), [], [], [])


def _id_in(partition: Partition) -> str:
    """The topic's id in a mark, also in one of before notes had names of their own; "": it is none."""
    name = partition.removeprefix(NOTE)
    return name.removeprefix(_MARK) if name.startswith(_MARK) else ""
