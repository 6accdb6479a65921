"""A small job whose results a real sink was given, as the reference has them, so that a test can damage what
stands there.

Lines of words become changes of counts: several of each word, each word in a slot.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import flamestream as fs
from flamestream.connectors import sinks
from flamestream.connectors.kit.standing import Findings, Wanted
from flamestream.connectors.sinks import place_of
from flamestream.core.protocol.actions import Bundle
from flamestream.model.graph import Graph
from flamestream.model.ids import SequenceNumber, SinkName, Slot, WorkerId
from flamestream.model.payload import encode, encode_items
from flamestream.model.slot import slot_of
from flamestream.model.time import FrontId, Timestamp, time_of
from flamestream.ports import Consumer, Post, Reactor
from flamestream.reference import interpret
from flamestream.testing.consumer_contract import SINK, Worker, fence
from flamestream.testing.port_driver import PortDriver

SLOTS = 8
JOB = "job"
LINES = ["to be or not to be", "let it be", "be it so", "to it"]


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Change:
    word: str
    count: int
    lines: tuple[int, ...]
    share: float


def words(line: tuple[int, str]) -> list[Any]:
    return [(line[0], word) for word in line[1].split()]


def counted(change: Change | None, word: Any) -> Change:
    before = change or Change(word[1], 0, (), 0.0)
    return Change(word[1], before.count + 1, (*before.lines, word[0]), (before.count + 1) / 8)


def word_of(change: Change | None) -> str:
    assert change is not None
    return change.word


def graph() -> Graph:
    made = fs.Graph("counts")
    changes = (
        made.source("lines")
        .flat_map(words)
        .reduce(
            key=lambda word: word[1], initial=lambda: None, combine=counted, emit=lambda change, word: change
        )
    )
    changes.sink(SINK, key=word_of)
    return made


def results() -> list[Wanted]:
    """What the reference has for the sink."""
    runs = [
        (time_of(Timestamp(number + 1), FrontId(0)), [(number, line)]) for number, line in enumerate(LINES)
    ]
    found = interpret(graph(), runs)[SINK]
    return [Wanted(meta, slot_of(encode(change.word), SLOTS), change) for meta, change in found]


class Outside:
    """A sink by its manifest."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec

    def connect(self, writer: str, post: Post, reactor: Reactor) -> Consumer:
        return sinks.build(self.spec, SinkName(SINK), WorkerId(writer), JOB, post, reactor)

    def taken(self) -> Sequence[tuple[int, int, bytes]]:
        raise NotImplementedError

    def deliver(
        self, driver: PortDriver, change: Callable[[list[Wanted]], list[Wanted]] = list
    ) -> list[Wanted]:
        """Give it the results, after `change`, two a bundle. The results of the reference."""
        worker = Worker(self, "w1", driver)
        worker.open(fence(1), *range(SLOTS))
        slots: dict[Slot, list[Wanted]] = {}
        for item in change(results()):
            slots.setdefault(item.slot, []).append(item)
        for slot, items in slots.items():
            for number, start in enumerate(range(0, len(items), 2), 1):
                part = [(item.meta, item.payload) for item in items[start : start + 2]]
                worker.deliver(
                    fence(1), Bundle(slot, SequenceNumber(number), part[-1][0], encode_items(part))
                )
        driver.events.clear()
        return results()

    def compared(self, wanted: Sequence[Wanted] | None = None) -> Findings:
        """What stands at its place."""
        place = place_of(self.spec, SINK, JOB)
        assert place is not None
        return place.look().compared(results() if wanted is None else wanted)


def differs(findings: Findings, kind: str, *says: str) -> None:
    """This is the only difference, and it is named."""
    assert findings.counts == {kind: 1}, findings
    for text in says:
        assert text in findings.examples[0], findings.examples
