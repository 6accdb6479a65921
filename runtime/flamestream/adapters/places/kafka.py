"""A user's topic, partition by partition, against the records that the reference's results come to.

A record says in its header which item of which slot it is, so each is looked for by that, and then compared:
its value (read as JSON, Avro, text or bytes by others' libraries), its key, its partition, and its place
among the records of its slot in that partition.

Every record without our header, or with that of another job or sink, is foreign: whoever lets others write to
the topic is told of them.

Keeps: what consumers see (committed records of a transactional topic, all of a low-latency one) up to the
ends at the start. Does not: use what the sink writes with (sinks/kafka_items.py, kafka/formats.py); know of
partitions that were added later, so a key that moved for that is misplaced. Memory: metas and payloads of all
expected items.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from flamestream.adapters.kafka.clients import Clients, KafkaAccess
from flamestream.adapters.kafka.failures import BrokersAway
from flamestream.adapters.kafka.identity import TopicIdentity
from flamestream.adapters.kafka.reading import bounds_of, read_to
from flamestream.adapters.places.partitions import partition_of
from flamestream.adapters.places.plain import short
from flamestream.adapters.places.sources import Wanted, value_of
from flamestream.adapters.places.standing import Findings
from flamestream.adapters.places.values import agrees_as
from flamestream.adapters.spec import function_of
from flamestream.model.errors import UserError
from flamestream.model.ids import Slot
from flamestream.model.meta import LEAST, Meta

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import Message

HEADER: Final = "flamestream"


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """A sink's topic, as the manifest has it."""

    access: KafkaAccess
    topic: str
    committed: bool
    """Whether its consumers read committed records only."""
    value: Any
    """Its form: `json`, ..."""
    key: str | None
    partitioner: str
    job: str
    sink: str

    def compared(self, wanted: Sequence[Wanted]) -> Findings:
        """Raises UserError if the topic cannot be read."""
        where = f"spec.sinks.{self.sink}"
        clients = Clients(self.access, f"{self.job}-{self.sink}")
        try:
            count = len(TopicIdentity(clients, self.topic, where, f"topic {self.topic!r}").now().partitions)
            comparison = _Comparison(self, wanted, count, where)
            for message in self._messages(clients, count, where, comparison.findings):
                comparison.add(message)
        except BrokersAway as error:
            raise UserError(str(error)) from error
        return comparison.ended()

    def _messages(self, clients: Clients, count: int, where: str, findings: Findings) -> "Iterator[Message]":
        uncommitted = clients.reader("read_uncommitted")
        reader = clients.reader("read_committed") if self.committed else uncommitted
        try:
            bounds = bounds_of(uncommitted, self.topic, range(count), where)
            for number, (first, _) in bounds.items():
                if first:
                    findings.unknown.append(f"partition {number} before offset {first}: it has expired or was deleted")
            starts, ends = ({number: bound[side] for number, bound in bounds.items()} for side in (0, 1))
            yield from read_to(reader, self.topic, starts, ends, where)
        finally:
            for each in {uncommitted, reader}:
                each.close()


class _Comparison:
    """Records as they come: partitions between each other in any order."""

    def __init__(self, place: TopicPlace, wanted: Sequence[Wanted], count: int, where: str) -> None:
        self.findings = Findings(f"topic {place.topic}")
        self._place, self._count = place, count
        self._value = agrees_as(place.value)
        self._tag = hashlib.blake2b(f"{place.job}\0{place.sink}".encode(), digest_size=8).digest()
        self._wanted = {bytes(item.meta): item for item in wanted}
        self._there: dict[bytes, str] = {}
        self._newest: dict[tuple[int, Slot], bytes] = {}
        self._function = function_of(place.partitioner, f"{where}.partitioner") if ":" in place.partitioner else None
        self._key: Callable[[Any], Any] | None = function_of(place.key, f"{where}.key") if place.key and ":" in place.key else None

    def add(self, message: "Message") -> None:
        """The next record of its partition."""
        findings = self.findings
        findings.stands += 1
        text = f"partition {message.partition()}, offset {message.offset()}"
        place = _place_of(message)
        if place is None:
            findings.add("foreign", f"{text} is a record without FlameStream's header: {short(message.value())}")
        elif place[0] != self._tag:
            findings.add("foreign", f"{text} is of another job or sink: {short(message.value())}")
        elif (item := self._wanted.get(place[6])) is None:
            findings.add(
                "foreign",
                f"{text} is an item that the reference has not: {short(message.value())}, meta {place[6].hex()}",
            )
        elif place[6] in self._there:
            findings.add("doubled", f"{text} is there already, at {self._there[place[6]]}: {short(message.value())}")
        else:
            self._there[place[6]] = text
            self._compare(item, int(place[3]), message, text)

    def _compare(self, item: Wanted, slot: int, message: "Message", text: str) -> None:
        findings, number = self.findings, message.partition() or 0
        if not self._agrees(message.value(), item.payload):
            findings.add("changed", f"{text} has {short(message.value())}; the reference has {short(item.payload)}")
        key = self._key_of(item)
        if message.key() != key:
            findings.add(
                "changed",
                f"{text} has the key {short(message.key())}; {short(item.payload)} has {short(key)}",
            )
        if slot != item.slot:
            findings.add("misplaced", f"{text} says that it is of slot {slot}; {short(item.payload)} is of {item.slot}")
        right = self._partition_of(item, key)
        if right not in (None, number):
            findings.add("misplaced", f"{text} with the key {short(key)} belongs to partition {right} of {self._count}")
        newest = self._newest.get((number, item.slot), b"")
        if item.meta < newest:
            findings.add(
                "reordered",
                f"{text} is behind a later one of its slot, {self._there[newest]}: {short(item.payload)}",
            )
        self._newest[number, item.slot] = max(newest, bytes(item.meta))

    def ended(self) -> Findings:
        """All was read."""
        newest: dict[Slot, Meta] = {}
        for meta in self._there:
            item = self._wanted[meta]
            newest[item.slot] = max(newest.get(item.slot, item.meta), item.meta)
        for meta, item in self._wanted.items():
            if meta in self._there:
                continue
            if not item.due and item.meta > newest.get(item.slot, LEAST):
                self.findings.not_due += 1
            else:
                self.findings.add(
                    "lost",
                    f"{short(item.payload)} of slot {item.slot} is in no partition (meta {meta.hex()})",
                )
        return self.findings

    def _agrees(self, data: bytes | None, payload: Any) -> bool:
        """None is a null value, whatever the form."""
        return data is payload if data is None or payload is None else self._value(data, payload)

    def _key_of(self, item: Wanted) -> bytes | None:
        if self._place.key is None:
            return None
        found = value_of(self._place.key, item, self._place.sink) if self._key is None else self._key(item.payload)
        return found if found is None or isinstance(found, bytes) else str(found).encode()

    def _partition_of(self, item: Wanted, key: bytes | None) -> int | None:
        if self._function is not None:
            return int(self._function(key, item.payload, self._count))
        return partition_of(self._place.partitioner, key, item.slot, self._count)


def _place_of(message: "Message") -> list[Any] | None:
    """The array in our header: tag, attempt, layout, slot, sequence, count, meta, digest."""
    headers: Any = message.headers()
    for name, data in headers or ():
        if name == HEADER:
            try:
                found = msgspec.msgpack.decode(data)
            except (msgspec.DecodeError, TypeError):
                return None
            whole = isinstance(found, list) and len(found) == 8 and isinstance(found[3], int) and isinstance(found[6], bytes)
            return found if whole else None
    return None
