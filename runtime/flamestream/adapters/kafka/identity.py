"""Who a topic is: its id and its partitions, asked for at once, or on the way and looked at later.

A topic that was deleted and created again has its name and another id: offsets mean other records, and what was written is gone.

Keeps: an answer that does not come is a `problem` of the clients. Does not: judge what follows (sources/kafka_topic.py,
sinks/kafka_writing.py).
"""

from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from flamestream.adapters.kafka.clients import Clients

ANSWER_SECONDS: Final = 5.0


class Described(NamedTuple):
    """What the brokers say of a topic."""

    id: str
    partitions: list[int]


class TopicIdentity:
    """Of one topic. `where` begins every message."""

    def __init__(self, clients: Clients, topic: str, *where: str) -> None:
        self._clients, self._topic, self._where = clients, topic, where
        self._admin: Any = None
        self._asked: Future[Any] | None = None

    def now(self) -> Described:
        """Ask and wait. Raises UserError if there is no such topic, BrokersAway if there is no answer."""
        return self._answer(self._ask())

    def look(self) -> None:
        """Ask; `seen` has the answer later."""
        if self._asked is None:
            self._asked = self._ask()

    def seen(self) -> Described | None:
        """The answer to `look`, once. Raises UserError if there is no such topic any more."""
        if self._asked is None or not self._asked.done():
            return None
        asked, self._asked = self._asked, None
        try:
            return self._answer(asked)
        except OSError as error:
            self._clients.problem = str(error)
            return None

    def _ask(self) -> "Future[Any]":
        from confluent_kafka import TopicCollection  # an extra

        self._admin = self._admin or self._clients.admin()
        asked = self._admin.describe_topics(TopicCollection([self._topic]), request_timeout=ANSWER_SECONDS)
        found: Future[Any] = asked[self._topic]
        return found

    def _answer(self, asked: "Future[Any]") -> Described:
        with self._clients.asking(self._admin, *self._where):
            found = asked.result(ANSWER_SECONDS * 2)
        return Described(str(found.topic_id), sorted(info.id for info in found.partitions))
