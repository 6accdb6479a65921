"""Replays of journalled runs of a topic, without a broker."""

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from flamestream.connectors.kafka.replay import KafkaReplay
from flamestream.core.protocol.events import Entry
from flamestream.model.errors import Corrupt
from flamestream.model.ids import Offset, Partition
from flamestream.model.time import Time


class Consumer:
    """Two partitions; of the second one everything below offset 7 is gone."""

    def __init__(self, *answers: Any) -> None:
        self._answers, self._assigned = deque(answers), list[Any]()

    def assignment(self) -> list[Any]:
        return self._assigned

    def incremental_assign(self, places: list[Any]) -> None:
        self._assigned += places

    def poll(self, seconds: float) -> Any:
        return self._answers.popleft()

    def consume(self, most: int, seconds: float) -> list[Any]:
        return []

    def get_watermark_offsets(self, place: Any, seconds: float) -> tuple[int, int]:
        return (7 if place.partition == 1 else 0), 9


def message(partition: int, offset: int, error: KafkaError | None = None) -> Any:
    return SimpleNamespace(partition=lambda: partition, offset=lambda: offset, error=lambda: error)


def test_records_that_are_gone_are_told_of_the_partition_that_had_them() -> None:
    gone = KafkaError(KafkaError._AUTO_OFFSET_RESET)
    consumer = Consumer(message(1, 0), message(1, 1, gone))
    replay = KafkaReplay(SimpleNamespace(consumer=lambda **_: consumer), "t", "read_committed", "source")  # type: ignore[arg-type]
    replay.read(1, Entry(Time(1), Partition("1"), Offset(0), 1))
    with pytest.raises(Corrupt, match=r"partition 1: the next record is at offset 1, but .* below 7"):
        replay.read(0, Entry(Time(2), Partition("0"), Offset(0), 1))
