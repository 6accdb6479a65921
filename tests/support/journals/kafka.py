"""A journal in a topic of real brokers, and workers that write it."""

from typing import Any
from uuid import uuid4

from flamestream.core.protocol.events import Event, JournalFailed, SourceFailed
from flamestream.journal import places as journals
from flamestream.journal.places import JournalConfig, KafkaJournal
from flamestream.loop.reactor import EpollReactor
from support.journals.worker import FRONT, Worker
from support.kafka_broker.topics import Kafka

JOB = "default.index"


class JournalTopic:
    """The topic is made by the first worker that seals."""

    def __init__(
        self, loop: EpollReactor, broker: Kafka, name: str = "", access: dict[str, Any] | None = None
    ) -> None:
        self.loop, self.broker, self.name = loop, broker, name or f"journal-{uuid4().hex[:8]}"
        self.config = JournalConfig(
            kafka=KafkaJournal(**(access or {"brokers": broker.address}), topic=self.name), keep=False
        )

    def worker(self, attempt: int) -> Worker:
        return Worker(self.loop, attempt, lambda post: journals.build(self.config, JOB, 4, self.loop, post))

    def everything(self) -> list[int]:
        return [each.time for each in journals.everything(self.config, JOB, FRONT)]

    def refusal(self) -> str:
        """Of a topic that may not be one."""
        worker = self.worker(1)
        worker.ask_to_seal()
        event = worker.next()
        assert isinstance(event, SourceFailed) and event.category == "user", event
        return event.message


def failures(events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, JournalFailed)]
