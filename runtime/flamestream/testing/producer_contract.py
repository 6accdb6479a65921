"""The conformance kit of sources: checks of what every producer must do, for any adapter
(docs/reference/connectors.md).

    @pytest.mark.parametrize("check", PRODUCER_CHECKS, ids=lambda check: check.__name__)
    def test_my_source(check, tmp_path):
        check(MyOutside(tmp_path))

An `Outside` holds the records 0 to 9 of one partition, and says what their payloads are. Offsets may have
gaps: then `starts` says at which offset each record begins, and where the partition goes on behind the last
one. Each check states one promise:

| promise       | checks |
|---------------|-----|
| order         | all records, in order, without gap; from an offset on; the same for every worker and at every replay |
| back-pressure | nothing without credit; never more than the last Pull; a new Pull replaces the one before |
| fencing       | a newer fence starts anew, an older one is ignored, a closed producer is silent |
| payloads      | what is given can be a payload, and has a size, so that credit in bytes is true |
| event time    | no partition is told of but those that bring records: marks wait for each (`ids.NOTE`) |

REPLAY_CHECKS are for sources that can be read again (`replayable`); producer_outages.py for those whose
server can be killed.

Does not: measure.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from flamestream.core.protocol.actions import Follow, Pull, ReadRun
from flamestream.core.protocol.events import Entry, RecordsArrived, RunRead, SourceFailed
from flamestream.model.ids import NOTE, Attempt, Fence, LayoutVersion, Offset, Partition
from flamestream.model.payload import check as check_payload
from flamestream.model.time import FrontId, Time
from flamestream.ports import Post, Producer, Reactor
from flamestream.testing.port_driver import PortDriver, checks_in

FRONT: Final = FrontId(3)
RECORDS: Final = 10
PLENTY: Final = 1 << 20


class Outside(Protocol):
    """Ten records."""

    @property
    def partition(self) -> Partition: ...

    @property
    def payloads(self) -> Sequence[object]: ...

    def connect(self, post: Post, reactor: Reactor) -> Producer:
        """A new worker's producer for front 3."""
        ...


def starts_of(outside: Outside) -> Sequence[int]:
    """Offsets of the records, and the one behind them."""
    return getattr(outside, "starts", None) or range(RECORDS + 1)


class Front:
    """The side of one front, driven by hand."""

    def __init__(self, outside: Outside, driver: PortDriver) -> None:
        self.outside = outside
        self.driver = driver
        self.producer = outside.connect(driver.post, driver.reactor)
        driver.at_exit.append(self.producer.close)

    def follow(self, record: int, attempt: int = 1) -> None:
        """Follow the source from the record of this number on."""
        offsets = {self.outside.partition: Offset(starts_of(self.outside)[record])} if record else {}
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
                gaps_allowed = event.end is not None  # who names its end may skip offsets
                follows = first <= event.first if gaps_allowed else first in (-1, event.first)
                assert follows, f"records from {event.first} on where {first} was next"
                first = event.first + len(event.payloads) if event.end is None else event.end
                assert first >= event.first + len(event.payloads)
                payloads += event.payloads
        return payloads

    def wait(self, count: int, attempt: int = 1) -> list[object]:
        """Wait for exactly `count` records."""
        self.driver.until(lambda: len(self.got(attempt)) >= count, f"{count} records")
        # one record too many has its chance
        self.driver.settle()
        assert len(self.got(attempt)) == count
        return self.got(attempt)

    @staticmethod
    def fence(attempt: int) -> Fence:
        return Fence(Attempt(attempt), LayoutVersion(1))


@contextmanager
def one_front(outside: Outside) -> Iterator[Front]:
    """A new worker's front, in a loop of its own that ends with the check."""
    with PortDriver() as driver:
        yield Front(outside, driver)


def run_of(outside: Outside, time: int, first: int, behind: int) -> Entry:
    """A run of the records with these numbers."""
    starts = starts_of(outside)
    end = Offset(starts[behind]) if hasattr(outside, "starts") else None
    return Entry(Time(time), outside.partition, Offset(starts[first]), behind - first, end=end)


def check_gives_all_in_order(outside: Outside) -> None:
    with one_front(outside) as front:
        front.follow(0)
        front.pull(RECORDS)
        assert front.wait(RECORDS) == list(outside.payloads)


def check_gives_nothing_without_credit(outside: Outside) -> None:
    with one_front(outside) as front:
        front.follow(0)
        front.wait(0)
        front.pull(0)
        front.wait(0)


def check_gives_within_the_last_pull(outside: Outside) -> None:
    with one_front(outside) as front:
        front.follow(0)
        front.pull(3)
        front.wait(3)
        front.pull(1)
        front.wait(4)
        front.pull(PLENTY, size=1)
        assert front.wait(5) == list(outside.payloads[:5]), (
            "a record may always go over the size, a second one not"
        )


def check_follows_from_an_offset(outside: Outside) -> None:
    with one_front(outside) as front:
        front.follow(6)
        front.pull(RECORDS)
        assert front.wait(4) == list(outside.payloads[6:])


def check_a_newer_fence_starts_anew(outside: Outside) -> None:
    with one_front(outside) as front:
        front.follow(0)
        front.pull(5)
        front.wait(5)
        front.follow(2, attempt=2)
        # One that was under way when the newer attempt began to follow.
        front.pull(PLENTY, attempt=1)
        front.wait(0, attempt=2)
        front.pull(PLENTY, attempt=2)
        assert front.wait(8, attempt=2) == list(outside.payloads[2:])
        assert len(front.got(attempt=1)) == 5


def check_a_closed_one_is_silent(outside: Outside) -> None:
    with one_front(outside) as front:
        front.follow(0)
        front.pull(2)
        front.wait(2)
        front.producer.close()
        front.driver.settle()
        front.wait(2)


def check_a_pull_replaces_the_one_before(outside: Outside) -> None:
    with one_front(outside) as front:
        front.follow(0)
        front.pull(2)
        front.pull(3)
        assert front.wait(3) == list(outside.payloads[:3])


def check_an_older_fence_is_ignored(outside: Outside) -> None:
    with one_front(outside) as front:
        front.follow(4, attempt=2)
        # Of an attempt that does not know yet that it has been replaced.
        front.follow(0, attempt=1)
        front.pull(PLENTY, attempt=1)
        front.wait(0, attempt=1)
        front.pull(2, attempt=2)
        assert front.wait(2, attempt=2) == list(outside.payloads[4:6])
        front.wait(0, attempt=1)


def check_nothing_is_behind_the_end(outside: Outside) -> None:
    with one_front(outside) as front:
        front.follow(RECORDS)
        front.pull(PLENTY)
        front.wait(0)
        assert not [event for event in front.driver.events if isinstance(event, SourceFailed)]


def check_every_worker_gets_the_same(outside: Outside) -> None:
    for offset in (0, 3, RECORDS - 1):
        with one_front(outside) as front:
            front.follow(offset)
            front.pull(PLENTY)
            assert front.wait(RECORDS - offset) == list(outside.payloads[offset:])


def check_records_are_payloads_with_a_size(outside: Outside) -> None:
    with one_front(outside) as front:
        front.follow(0)
        front.pull(PLENTY)
        for payload in front.wait(RECORDS):
            check_payload(payload)
        for event in front.driver.events:
            assert not isinstance(event, RecordsArrived) or event.size > 0 or not event.payloads


def check_tells_of_its_own_partition_alone(outside: Outside) -> None:
    with one_front(outside) as front:
        front.follow(0)
        front.pull(RECORDS)
        front.wait(RECORDS)
        told = {event.partition for event in front.driver.events if isinstance(event, RecordsArrived)}
        assert {each for each in told if not each.startswith(NOTE)} == {outside.partition}


def check_reads_a_run_again(outside: Outside) -> None:
    with one_front(outside) as front:
        runs = [run_of(outside, 100, 2, 5), run_of(outside, 200, 5, 6)]
        for run in runs:
            front.producer.read(ReadRun(Front.fence(1), FRONT, run))
        answers = [front.driver.take(RunRead) for _ in runs]
        assert [answer.entry for answer in answers] == runs, "answered in the order asked"
        assert [list(answer.payloads) for answer in answers] == [
            list(outside.payloads[2:5]),
            list(outside.payloads[5:6]),
        ]
        front.follow(6)
        front.pull(PLENTY)
        assert front.wait(4) == list(outside.payloads[6:])


def check_a_new_worker_reads_a_run_again(outside: Outside) -> None:
    """Runs are read in the order asked, also where they overlap, and a newer fence forgets them."""
    with one_front(outside) as front:
        for time, (first, count) in enumerate([(7, 3), (0, 10), (4, 1)], 1):
            front.producer.read(
                ReadRun(Front.fence(1), FRONT, run_of(outside, 100 * time, first, first + count))
            )
        found = [list(front.driver.take(RunRead).payloads) for _ in range(3)]
        assert found == [list(outside.payloads[7:]), list(outside.payloads), list(outside.payloads[4:5])]
        run = run_of(outside, 900, 1, 2)
        front.producer.read(ReadRun(Front.fence(2), FRONT, run))
        answer = front.driver.take(RunRead)
        assert (answer.fence, list(answer.payloads)) == (Front.fence(2), list(outside.payloads[1:2]))


REPLAY_CHECKS: Final[list[Callable[[Outside], None]]] = [
    check_reads_a_run_again,
    check_a_new_worker_reads_a_run_again,
]
PRODUCER_CHECKS: Final[list[Callable[[Outside], None]]] = checks_in(globals(), but=REPLAY_CHECKS)
