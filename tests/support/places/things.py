"""What tests of sinks with rows or entries deliver: things with a name and a value."""

from dataclasses import dataclass
from typing import Any

import flamestream as fs
from flamestream.core.protocol.actions import Bundle
from flamestream.model.ids import SequenceNumber, Slot
from flamestream.model.payload import encode_items
from flamestream.testing.consumer_contract import Worker, fence
from flamestream.testing.port_driver import PortDriver


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Thing:
    name: str
    value: Any


def things(slot: int, sequence: int, *values: Any) -> Bundle:
    """A bundle of these values."""
    metas = [
        sequence.to_bytes(9, "big") + bytes([slot, number % 256, number // 256])
        for number in range(len(values))
    ]
    return Bundle(
        Slot(slot), SequenceNumber(sequence), metas[-1], encode_items(list(zip(metas, values, strict=True)))
    )


def opened(place: Any, driver: PortDriver, *slots: int) -> Worker:
    """A worker that has these slots in the first attempt."""
    worker = Worker(place, "w1", driver)
    worker.open(fence(1), *slots)
    return worker
