"""Kafka's errors, split by who must act (model/errors.py): foreign errors become ours here and nowhere else.

>>> with failure_of("sink index", "writing to topic 'index'"):
...     raise BrokersAway("no answer")
Traceback (most recent call last):
flamestream.net.kafka.failures.BrokersAway: no answer

Does not: retry (connectors/kit/producer.py, loop/background.py do, on OSError).
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from flamestream.model.errors import Corrupt, FlameStreamError, UserError

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka import KafkaError


class BrokersAway(OSError):
    """The brokers do not answer now, or cannot do it now; the same may work later."""


class NoSuchTopic(UserError):
    """A topic that has to be created, or named as it is."""


_USER: Final = {
    "UNKNOWN_TOPIC_OR_PART": "there is no such topic: create it, or correct `topic` (the engine creates no "
    "topic of yours)",
    "_UNKNOWN_TOPIC": "there is no such topic: create it, or correct `topic` (the engine creates no topic of "
    "yours)",
    "_UNKNOWN_PARTITION": "there is no such partition: the partitioner names one that the topic does not "
    "have",
    "TOPIC_EXCEPTION": "the topic's name is not allowed",
    "TOPIC_AUTHORIZATION_FAILED": "the user may not do that with the topic: grant it Describe, and Read "
    "(source) or Write (sink)",
    "GROUP_AUTHORIZATION_FAILED": "the user may not use the group: grant it Read on it, or name another by "
    "settings: {group.id: ...}",
    "CLUSTER_AUTHORIZATION_FAILED": "the user may not do that in this cluster: grant it IdempotentWrite",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "the user may not use the transactional ids flamestream.*: "
    "grant it Write on that prefix",
    "SASL_AUTHENTICATION_FAILED": "the brokers refuse the login: correct `secrets` and the sasl.* settings",
    "_AUTHENTICATION": "the brokers refuse the login: correct `secrets` and the sasl.* settings",
    "_SSL": "TLS failed: correct the ssl.* settings",
    "MSG_SIZE_TOO_LARGE": "the record is too large: raise message.max.bytes in `settings` and "
    "max.message.bytes of the topic",
    "RECORD_LIST_TOO_LARGE": "the records are too large: raise max.message.bytes of the topic",
    "_INVALID_ARG": "a setting is wrong: correct `settings`",
    "INVALID_TRANSACTION_TIMEOUT": "transaction.timeout.ms is more than the brokers' "
    "transaction.max.timeout.ms: lower it in `settings`",
    "POLICY_VIOLATION": "the brokers' policy forbids it",
    "INVALID_REPLICATION_FACTOR": "the cluster cannot hold so many replicas: create the topic yourself",
}
_CORRUPT: Final = {
    "_AUTO_OFFSET_RESET": "the offset asked for is not there any more",
    "OFFSET_OUT_OF_RANGE": "the offset asked for is not there any more",
    "_LOG_TRUNCATION": "the partition has lost records behind its leader's change",
}


def judged(error: "KafkaError", where: str) -> FlameStreamError | BrokersAway:
    """The error of ours that a Kafka error is."""
    name = error.name()
    text = f"{where}: {error.str()} ({name})"
    if name in _CORRUPT:
        return Corrupt(f"{text}: {_CORRUPT[name]}")
    if name in _USER:
        # Only what a broker answers: because of a NoSuchTopic topics are made, or taken for deleted, and
        # `_UNKNOWN_TOPIC` is no more than what librdkafka has heard so far.
        kind = NoSuchTopic if name == "UNKNOWN_TOPIC_OR_PART" else UserError
        return kind(f"{text}: {_USER[name]}")
    # What nobody knows is waited out: the stream stands and says why, and nothing is lost.
    return BrokersAway(text)


@contextlib.contextmanager
def failure_of(*where: str) -> Iterator[None]:
    """Turns a KafkaException of the body into an error of ours; `where` begins its message."""
    from confluent_kafka import KafkaException  # an extra

    try:
        yield
    except KafkaException as error:
        raise judged(error.args[0], ": ".join(where)) from error
