"""The kafka kinds of a manifest: a topic that is read, and one that is written (docs/reference/kafka.md).

Does not: import confluent-kafka before it is used: it is an extra.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from flamestream.connectors.kafka.formats import AvroFormat, Format
from flamestream.connectors.kafka.source_topic import EARLIEST, LATEST
from flamestream.connectors.kit import connector as kit
from flamestream.connectors.kit.producer import ServerProducer
from flamestream.connectors.kit.standing import Place
from flamestream.fenced.reading import Item, Written
from flamestream.model.payloads.registry import name_of_type
from flamestream.model.records import KafkaRecord
from flamestream.net.kafka.clients import KafkaAccess, require_package, with_absolute_files
from flamestream.ports import Consumer, Producer

PARTITIONERS: Final = (
    "consistent_random",
    "consistent",
    "murmur2_random",
    "murmur2",
    "fnv1a_random",
    "fnv1a",
    "random",
)
_COMMIT_SECONDS: Final = 2.0


class KafkaSourceSpec(KafkaAccess, kit.SourceSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`{kafka: {brokers: ..., topic: ...}}` of a source."""

    topic: str
    """An existing topic."""
    start: str = "earliest"
    """earliest, latest, or an ISO 8601 time with its offset: where the first start of the job begins."""
    value: Format = "text"
    """text, bytes, json, payload, or {avro: {...}}: what a value is read as."""
    key: Format = "text"
    """Only used with `record: full`."""
    record: Literal["value", "full"] = "value"
    """A record is the value, or an fs.KafkaRecord with topic, partition, offset, time, key, value and
    headers."""
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    """Whether records of open and aborted transactions are read."""
    readers: int = 1
    """Fronts that share the partitions, so that several workers read."""
    group: str | None = None
    """A consumer group whose offsets follow the committed epochs, for tools that show lag. The job itself never
    reads them."""
    discover_seconds: float = msgspec.field(default=5.0, name="discoverSeconds")
    """Seconds between two looks for new partitions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.start_offset()
        if not 1 <= self.readers <= 64:
            raise ValueError("`readers` is from 1 to 64, and no more than the topic has partitions")
        if self.group == "":
            raise ValueError("`group` is the name of a consumer group, or left out")
        if self.group is not None and "group.id" in self.settings:
            raise ValueError("`group` and `settings: {group.id: ...}` are two names of one group: remove one")
        if not self.discover_seconds > 0:
            raise ValueError("`discoverSeconds` must be above 0")
        if self.key != "text" and self.record != "full":
            raise ValueError("`key` is of `record: full`: with `record: value` no key is read")
        for name, form in (("value", self.value), ("key", self.key)):
            if (
                isinstance(form, AvroFormat)
                and form.avro.registry is not None
                and (form.avro.schema or form.avro.subject)
            ):
                raise ValueError(
                    f"`{name}`: a source takes each schema from the registry: remove `schema` and `subject`"
                )

    def start_offset(self) -> int:
        """EARLIEST, LATEST or milliseconds since 1970. Raises ValueError."""
        if self.start in ("earliest", "latest"):
            return EARLIEST if self.start == "earliest" else LATEST
        try:
            at = datetime.fromisoformat(self.start)
        except ValueError:
            raise ValueError(
                f"`start` is earliest, latest or a time like 2026-01-31T12:00:00+00:00, not {self.start!r}"
            ) from None
        if at.tzinfo is None:
            raise ValueError(f"`start` needs the offset of its time zone, like {self.start}+00:00")
        return int(at.timestamp() * 1000)

    @classmethod
    def placed(cls, settings: dict[str, Any], folder: Path) -> Any:
        return with_absolute_files(settings, folder)

    def traits(self, where: str) -> kit.SourceTraits:
        require_package(where)
        return kit.SourceTraits(
            timed=False, run_length=0, replayable=True, bounded=False, fronts=self.readers
        )

    def producer(self, context: kit.SourceContext) -> Producer:
        from flamestream.connectors.kafka.group import GroupProducer
        from flamestream.connectors.kafka.source import KafkaReader

        reader = KafkaReader(self, context.share, context.name, context.job, traced=context.traced)
        made = GroupProducer if self.group is not None else ServerProducer
        return made(reader, context.front, context.post, context.reactor)

    def gives(self) -> kit.Gives:
        if self.record == "full":
            return kit.Gives(name_of_type(KafkaRecord))
        return kit.Gives(maps=isinstance(self.value, AvroFormat) or self.value == "json")


class KafkaSinkSpec(KafkaAccess, kit.SinkSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`{kafka: {brokers: ..., topic: ...}}` of a sink."""

    reads_back = True
    topic: str
    """An existing topic."""
    form: Literal["transactional", "low-latency"] = "transactional"
    """Whether consumers see items when their transaction is committed, or at once."""
    value: Format = "json"
    """text, bytes, json, payload, or {avro: {...}}: what a result is written as."""
    key: str | None = None
    """A field of the payload, or a function `module:name` of it."""
    partitioner: str = "murmur2_random"
    """A partitioner of librdkafka's, `slot`, or a function `module:name` of key, payload and number of
    partitions."""
    control: str | None = None
    """The control topic; None: flamestream.JOB.SINK. Created if it is not there."""
    commit_seconds: float = msgspec.field(default=_COMMIT_SECONDS, name="commitSeconds")
    """low-latency: the longest that a transaction is open."""
    traceparent: bool = False
    """Whether a result of a traced record has a header that says where its trace goes on."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.partitioner not in (*PARTITIONERS, "slot") and ":" not in self.partitioner:
            raise ValueError(
                f"`partitioner` is one of {', '.join(PARTITIONERS)}, slot, or module:function, not "
                f"{self.partitioner!r}"
            )
        if not 0 < self.commit_seconds <= 10:
            raise ValueError("`commitSeconds` is above 0 and at most 10")
        if self.form == "transactional" and self.commit_seconds != _COMMIT_SECONDS:
            raise ValueError(
                "`commitSeconds` is of `form: low-latency`: a transactional sink commits with every delivery"
            )

    @classmethod
    def placed(cls, settings: dict[str, Any], folder: Path) -> Any:
        return with_absolute_files(settings, folder)

    def traits(self, where: str) -> kit.SinkTraits:
        require_package(where)
        return kit.SinkTraits(True)

    def consumer(self, context: kit.SinkContext) -> Consumer:
        from flamestream.connectors.kafka.sink import KafkaConsumer

        return KafkaConsumer(self, context.name, context.writer, context.job, context.post, context.reactor)

    def read(self, where: str, job: str, sink: str) -> Iterator[Item]:
        from flamestream.connectors.kafka.reading import read_topic

        return read_topic(self, job, where)

    def moments(self, where: str, job: str, sink: str) -> Iterator[Written]:
        from flamestream.connectors.kafka.reading import read_moments

        return read_moments(self, job, where)

    def in_order(self) -> bool:
        return False

    def place(self, job: str, sink: str) -> Place:
        from flamestream.connectors.kafka.place import TopicPlace

        return TopicPlace(self, job, sink)


KAFKA: Final = kit.Connector("kafka", KafkaSourceSpec, KafkaSinkSpec)
