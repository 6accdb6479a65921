"""A source that is a Kafka topic: its partitions are those of a journalled front, or of several that share
them.

In which order the partitions' records enter is a matter of chance, so each run's place is journalled, and a
replay reads the same offsets again. The broker's timestamp is a hint and no more: one that goes back, or lies
far ahead, moves no time of ours.

A record that is not of its format becomes an error value at its place, and the job's `onError` decides.
Records are polled by a thread of the front's own, because waiting for the next one is all it does.

Keeps: every record that the isolation level shows is given once, in the order of its partition. Does not:
begin where a consumer group says (positions are in the journal and in the job's snapshots), or decide where a
partition begins (kafka/source_topic.py).
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from flamestream.connectors.kafka.connector import KafkaSourceSpec
from flamestream.connectors.kafka.formats import decoder_of
from flamestream.connectors.kafka.group import Group
from flamestream.connectors.kafka.replay import KafkaReplay
from flamestream.connectors.kafka.source_topic import KafkaTopic
from flamestream.connectors.kit.contexts import context_in
from flamestream.connectors.kit.producer import Chunk, error_item
from flamestream.core.protocol.events import Entry
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.ids import Offset, Partition
from flamestream.model.records import KafkaRecord
from flamestream.model.time import Timestamp
from flamestream.net.kafka.clients import Clients
from flamestream.net.kafka.failures import failure_of, judged

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import Consumer, Message

POLL_SECONDS: Final = 0.02
"""The longest that a recovery waits for the thread that polls."""
GATHER_SECONDS: Final = 0.005
"""Behind records that were given, the next wait so long for others: a run for each record costs more time
than it saves at some hundred a second. A record that comes alone waits for nothing."""
GATHERED: Final[Mapping[str, object]] = {
    "queued.min.messages": 1,
    "fetch.queue.backoff.ms": round(GATHER_SECONDS * 1000),
}
"""The broker is asked for more so long behind what it gave, for what it gives meanwhile waits here as well.
Else it is asked at almost each record, which costs the broker more than us (decision 063)."""


class KafkaReader:
    """`connectors.kit.producer.Reader`."""

    ended = False
    idle_seconds = 0.0

    def __init__(
        self, spec: KafkaSourceSpec, share: int, source: str, job: str, *, traced: bool = False
    ) -> None:
        """`traced`: whether to read the contexts among the headers of records."""
        self._traced = traced
        self._read_contexts: dict[int, str] | None = None
        self._where = f"source {source}"
        self._spec = spec
        self._clients = Clients(spec, f"{job}-{source}")
        self._topic = KafkaTopic(
            self._clients, spec.topic, spec.start_offset(), share, spec.readers, self._where
        )
        self._replay = KafkaReplay(self._clients, spec.topic, spec.isolation, self._where)
        self._payload = _Payloads(spec, source)
        self._group = Group(spec.group)
        self._consumer: Consumer | None = None
        self._next: dict[int, int] = {}
        """The offset behind what was given, of each partition that is assigned."""
        self._decided: list[Chunk] = []
        self._polled: deque[Message] = deque()
        self._gave_at = 0.0
        self._look_at = 0.0

    @property
    def problem(self) -> str:
        return self._clients.problem or self._group.problem

    def seek(self, offsets: Mapping[Partition, Offset]) -> None:
        """Assign the partitions. Raises Corrupt if the next record of one is gone, BrokersAway to be called
        again."""
        self._replay.close()
        self.close()
        own = {"isolation.level": self._spec.isolation, **self._group.settings()}
        self._consumer = self._clients.consumer(GATHERED, **own)
        self._next, self._decided = self._topic.beginnings(self._consumer, offsets)
        self._clients.works()
        self._assign(self._next)
        self._look_at = time.monotonic() + self._spec.discover_seconds

    def next(self, records: int, size: int) -> Sequence[Chunk]:
        """The records that have arrived, waiting a little for the first."""
        assert self._consumer is not None, "seek comes first"
        self._discover()
        decided, self._decided = self._decided, []
        if not self._polled:
            with failure_of(self._where):
                first = self._consumer.poll(0 if decided else POLL_SECONDS)
                if first is None:
                    return decided
                self._clients.works()
                if not decided:
                    time.sleep(max(0.0, self._gave_at + GATHER_SECONDS - time.monotonic()))
                # What librdkafka has fetched already is taken without another wait.
                self._polled.extend([first, *self._consumer.consume(records - 1, 0)])
                # As many as were asked for: there are more, and they need not gather.
                self._gave_at = time.monotonic() if len(self._polled) < records else 0.0
        return decided + self._chunks(may_raise=not decided)

    def read(self, entry: Entry) -> list[object]:
        """A journalled run, again."""
        self._read_contexts = {} if self._traced else None
        if not entry.count:
            return []
        found = self._replay.read(self._topic.number(entry.partition), entry)
        if self._read_contexts is not None:
            contexts = [context_in(message.headers()) for message in found]
            self._read_contexts = {place: given for place, given in enumerate(contexts) if given}
        return [self._payload.of(message) for message in found]

    def contexts(self) -> Mapping[int, str] | None:
        """The contexts of the run that was read again last."""
        return self._read_contexts

    def commit(self, offsets: Mapping[Partition, Offset]) -> None:
        """Tell the group how far epochs have come, and wait for nobody."""
        if self._consumer is not None:
            self._group.commit(self._consumer, self._topic.places(offsets))

    def close(self) -> None:
        """Let go of the brokers; `seek` begins anew."""
        self._replay.close()
        self._polled.clear()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _assign(self, begins: Mapping[int, int]) -> None:
        from confluent_kafka import TopicPartition  # an extra

        assert self._consumer is not None
        self._consumer.incremental_assign(
            [TopicPartition(self._spec.topic, number, offset) for number, offset in begins.items()]
        )

    def _discover(self) -> None:
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + self._spec.discover_seconds
            self._topic.look()
        if appeared := self._topic.appeared(self._next):
            self._decided += appeared.values()
            self._next |= dict.fromkeys(appeared, 0)
            self._assign(dict.fromkeys(appeared, 0))

    def _chunks(self, may_raise: bool) -> list[Chunk]:
        """A chunk for each partition, of what was polled. What raises stays polled, so that nothing is lost
        by a call that fails."""
        chunks: dict[int, Chunk] = {}
        while self._polled:
            message = self._polled[0]
            if (error := message.error()) is not None:
                if chunks or not may_raise:
                    break
                self._polled.popleft()
                raise self._judged(error, message.partition())
            try:
                payload = self._payload.of(message)
            except (OSError, UserError):
                if chunks or not may_raise:
                    break
                raise
            self._add(chunks, self._polled.popleft(), payload)
        return list(chunks.values())

    def _add(self, chunks: dict[int, Chunk], message: "Message", payload: object) -> None:
        number, offset = message.partition(), message.offset()
        assert number is not None and offset is not None, "a message has a place"
        chunk = chunks.get(number)
        if chunk is None:
            hint = Timestamp(max(0, message.timestamp()[1]) * 1000)
            chunk = chunks[number] = Chunk(
                self._topic.partition(number), Offset(self._next[number]), [], [], [], hint
            )
        assert chunk.ends is not None, "offsets of Kafka have gaps"
        if self._traced and (context := context_in(message.headers())) is not None:
            chunk.traces = chunk.traces or {}
            chunk.traces[len(chunk.payloads)] = context
        chunk.payloads.append(payload)
        chunk.sizes.append(len(message) + 1)
        chunk.ends.append(Offset(offset + 1))
        self._next[number] = offset + 1

    def _judged(self, error: Any, number: int | None) -> Exception:
        """Offsets that are gone: say which. Everything else is as it is; seeking anew finds the place
        again."""
        failure = judged(error, f"{self._where}: topic {self._spec.topic!r}, partition {number}")
        if isinstance(failure, Corrupt) and self._consumer is not None:
            offsets = {self._topic.partition(each): Offset(offset) for each, offset in self._next.items()}
            self._topic.beginnings(self._consumer, offsets)
        return failure


class _Payloads:
    """The payload that a message is to the graph."""

    def __init__(self, spec: KafkaSourceSpec, source: str) -> None:
        self._topic, self._full = spec.topic, spec.record == "full"
        self._value, self._key = decoder_of(spec.value), decoder_of(spec.key)
        self._source = source

    def of(self, message: "Message") -> object:
        """Payload of a message; an error value if it is not of the format. Raises BrokersAway if a schema
        cannot be asked for now."""
        part = "value"
        try:
            value = self._decoded(message.value(), self._value)
            if not self._full:
                return value
            part = "key"
            return self._record(message, self._decoded(message.key(), self._key), value)
        except ValueError as error:
            place = (
                f"topic {self._topic!r}, partition {message.partition()}, offset {message.offset()}: the "
                f"{part}: {error}"
            )
            return error_item(self._source, "BadRecord", place)

    @staticmethod
    def _decoded(data: bytes | None, decode: Callable[[bytes], Any]) -> object:
        return None if data is None else decode(data)

    def _record(self, message: "Message", key: object, value: object) -> KafkaRecord:
        headers: Any = message.headers() or ()
        number, offset = message.partition(), message.offset()
        assert number is not None and offset is not None, "a message has a place"
        return KafkaRecord(
            self._topic,
            number,
            offset,
            message.timestamp()[1],
            key,
            value,
            tuple((name, given) for name, given in headers),
        )
