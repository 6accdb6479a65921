"""Who a topic is: its id and its partitions, asked for at once, or on the way and looked at later.

A topic that was deleted and created again has its name and another id: offsets mean other records, and what
was written is gone.

Keeps: an answer that does not come is a `problem` of the clients. Does not: judge what follows
(connectors/kafka/source_topic.py, connectors/kafka/writing.py).
"""

from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, NamedTuple

from flamestream.net.kafka.clients import Clients

if TYPE_CHECKING:  # the package is an extra: jobs without Kafka run without it
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._topic import TopicDescription

ANSWER_SECONDS: Final = 5.0


class Described(NamedTuple):
    """A topic as the brokers describe it."""

    id: str
    partitions: list[int]
    replicas: list[int]
    """The number of replicas of each partition."""


def ask(admin: "AdminClient", topic: str) -> "Future[TopicDescription]":
    """Ask for a topic's description; the answer is for `described`."""
    from confluent_kafka import TopicCollection  # an extra

    found: Future[TopicDescription] = admin.describe_topics(
        TopicCollection([topic]), request_timeout=ANSWER_SECONDS
    )[topic]
    return found


def described(
    clients: Clients, admin: "AdminClient", asked: "Future[TopicDescription]", *where: str
) -> Described:
    """Wait for a topic's description. Raises NoSuchTopic, BrokersAway if there is no answer."""
    with clients.asking(admin, *where):
        # The request ends by itself before that; and the TimeoutError of this wait is an OSError, too.
        found = asked.result(ANSWER_SECONDS * 2)
    partitions = sorted(found.partitions, key=lambda info: info.id)
    return Described(
        str(found.topic_id), [info.id for info in partitions], [len(info.replicas) for info in partitions]
    )


class TopicIdentity:
    """The identity of one topic. `where` begins every message."""

    def __init__(self, clients: Clients, topic: str, *where: str) -> None:
        self._clients, self._topic, self._where = clients, topic, where
        self._admin: AdminClient | None = None
        self._asked: Future[TopicDescription] | None = None

    def now(self) -> Described:
        """Ask and wait. Raises NoSuchTopic, BrokersAway if there is no answer."""
        return self._answer(self._ask())

    def look(self) -> None:
        """Ask; `seen` has the answer later."""
        if self._asked is None:
            self._asked = self._ask()

    def seen(self) -> Described | None:
        """The answer to `look`, once. Raises NoSuchTopic if it is not there any more."""
        if self._asked is None or not self._asked.done():
            return None
        # Let go first: after a failure the next `look` asks anew.
        asked, self._asked = self._asked, None
        try:
            return self._answer(asked)
        except OSError as error:
            self._clients.problem = str(error)
            return None

    def close(self) -> None:
        """Let go of the brokers; the next question asks them anew."""
        self._admin = self._asked = None

    def _ask(self) -> "Future[TopicDescription]":
        self._admin = self._admin or self._clients.admin()
        return ask(self._admin, self._topic)

    def _answer(self, asked: "Future[TopicDescription]") -> Described:
        assert self._admin is not None, "an answer comes behind a question"
        return described(self._clients, self._admin, asked, *self._where)
