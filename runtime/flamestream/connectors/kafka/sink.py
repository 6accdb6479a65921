"""A sink that is a Kafka topic, in two forms.

| form          | acknowledged when            | consumers read              | between two commits |
|---------------|------------------------------|-----------------------------|-----|
| transactional | its transaction is committed | `isolation.level` committed | nothing |
| low-latency   | its records are in the log   | uncommitted                 | records that they see at once |

In both, every item is in the topic once for consumers that read so, and a replaced worker can write nothing
more (kafka/writing.py says why).

Keeps: one delivery is under way, by a thread of the sink's own, and beside it one commit. Does not: create
the topic, or know what items are.
"""

from flamestream.connectors.kafka.connector import KafkaSinkSpec
from flamestream.connectors.kafka.control import ControlTopic
from flamestream.connectors.kafka.output import KafkaOutput
from flamestream.connectors.kafka.sink_topics import WrittenTopics
from flamestream.connectors.kafka.writing import KafkaWriting
from flamestream.connectors.kit.blocking import BlockingConsumer
from flamestream.core.protocol.actions import Deliver
from flamestream.core.protocol.events import BundlesAcknowledged, LastBundle, SinkOpened
from flamestream.loop.background import Queue, Threads
from flamestream.model.ids import Fence, SinkName, Slot, WorkerId
from flamestream.ports import Post, Reactor, Timer


class KafkaConsumer(BlockingConsumer):
    """`ports.Consumer`: beside deliveries it commits what a low-latency one has left open."""

    def __init__(
        self, spec: KafkaSinkSpec, sink: SinkName, writer: WorkerId, job: str, post: Post, reactor: Reactor
    ) -> None:
        output = KafkaOutput(spec, job, sink)
        control = ControlTopic(
            output.clients, spec.control or f"flamestream.{job}.{sink}", job, sink, f"sink {sink}"
        )
        self._writing = KafkaWriting(
            output, control, WrittenTopics(output.clients, spec.topic, control, output.where), writer
        )
        super().__init__(self._writing, sink, post, reactor)
        self._reactor = reactor
        self._committing = Threads(1, reactor.soon)
        self._commits = Queue(self._committing, reactor)
        self._commit_seconds = spec.commit_seconds
        self._timer: Timer | None = None

    @property
    def problem(self) -> str:
        """Why a delivery is being tried again; "" if it is not."""
        return self._writing.trouble or super().problem or self._commits.problem

    def close(self) -> None:
        self._calls.close()
        self._commits.close()
        if self._timer is not None:
            self._timer.cancel()
        self._writing.close()  # not in its thread, where a call may wait for brokers until it is told to stop
        self._thread.close()
        self._committing.close()

    def _opened(self, fence: Fence, last: dict[Slot, LastBundle]) -> SinkOpened:
        return SinkOpened(fence, self._sink, last, self._writing.newest)

    def _delivered(self, action: Deliver) -> BundlesAcknowledged:
        if self._writing.open_transaction and self._timer is None:
            self._timer = self._reactor.later(self._commit_seconds, self._commit)
        return super()._delivered(action)

    def _commit(self) -> None:
        self._timer = None
        self._run(self._answers.fence, self._writing.commit, lambda _: None, self._commits)
