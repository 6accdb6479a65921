"""Topics of our own, which are created if they are not there, and the settings of a topic.

Does not: say which settings are right (connectors/kafka/control.py, journal/kafka_partitions.py).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from flamestream.net.kafka.failures import failure_of
from flamestream.net.kafka.identity import ANSWER_SECONDS

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka.admin import AdminClient

COMPACTED: Final = {
    "cleanup.policy": "compact",
    # The newest segment is never compacted, so its size bounds what a recovery reads in vain.
    "segment.bytes": str(8 << 20),
    "min.cleanable.dirty.ratio": "0.1",
    "max.message.bytes": str(8 << 20),
}
"""Settings of a topic where the newest record of a key is all that is needed."""
AS_THE_CLUSTER_HAS: Final = -1
"""The number of replicas that leaves it to the cluster."""


def settings_of(admin: "AdminClient", topic: str, where: str) -> dict[str, str]:
    """A topic's settings as the brokers have them. `where` begins the message of a failure. Blocks."""
    from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]  # not in its stubs

    resource = ConfigResource(ResourceType.TOPIC, topic)
    with failure_of(where):
        found = admin.describe_configs([resource], request_timeout=ANSWER_SECONDS)[resource].result(
            ANSWER_SECONDS * 2
        )
    return {name: str(entry.value) for name, entry in found.items()}


def create(
    admin: "AdminClient", topic: str, partitions: int, replicas: int, settings: Mapping[str, str], where: str
) -> None:
    """Create a topic; that somebody else was quicker is fine. `where` begins the message of a failure.
    Blocks."""
    from confluent_kafka import KafkaError, KafkaException  # an extra
    from confluent_kafka.cimpl import NewTopic

    with failure_of(where):
        new = NewTopic(topic, partitions, replicas, config=dict(settings))
        try:
            admin.create_topics([new])[topic].result(ANSWER_SECONDS * 4)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
