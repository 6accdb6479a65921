"""What every producer must do, as checks that any adapter can be run through.

    @pytest.mark.parametrize("check", PRODUCER_CHECKS, ids=lambda check: check.__name__)
    def test_my_source(check, tmp_path):
        check(MyOutside(tmp_path))

An `Outside` holds the records 0 to 9 of one partition, and says what their payloads are. Each check states one promise.

Does not: check replays of journalled runs for sources that can't be read again (REPLAY_CHECKS are for those that can).
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from flamestream.core.actions import Follow, Pull, ReadRun
from flamestream.core.events import Entry, RecordsArrived, RunRead
from flamestream.model.ids import Attempt, Fence, LayoutVersion, Offset, Partition
from flamestream.model.time import FrontId, Time
from flamestream.ports import Post, Producer, Reactor
from flamestream.testing.port_driver import PortDriver

FRONT: Final = FrontId(3)
RECORDS: Final = 10
PLENTY: Final = 1 << 20


class Outside(Protocol):
    """Ten records."""

    partition: Partition
    payloads: Sequence[object]

    def connect(self, post: Post, reactor: Reactor) -> Producer:
        """A new worker's producer for front 3."""
        ...


class Front:
    """One front's side, driven by hand."""

    def __init__(self, outside: Outside, driver: PortDriver) -> None:
        self.outside = outside
        self.driver = driver
        self.producer = outside.connect(driver.post, driver.reactor)
        driver.at_exit.append(self.producer.close)

    def follow(self, offset: int, attempt: int = 1) -> None:
        offsets = {self.outside.partition: Offset(offset)} if offset else {}
        self.producer.follow(Follow(self.fence(attempt), FRONT, offsets))

    def pull(self, records: int, size: int = PLENTY, attempt: int = 1) -> None:
        self.producer.pull(Pull(self.fence(attempt), FRONT, records, size))

    def got(self, attempt: int = 1) -> list[object]:
        """Payloads so far; their offsets are checked to be without gap."""
        payloads: list[object] = []
        first = -1
        for event in self.driver.events:
            if isinstance(event, RecordsArrived) and event.payloads and event.fence == self.fence(attempt):
                assert event.front == FRONT
                assert event.partition == self.outside.partition
                assert first in (-1, event.first), f"records from {event.first} on where {first} was next"
                first = event.first + len(event.payloads)
                payloads += event.payloads
        return payloads

    def wait(self, count: int, attempt: int = 1) -> list[object]:
        """Wait for exactly `count` records."""
        self.driver.until(lambda: len(self.got(attempt)) >= count, f"{count} records")
        self.driver.settle()
        assert len(self.got(attempt)) == count
        return self.got(attempt)

    @staticmethod
    def fence(attempt: int) -> Fence:
        return Fence(Attempt(attempt), LayoutVersion(1))


def check_gives_all_in_order(outside: Outside) -> None:
    with PortDriver() as driver:
        front = Front(outside, driver)
        front.follow(0)
        front.pull(RECORDS)
        assert front.wait(RECORDS) == list(outside.payloads)


def check_gives_nothing_without_credit(outside: Outside) -> None:
    with PortDriver() as driver:
        front = Front(outside, driver)
        front.follow(0)
        front.wait(0)
        front.pull(0)
        front.wait(0)


def check_gives_within_the_last_pull(outside: Outside) -> None:
    with PortDriver() as driver:
        front = Front(outside, driver)
        front.follow(0)
        front.pull(3)
        front.wait(3)
        front.pull(1)
        front.wait(4)
        front.pull(PLENTY, size=1)
        assert front.wait(5) == list(outside.payloads[:5]), "a record may always go over the size, a second one not"


def check_follows_from_an_offset(outside: Outside) -> None:
    with PortDriver() as driver:
        front = Front(outside, driver)
        front.follow(6)
        front.pull(RECORDS)
        assert front.wait(4) == list(outside.payloads[6:])


def check_a_newer_fence_starts_anew(outside: Outside) -> None:
    with PortDriver() as driver:
        front = Front(outside, driver)
        front.follow(0)
        front.pull(5)
        front.wait(5)
        front.follow(2, attempt=2)
        front.pull(PLENTY, attempt=1)
        front.wait(0, attempt=2)
        front.pull(PLENTY, attempt=2)
        assert front.wait(8, attempt=2) == list(outside.payloads[2:])
        assert len(front.got(attempt=1)) == 5


def check_a_closed_one_is_silent(outside: Outside) -> None:
    with PortDriver() as driver:
        front = Front(outside, driver)
        front.follow(0)
        front.pull(2)
        front.wait(2)
        front.producer.close()
        front.driver.settle()
        front.wait(2)


def check_reads_a_run_again(outside: Outside) -> None:
    with PortDriver() as driver:
        front = Front(outside, driver)
        runs = [Entry(Time(100), outside.partition, Offset(2), 3), Entry(Time(200), outside.partition, Offset(5), 1)]
        for run in runs:
            front.producer.read(ReadRun(Front.fence(1), FRONT, run))
        answers = [driver.take(RunRead) for _ in runs]
        assert [answer.entry for answer in answers] == runs, "answered in the order asked"
        assert [list(answer.payloads) for answer in answers] == [list(outside.payloads[2:5]), list(outside.payloads[5:6])]
        front.follow(6)
        front.pull(PLENTY)
        assert front.wait(4) == list(outside.payloads[6:])


class RestartableOutside(Outside, Protocol):
    """Its server can be killed, and started again with what it had."""

    def kill(self) -> None: ...
    def start(self) -> None: ...


def check_gives_the_rest_behind_a_killed_server(outside: RestartableOutside) -> None:
    """The server is killed while the front follows it, and while it reads again: nothing is lost, doubled or reordered."""
    with PortDriver() as driver:
        front = Front(outside, driver)
        front.follow(0)
        front.pull(4)
        front.wait(4)
        outside.kill()
        front.pull(RECORDS)
        driver.settle()
        outside.start()
        assert front.wait(RECORDS) == list(outside.payloads)
        outside.kill()
        front.producer.read(ReadRun(Front.fence(2), FRONT, Entry(Time(100), outside.partition, Offset(2), 3)))
        driver.settle()
        outside.start()
        assert list(driver.take(RunRead).payloads) == list(outside.payloads[2:5])
        front.follow(5, attempt=2)
        front.pull(PLENTY, attempt=2)
        assert front.wait(5, attempt=2) == list(outside.payloads[5:])


PRODUCER_CHECKS: Final[list[Callable[[Outside], None]]] = [
    check_gives_all_in_order,
    check_gives_nothing_without_credit,
    check_gives_within_the_last_pull,
    check_follows_from_an_offset,
    check_a_newer_fence_starts_anew,
    check_a_closed_one_is_silent,
]
REPLAY_CHECKS: Final[list[Callable[[Outside], None]]] = [check_reads_a_run_again]
