"""A graph's clock: moments once and in order, the newest one behind a silence, and a source that no manifest
names."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import flamestream as fs
from flamestream.connectors.synthetic.clock import ClockProducer
from flamestream.core.protocol.actions import Follow, Pull
from flamestream.core.protocol.events import Event, RecordsArrived
from flamestream.model.errors import GraphError
from flamestream.model.ids import Offset, Partition
from flamestream.testing.producer_contract import FRONT, PLENTY, Front

SECOND = 1_000_000


class Reactor:
    """A reactor whose clock is moved by hand."""

    def __init__(self) -> None:
        self.time = 10 * SECOND + 1
        self.calls: list[tuple[float, Any]] = []

    def now(self) -> int:
        return self.time

    def soon(self, call: Any) -> None:
        self.later(0, call)

    def later(self, seconds: float, call: Any) -> "Reactor":
        self.calls.append((self.time + seconds * SECOND, call))
        return self

    def cancel(self) -> None:
        """A turn without need is harmless."""

    def go_to(self, time: int) -> None:
        self.time = time
        while due := [call for call in self.calls if call[0] <= time]:
            self.calls = [call for call in self.calls if call[0] > time]
            for _, call in due:
                call()


def clock(offset: int = 0, records: int = PLENTY) -> tuple[Reactor, ClockProducer, list[Event]]:
    reactor, events = Reactor(), list[Event]()
    producer = ClockProducer(SECOND, FRONT, events.append, reactor)  # type: ignore[arg-type]
    producer.follow(Follow(Front.fence(1), FRONT, {Partition(""): Offset(offset)}))
    producer.pull(Pull(Front.fence(1), FRONT, records, PLENTY))
    return reactor, producer, events


def taken(events: list[Event]) -> list[tuple[Offset, Offset | None, int]]:
    found = [
        (event.first, event.end, event.payloads[0].second)  # type: ignore[attr-defined]
        for event in events
        if isinstance(event, RecordsArrived)
    ]
    events.clear()
    return found


def test_each_moment_comes_once_when_the_clock_passes_it() -> None:
    reactor, _, events = clock()
    reactor.go_to(10 * SECOND + 1)
    assert taken(events) == [(10, 11, 10)]
    reactor.go_to(11 * SECOND - 1)
    assert taken(events) == []
    reactor.go_to(11 * SECOND)
    assert taken(events) == [(11, 12, 11)]


def test_moments_that_nobody_saw_are_not_made_up_for() -> None:
    reactor, _, events = clock(offset=4)
    reactor.go_to(10 * SECOND + 2)
    reactor.go_to(25 * SECOND + 5)
    assert taken(events) == [(10, 11, 10), (25, 26, 25)]


def test_none_comes_again_though_the_clock_is_set_back() -> None:
    reactor, producer, events = clock(offset=12)
    reactor.go_to(11 * SECOND + 2)
    producer.pull(Pull(Front.fence(1), FRONT, PLENTY, PLENTY))
    reactor.go_to(11 * SECOND + 3)
    assert taken(events) == []
    reactor.go_to(12 * SECOND)
    assert taken(events) == [(12, 13, 12)]


def test_nothing_comes_without_credit_or_when_it_is_closed() -> None:
    reactor, producer, events = clock(records=0)
    reactor.go_to(13 * SECOND)
    assert taken(events) == []
    producer.close()
    producer.pull(Pull(Front.fence(1), FRONT, PLENTY, PLENTY))
    reactor.go_to(15 * SECOND)
    assert taken(events) == []


def test_its_stream_is_in_event_time() -> None:
    graph = fs.Graph("clock")
    graph.clock("tick", every="1s").window(fs.tumbling("10s"), key=lambda moment: 0).count().sink("out")
    noon = datetime(2026, 11, 24, 12, tzinfo=UTC)
    found = graph.run(tick=[noon + timedelta(seconds=number) for number in range(25)])["out"]
    assert [window.value for window in found] == [10, 10, 5]


def test_what_cannot_be_is_refused() -> None:
    graph = fs.Graph("clock")
    graph.clock("tick", every="1s")
    with pytest.raises(GraphError, match="two sources named 'tick'"):
        graph.clock("tick", every="1s")
    with pytest.raises(GraphError, match="every='10us': it must be at least 1000 us"):
        graph.clock("fast", every="10us")


def test_another_pace_is_another_graph() -> None:
    graphs = [fs.Graph("clock"), fs.Graph("clock")]
    for graph, every in zip(graphs, ("1s", "2s"), strict=True):
        graph.clock("tick", every=every).sink("out")
    assert graphs[0].identity != graphs[1].identity
