"""How a Kafka source asks its broker for records, without a broker."""

import time
from typing import Any

import pytest

from flamestream.connectors.kafka.connector import KafkaSourceSpec
from flamestream.connectors.kafka.source import GATHER_SECONDS, KafkaReader
from flamestream.connectors.kafka.source_topic import KafkaTopic


class Made(Exception):
    """Instead of a consumer, with the settings that it was to have."""


def settings_of_consumer(
    monkeypatch: pytest.MonkeyPatch, **settings: str | int | float | bool
) -> dict[str, Any]:
    def make(found: dict[str, Any]) -> None:
        raise Made(found)

    monkeypatch.setattr("confluent_kafka.Consumer", make)
    reader = KafkaReader(KafkaSourceSpec(brokers="b:1", topic="t", settings=settings), 0, "source", "job")
    with pytest.raises(Made) as made:
        reader.seek({})
    (found,) = made.value.args
    return dict(found)


def test_a_broker_is_not_asked_again_before_records_have_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at each record while some wait here, and not a second late when many do (librdkafka's default)."""
    found = settings_of_consumer(monkeypatch)
    assert found["queued.min.messages"] == 1
    assert found["fetch.queue.backoff.ms"] == GATHER_SECONDS * 1000


def test_unless_the_manifest_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    own: dict[str, str | int | float | bool] = {"queued.min.messages": 1000, "fetch.queue.backoff.ms": 20}
    assert settings_of_consumer(monkeypatch, **own).items() >= own.items()


class Records:
    """A consumer that has so many records at hand, again and again."""

    def __init__(self, count: int) -> None:
        self.count, self._offset = count, -1

    def incremental_assign(self, places: list[Any]) -> None:
        """There is one partition."""

    def poll(self, seconds: float) -> Any:
        return self._message()

    def consume(self, most: int, seconds: float) -> list[Any]:
        return [self._message() for _ in range(min(most, self.count - 1))]

    def _message(self) -> Any:
        self._offset += 1
        return Record(self._offset)


class Record:
    """A message of partition 0."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def __len__(self) -> int:
        return 1

    def error(self) -> None:
        """It is a record."""

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def value(self) -> bytes:
        return b"x"


def waited(monkeypatch: pytest.MonkeyPatch, consumer: Records, calls: int) -> list[float]:
    """The waits of so many calls that ask for four records each, in no time."""
    waits = list[float]()
    monkeypatch.setattr("confluent_kafka.Consumer", lambda _: consumer)
    monkeypatch.setattr(KafkaTopic, "beginnings", lambda *_: ({0: 0}, []))
    monkeypatch.setattr(KafkaTopic, "appeared", lambda *_: {})
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(time, "sleep", waits.append)
    reader = KafkaReader(KafkaSourceSpec(brokers="b:1", topic="t"), 0, "source", "job")
    reader.seek({})
    for _ in range(calls):
        (chunk,) = reader.next(4, 1000)
        assert len(chunk.payloads) == consumer.count
    return waits


def test_records_behind_a_few_that_were_given_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited(monkeypatch, Records(3), calls=3) == pytest.approx([0, GATHER_SECONDS, GATHER_SECONDS])


def test_a_backlog_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited(monkeypatch, Records(4), calls=3) == [0, 0, 0]
