"""The generator source: its pace, its end, and functions that raise."""

from flamestream.connectors import sources
from flamestream.connectors.synthetic.generator import GeneratorProducer
from flamestream.core.protocol.actions import Follow, Pull
from flamestream.core.protocol.events import Event, RecordsArrived, SourceEnded
from flamestream.model.ids import Offset, Partition
from flamestream.model.payload import ErrorValue
from flamestream.testing.port_driver import PortDriver
from flamestream.testing.producer_contract import FRONT, PLENTY, Front


class Clock:
    """A reactor whose time stands still until it is moved."""

    def __init__(self) -> None:
        self.microseconds = 5_000_000
        self.calls: list[tuple[float, object]] = []

    def instant(self) -> int:
        return self.microseconds

    def soon(self, call: object) -> None:
        self.later(0, call)

    def later(self, seconds: float, call: object) -> "Clock":
        self.calls.append((self.microseconds + seconds * 1_000_000, call))
        return self

    def cancel(self) -> None:
        """Calls without need are harmless."""

    def advance(self, seconds: float) -> None:
        self.microseconds += int(seconds * 1_000_000)
        while due := [call for call in self.calls if call[0] <= self.microseconds]:
            self.calls = [call for call in self.calls if call[0] > self.microseconds]
            for _, call in due:
                call()  # type: ignore[operator]


def half(number: int) -> int:
    if number % 2:
        raise ValueError("odd")
    return number // 2


def test_numbers_leave_at_the_rate_from_where_it_follows() -> None:
    clock, events = Clock(), list[Event]()
    producer = GeneratorProducer(None, 10.0, None, FRONT, events.append, clock)  # type: ignore[arg-type]
    producer.follow(Follow(Front.fence(1), FRONT, {Partition(""): Offset(100)}))
    producer.pull(Pull(Front.fence(1), FRONT, PLENTY, PLENTY))
    given = []
    for _ in range(5):
        clock.advance(0.1)
        given.append(
            [payload for event in events if isinstance(event, RecordsArrived) for payload in event.payloads]
        )
        events.clear()
    assert [payload for payloads in given for payload in payloads] == [100, 101, 102, 103, 104, 105]
    assert all(len(payloads) <= 2 for payloads in given)


def test_it_ends_after_its_count_once() -> None:
    with PortDriver() as driver:
        front = sources.build({"generator": {"count": 3}}, FRONT, driver.post, driver.reactor)
        front.follow(Follow(Front.fence(1), FRONT, {Partition(""): Offset(3)}))
        driver.take(SourceEnded)
        front.pull(Pull(Front.fence(1), FRONT, 1, 1))
        driver.settle()
        assert driver.events == []


def test_a_function_that_raises_gives_an_error_item() -> None:
    with PortDriver() as driver:
        producer = GeneratorProducer(2, None, half, FRONT, driver.post, driver.reactor)
        producer.follow(Follow(Front.fence(1), FRONT, {}))
        producer.pull(Pull(Front.fence(1), FRONT, 9, PLENTY))
        payloads = driver.take(RecordsArrived).payloads
    assert payloads[0] == 0
    assert payloads[1] == ErrorValue(f"{__name__}.half", "ValueError", "number 1: odd")
