"""A user's topic, partition by partition, against the records that the reference's results come to.

A record says in its header which item of which slot it is, so each is looked for by that, and then compared:
its value (read as JSON, Avro, text or bytes by others' libraries), its key, its partition, and its place
among the records of its slot in that partition.

Every record without our header, or with that of another job or sink, is foreign: whoever lets others write to
the topic is told of them.

Keeps: what consumers see (committed records of a transactional topic, all of a low-latency one) up to the
ends at the start. Does not: use what the sink writes with (connectors/kafka/items.py, kafka/formats.py); know
of partitions that were added later, so a key that moved for that is misplaced. Memory: metas and payloads of
all expected items.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from flamestream.connectors.kafka.connector import KafkaSinkSpec
from flamestream.connectors.kafka.place_partitions import partition_of
from flamestream.connectors.kafka.place_values import agrees_as
from flamestream.connectors.kit.plain_values import short, value_of
from flamestream.connectors.kit.spec import function_of
from flamestream.connectors.kit.standing import ALL, Findings, Span, Wanted
from flamestream.model.decoding import from_msgpack
from flamestream.model.errors import UserError
from flamestream.model.ids import Slot
from flamestream.model.meta import LEAST, Meta
from flamestream.net.kafka.clients import Clients
from flamestream.net.kafka.failures import BrokersAway
from flamestream.net.kafka.reading import visible

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import Message

HEADER: Final = "flamestream"


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """A sink's topic, as the manifest has it."""

    spec: KafkaSinkSpec
    job: str
    sink: str

    @property
    def tag(self) -> bytes:
        """The hash of job and sink that the headers of its records begin with."""
        return hashlib.blake2b(f"{self.job}\0{self.sink}".encode(), digest_size=8).digest()

    def look(self) -> "Topic":
        """Raises UserError if the topic cannot be read."""
        clients = Clients(self.spec, f"{self.job}-{self.sink}")
        try:
            starts, messages = visible(
                clients, self.spec.topic, self.spec.form == "transactional", f"spec.sinks.{self.sink}"
            )
            return Topic(self, list(map(Record.of, messages)), starts)
        except BrokersAway as error:
            raise UserError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Record:
    """The parts of a record that are compared."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    item: list[Any] | None
    """The array in our header: tag, attempt, layout, slot, sequence, count, meta, digest; None: it has
    none."""

    @classmethod
    def of(cls, message: "Message") -> "Record":
        return cls(
            message.partition() or 0, message.offset() or 0, message.key(), message.value(), _item_of(message)
        )

    def __str__(self) -> str:
        return f"partition {self.partition}, offset {self.offset}"


@dataclass(frozen=True, slots=True)
class Topic:
    """All records, each partition's in its order; partitions between each other in any."""

    place: TopicPlace
    records: Sequence[Record]
    starts: Mapping[int, int]
    """The first offset of each partition."""

    @property
    def newest(self) -> Meta:
        """The greatest meta among the sink's own records."""
        tag = self.place.tag
        return max(
            (Meta(each.item[6]) for each in self.records if each.item and each.item[0] == tag), default=LEAST
        )

    def compared(self, wanted: Sequence[Wanted], span: Span = ALL) -> Findings:
        """Raises UserError if the reference's results cannot be records."""
        findings = Findings(f"topic {self.place.spec.topic}", len(self.records))
        for number, first in self.starts.items():
            if first:
                findings.unknown.append(
                    f"partition {number} before offset {first}: it has expired or was deleted"
                )
        comparison = _Comparison(findings, self.place, wanted, len(self.starts))
        for record in self.records:
            if not (record.item and record.item[0] == self.place.tag and record.item[6] not in span):
                comparison.add(record)
        comparison.end()
        return findings


class _Comparison:
    """The comparison of a topic, record by record."""

    def __init__(self, findings: Findings, place: TopicPlace, wanted: Sequence[Wanted], count: int) -> None:
        self._findings, self._place, self._count = findings, place, count
        self._wanted = {bytes(item.meta): item for item in wanted}
        self._there: dict[bytes, Record] = {}
        self._newest: dict[tuple[int, Slot], bytes] = {}
        where, spec, key = f"spec.sinks.{place.sink}.kafka", place.spec, place.spec.key or ""
        self._value = agrees_as(spec.value)
        self._function = (
            function_of(spec.partitioner, f"{where}.partitioner") if ":" in spec.partitioner else None
        )
        self._key: Callable[[Any], Any] | None = function_of(key, f"{where}.key") if ":" in key else None

    def add(self, record: Record) -> None:
        """The next one of its partition."""
        add, shown = self._findings.add, short(record.value)
        if record.item is None:
            add("foreign", f"{record} is a record without FlameStream's header: {shown}")
            return
        meta = record.item[6]
        if record.item[0] != self._place.tag:
            add("foreign", f"{record} is of another job or sink: {shown}")
        elif (item := self._wanted.get(meta)) is None:
            add("foreign", f"{record} is an item that the reference has not: {shown}, meta {meta.hex()}")
        elif meta in self._there:
            add("doubled", f"{record} is there already, at {self._there[meta]}: {shown}")
        else:
            self._there[meta] = record
            self._compare(item, record, record.item[3])

    def _compare(self, item: Wanted, record: Record, slot: int) -> None:
        add, shown, key = self._findings.add, short(item.payload), self._key_of(item)
        right = self._partition_of(item, key)
        if not self._agrees(record.value, item.payload):
            add("changed", f"{record} has {short(record.value)}; the reference has {shown}")
        elif record.key != key:
            add("changed", f"{record} has the key {short(record.key)}; {shown} has {short(key)}")
        elif slot != item.slot:
            add("misplaced", f"{record} says that it is of slot {slot}; {shown} is of {item.slot}")
        elif right not in (None, record.partition):
            add(
                "misplaced",
                f"{record} with the key {short(key)} belongs to partition {right} of {self._count}",
            )
        newest = self._newest.get((record.partition, item.slot), b"")
        if item.meta < newest:
            add("reordered", f"{record} is behind a later one of its slot, {self._there[newest]}: {shown}")
        self._newest[record.partition, item.slot] = max(newest, bytes(item.meta))

    def end(self) -> None:
        """Count what is missing, now that every record was added."""
        newest: dict[Slot, Meta] = {}
        for meta in self._there:
            item = self._wanted[meta]
            newest[item.slot] = max(newest.get(item.slot, item.meta), item.meta)
        for meta, item in self._wanted.items():
            if meta in self._there:
                continue
            if not item.due and item.meta > newest.get(item.slot, LEAST):
                self._findings.not_due += 1
            else:
                text = f"{short(item.payload)} of slot {item.slot} is in no partition (meta {meta.hex()})"
                self._findings.add("lost", text)

    def _agrees(self, data: bytes | None, payload: Any) -> bool:
        """None is a null value, whatever the form."""
        return data is payload if data is None or payload is None else self._value(data, payload)

    def _key_of(self, item: Wanted) -> bytes | None:
        if self._place.spec.key is None:
            return None
        found = (
            value_of(self._place.spec.key, item, self._place.sink)
            if self._key is None
            else self._key(item.payload)
        )
        return found if found is None or isinstance(found, bytes) else str(found).encode()

    def _partition_of(self, item: Wanted, key: bytes | None) -> int | None:
        if self._function is not None:
            return int(self._function(key, item.payload, self._count))
        return partition_of(self._place.spec.partitioner, key, item.slot, self._count)


def _item_of(message: "Message") -> list[Any] | None:
    """The array in our header: tag, attempt, layout, slot, sequence, count, meta, digest."""
    headers: Any = message.headers()
    for name, data in headers or ():
        if name == HEADER:
            try:
                found = from_msgpack(data)
            except (msgspec.DecodeError, TypeError):
                return None
            whole = (
                isinstance(found, list)
                and len(found) == 8
                and isinstance(found[3], int)
                and isinstance(found[6], bytes)
            )
            return found if whole else None
    return None
