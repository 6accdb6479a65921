"""A worker that delivers to a sink in a process of its own, so that it can be killed at any moment: half of a
contract check.

    python -m flamestream.testing.delivering '{"spec": {...}, "attempt": 2, "slots": [0, 1], "items": 500,
    "seed": 7}'

Item `n` of a slot is the same in every attempt; how items are cut into bundles is not. Each worker goes on
behind what the sink says it has, as the engine does, and prints one line a delivery that was acknowledged:
how many items each slot has.

Does not: judge (consumer_contract.py).
"""

import json
import random
import sys
from typing import Any

from flamestream.connectors import sinks
from flamestream.core.protocol.actions import Bundle, Deliver, OpenSink
from flamestream.core.protocol.events import BundlesAcknowledged, SinkFenced, SinkOpened
from flamestream.model.ids import Attempt, Fence, LayoutVersion, SequenceNumber, SinkName, Slot, WorkerId
from flamestream.model.payload import encode_items
from flamestream.testing.port_driver import PortDriver

JOB, SINK = "job", SinkName("out")
MOST = 6
"""Items of one bundle."""


def item(slot: int, number: int) -> tuple[bytes, str]:
    """Meta and payload. Metas of all slots together are distinct."""
    return (number + 1).to_bytes(8, "big") + bytes([slot]), f"{slot}/{number}"


def number_of(meta: bytes) -> int:
    """The way back; -1 for none."""
    return int.from_bytes(meta[:8], "big") - 1


class Deliverer:
    """The deliveries of one attempt."""

    def __init__(self, config: dict[str, Any], driver: PortDriver) -> None:
        self._config, self._driver = config, driver
        self._fence = Fence(Attempt(config["attempt"]), LayoutVersion(1))
        self._rng = random.Random(f"{config['seed']} {config['attempt']}")
        writer = WorkerId(f"w{config['attempt']}")
        self._consumer = sinks.build(config["spec"], SINK, writer, JOB, driver.post, driver.reactor)
        driver.at_exit.append(self._consumer.close)
        self._next = dict.fromkeys(config["slots"], 0)
        self._sequence = dict.fromkeys(config["slots"], 0)

    def open(self) -> None:
        self._consumer.open(OpenSink(self._fence, SINK, [Slot(slot) for slot in self._next]))
        for slot, last in self._driver.take(SinkOpened).last.items():
            self._next[slot] = number_of(last.t_last) + 1
            self._sequence[slot] = last.sequence

    def run(self) -> None:
        """Until every slot has its items."""
        number = 0
        while any(done < self._config["items"] for done in self._next.values()):
            number += 1
            self._consumer.deliver(Deliver(self._fence, SINK, number, self._bundles()))
            self._driver.until(lambda: bool(self._driver.events), "an acknowledgement")
            event = self._driver.events.pop(0)
            if isinstance(event, SinkFenced):
                return
            assert isinstance(event, BundlesAcknowledged), event
            # Only what was acknowledged is said: who kills this process expects to find it.
            sys.stdout.write(json.dumps(self._next) + "\n")
            sys.stdout.flush()

    def _bundles(self) -> list[Bundle]:
        chosen = [
            slot
            for slot in self._next
            if self._rng.random() < 0.7 and self._next[slot] < self._config["items"]
        ]
        # one at least, of the slot that is furthest behind: else the last ones might wait for their turn for
        # ever
        return [self._bundle(slot) for slot in chosen or [min(self._next, key=lambda slot: self._next[slot])]]

    def _bundle(self, slot: int) -> Bundle:
        first = self._next[slot]
        upto = min(self._config["items"], first + self._rng.randint(1, MOST))
        items = [item(slot, number) for number in range(first, upto)]
        self._next[slot] = upto
        self._sequence[slot] += 1
        return Bundle(Slot(slot), SequenceNumber(self._sequence[slot]), items[-1][0], encode_items(items))


def main(config: dict[str, Any]) -> None:
    """Open, say so, deliver."""
    with PortDriver() as driver:
        deliverer = Deliverer(config, driver)
        deliverer.open()
        sys.stdout.write("{}\n")
        sys.stdout.flush()
        deliverer.run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
