"""Places: where the users of a sink's output look, and what stands there against the reference.

| sink     | place                                       | what is compared                                                       |
|----------|---------------------------------------------|------------------------------------------------------------------------|
| postgres | the table                                   | rows: the last value of each key, or one for each result               |
| redis    | the hash or stream                          | entries: the last value of each name, or all in the order of each slot |
| kafka    | the topic, partition by partition           | records: value, key, partition, order, whose they are                  |
| events   | what a client is given that comes (back)    | events: data, order, and that each id goes on behind it                |

What is expected comes from payloads of the reference alone; what stands there is read by others' libraries
(psycopg, json, fastavro), so a mistake in a sink's encoder is a difference.

Does not: read what was delivered in which order (sinks.read). Import a sink's encoder, which import-linter
holds.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from flamestream.connectors import sinks
from flamestream.connectors.kafka.sink import KafkaSinkSpec
from flamestream.connectors.kit.item_parts import Wanted
from flamestream.connectors.kit.standing import ALL, Findings, Span
from flamestream.model.meta import Meta

__all__ = ["Findings", "Look", "Place", "Span", "Wanted", "place_of"]


class Look(Protocol):
    """What stood at a place at a moment."""

    @property
    def newest(self) -> Meta | None:
        """The greatest meta there; None: what stands there does not say."""
        ...

    def compared(self, wanted: Sequence[Wanted], span: Span = ALL) -> Findings:
        """It, against these. `span`: what stands there of other metas nobody knows.

        Raises UserError if it cannot be compared.
        """
        ...


class Place(Protocol):
    """Of one sink."""

    def look(self) -> Look:
        """What stands there now: what comes meanwhile may be seen or not. Raises UserError if it cannot be read."""
        ...


def place_of(spec: object, sink: str, job: str) -> Place | None:
    """Of sink `sink` of `job`; None if nobody looks anywhere but where `sinks.read` does."""
    match sinks.settings_of(spec, f"spec.sinks.{sink}"):
        case sinks.PostgresSpec() as table:
            from flamestream.connectors.postgres.place import TablePlace  # psycopg is there only if it is used

            return TablePlace(table.dsn, table.password_file, table.table, table.sources, table.key, sink)
        case sinks.RedisSpec() as redis:
            from flamestream.connectors.redis.place import EntriesPlace  # like redis itself

            return EntriesPlace(
                redis.url,
                redis.password_file,
                redis.form,
                redis.key,
                redis.names,
                redis.sources,
                redis.max_length,
                sink,
            )
        case KafkaSinkSpec() as topic:
            from flamestream.connectors.kafka.place import (
                TopicPlace,
            )  # confluent-kafka is there only if it is used

            committed = topic.form == "transactional"
            return TopicPlace(topic, topic.topic, committed, topic.value, topic.key, topic.partitioner, job, sink)
        case sinks.EventsSpec(path=path):
            from flamestream.connectors.http.events_place import EventsPlace

            return EventsPlace(Path(path))
    return None
