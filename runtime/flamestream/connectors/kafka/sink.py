"""A sink that is a Kafka topic, in two forms.

| form          | acknowledged when            | consumers read              | between two commits                 |
|---------------|------------------------------|-----------------------------|-------------------------------------|
| transactional | its transaction is committed | `isolation.level` committed | nothing                             |
| low-latency   | its records are in the log   | uncommitted                 | records that they see at once       |

In both, every item is in the topic once for consumers that read so, and a replaced worker can write nothing more (kafka/writing.py says
why).

Keeps: one delivery is under way, by a thread of the sink's own. Does not: create the topic, or know what items are.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from flamestream.connectors.kafka.control import ControlTopic
from flamestream.connectors.kafka.formats import Format
from flamestream.connectors.kafka.items import Records
from flamestream.connectors.kafka.sink_topics import WrittenTopics
from flamestream.connectors.kafka.writing import KafkaOutput, KafkaWriting
from flamestream.core.protocol.actions import Deliver, OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, Event, SinkFailed, SinkFenced, SinkOpened
from flamestream.loop.background import Queue, Threads
from flamestream.model.errors import Fenced, FlameStreamError
from flamestream.model.ids import NO_FENCE, Fence, SinkName, WorkerId
from flamestream.net.kafka.clients import Clients, KafkaAccess
from flamestream.ports import Post, Reactor, Timer

PARTITIONERS: Final = ("consistent_random", "consistent", "murmur2_random", "murmur2", "fnv1a_random", "fnv1a", "random")

_COMMIT_SECONDS: Final = 0.5


class KafkaSinkSpec(KafkaAccess, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`{kafka: {brokers: ..., topic: ...}}` of a sink."""

    topic: str
    """An existing topic."""
    form: Literal["transactional", "low-latency"] = "transactional"
    """Whether consumers see items when their transaction is committed, or at once."""
    value: Format = "json"
    """text, bytes, json, payload, or {avro: {...}}: what a result is written as."""
    key: str | None = None
    """A field of the payload, or a function `module:name` of it."""
    partitioner: str = "murmur2_random"
    """One of librdkafka's, `slot`, or a function `module:name` of key, payload and number of partitions."""
    control: str | None = None
    """The control topic; None: flamestream.JOB.SINK. Created if it is not there."""
    commit_seconds: float = msgspec.field(default=_COMMIT_SECONDS, name="commitSeconds")
    """low-latency: the longest that a transaction is open."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.partitioner not in (*PARTITIONERS, "slot") and ":" not in self.partitioner:
            raise ValueError(f"`partitioner` is one of {', '.join(PARTITIONERS)}, slot, or module:function, not {self.partitioner!r}")
        if not 0 < self.commit_seconds <= 10:
            raise ValueError("`commitSeconds` is above 0 and at most 10")
        if self.form == "transactional" and self.commit_seconds != _COMMIT_SECONDS:
            raise ValueError("`commitSeconds` is of `form: low-latency`: a transactional sink commits with every delivery")


class KafkaConsumer:
    """`ports.Consumer`."""

    def __init__(self, spec: KafkaSinkSpec, sink: SinkName, writer: WorkerId, job: str, post: Post, reactor: Reactor) -> None:
        where = f"spec.sinks.{sink}.kafka"
        own = {"partitioner": spec.partitioner} if spec.partitioner in PARTITIONERS else {}
        clients = Clients(spec, f"{job}-{sink}")
        records = Records(spec.value, spec.key, spec.partitioner, where)
        low_latency = spec.form == "low-latency"
        output = KafkaOutput(clients, spec.topic, records, job, sink, low_latency=low_latency, canonical=spec.value == "payload", more=own)
        control = ControlTopic(clients, spec.control or f"flamestream.{job}.{sink}", job, sink, f"sink {sink}")
        self._writing = KafkaWriting(output, control, WrittenTopics(clients, spec.topic, control, output.where), writer)
        self._clients = clients
        self._commit_seconds = spec.commit_seconds
        self._sink, self._post = sink, post
        self._reactor = reactor
        self._thread = Threads(1, reactor.soon)
        self._calls = Queue(self._thread, reactor)
        self._fence: Fence = NO_FENCE
        self._timer: Timer | None = None

    @property
    def problem(self) -> str:
        """Why a delivery is being tried again; "" if it is not."""
        return self._writing.trouble or self._calls.problem

    def open(self, action: OpenSink) -> None:
        self._fence = max(self._fence, action.fence)
        self._calls.run(
            lambda: self._writing.open(action),
            lambda found: self._tell(action.fence, found, lambda: SinkOpened(action.fence, self._sink, *found)),
        )

    def deliver(self, action: Deliver) -> None:
        self._calls.run(
            lambda: self._writing.deliver(action),
            lambda result: self._told(action, result),
        )

    def close(self) -> None:
        self._calls.close()
        if self._timer is not None:
            self._timer.cancel()
        self._writing.close()
        self._thread.close()

    def _told(self, action: Deliver, result: Any) -> None:
        self._tell(action.fence, result, lambda: BundlesAcknowledged(action.fence, self._sink, action.number))
        if self._writing.open_transaction and self._timer is None:
            self._timer = self._reactor.later(self._commit_seconds, self._commit)

    def _commit(self) -> None:
        self._timer = None
        fence = self._fence
        self._calls.run(self._writing.commit, lambda result: self._tell(fence, result, None))

    def _tell(self, fence: Fence, result: Any, success: Callable[[], Event] | None) -> None:
        if fence < self._fence:
            return
        if isinstance(result, Fenced):
            self._post(SinkFenced(fence, self._sink))
        elif isinstance(result, FlameStreamError):
            self._post(SinkFailed(fence, self._sink, result.category, f"sink {self._sink}: {result}"))
        elif isinstance(result, Exception):
            raise result
        elif success is not None:
            self._post(success())
