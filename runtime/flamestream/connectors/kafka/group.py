"""A consumer group that follows a job: at each committed epoch its offsets are set to where the epoch ends, so
that tools which show a group's lag show the job's.

Nothing is ever read from it. Whoever sets its offsets changes nothing, and nobody joins it.

Keeps: a commit waits for no broker; one at a time is under way, and the newest offsets follow. Does not: decide
where a source begins (kafka/source_topic.py).
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from flamestream.connectors.kit.producer import ServerProducer, ServerReader
from flamestream.model.ids import Offset, Partition
from flamestream.model.time import FrontId
from flamestream.ports import Post, Reactor

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import Consumer, TopicPartition


class Group:
    """The group of one source; None: it has none."""

    def __init__(self, name: str | None) -> None:
        self._name = name
        self.problem = ""
        """The reason why the last offsets were not taken; "" if they were."""

    def settings(self) -> Mapping[str, object]:
        """Settings of the consumer that commits."""
        return {} if self._name is None else {"group.id": self._name, "on_commit": self._answered}

    def commit(self, consumer: "Consumer", places: "Sequence[TopicPartition]") -> None:
        """Ask for a commit; the consumer's next poll has the answer."""
        from confluent_kafka import KafkaException  # an extra

        try:
            if places:
                consumer.commit(offsets=list(places), asynchronous=True)
        except KafkaException as error:
            self._answered(error.args[0], ())

    def _answered(self, error: Any, places: "Sequence[TopicPartition]") -> None:
        wrong = error or next((place.error for place in places if place.error is not None), None)
        self.problem = "" if wrong is None else f"group {self._name!r} takes no offsets: {wrong.str()}"


def _raise(result: Exception | None) -> None:
    """Raises the result, if it is a bug: what the brokers refuse is the group's problem alone."""
    if result is not None:
        raise result


class GroupReader(ServerReader, Protocol):
    """A reader whose server keeps offsets of a group."""

    def commit(self, offsets: Mapping[Partition, Offset]) -> None: ...


class GroupProducer(ServerProducer):
    """`ports.Grouped`."""

    def __init__(self, reader: GroupReader, front: FrontId, post: Post, reactor: Reactor) -> None:
        super().__init__(reader, front, post, reactor)
        self._committing = reader.commit
        self._newest: Mapping[Partition, Offset] | None = None
        """Offsets that wait for the reader's thread."""

    def committed(self, offsets: Mapping[Partition, Offset]) -> None:
        """Have the reader's thread, whose consumer it is, commit the newest of these."""
        waits = self._newest is not None
        self._newest = dict(offsets)
        if not waits:
            self._thread.background(self._commit, _raise)

    def _commit(self) -> None:
        offsets, self._newest = self._newest, None
        if offsets:
            self._committing(offsets)
