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
from typing import Any

from flamestream.connectors.kafka.connector import PARTITIONERS, KafkaSinkSpec
from flamestream.connectors.kafka.control import ControlTopic
from flamestream.connectors.kafka.items import Records
from flamestream.connectors.kafka.sink_topics import WrittenTopics
from flamestream.connectors.kafka.writing import KafkaOutput, KafkaWriting
from flamestream.core.protocol.actions import Deliver, OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, Event, SinkFailed, SinkFenced, SinkOpened
from flamestream.loop.background import Queue, Threads
from flamestream.model.errors import Fenced, FlameStreamError
from flamestream.model.ids import NO_FENCE, Fence, SinkName, WorkerId
from flamestream.net.kafka.clients import Clients
from flamestream.ports import Post, Reactor, Timer


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
