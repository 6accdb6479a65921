"""Checks of a producer while its outside is away, for an outside whose server can be killed and started
again.

    @pytest.mark.parametrize("check", PRODUCER_OUTAGE_CHECKS, ids=lambda check: check.__name__)
    def test_my_source_outlives_its_server(check, server):
        check(MyOutside(server))

An outage is nobody's fault: nothing fails, and when the server is back the records go on where they were.
(`REPLAY_OUTAGE_CHECKS` are for sources that can be read again.)
"""

from collections.abc import Callable
from typing import Final, Protocol

from flamestream.core.protocol.actions import ReadRun
from flamestream.core.protocol.events import RunRead, SourceFailed
from flamestream.testing.port_driver import PortDriver, Stoppable, checks_in
from flamestream.testing.producer_contract import FRONT, PLENTY, RECORDS, Front, Outside, one_front, run_of


class StoppableOutside(Outside, Stoppable, Protocol):
    """A producer whose server can be killed."""


def check_following_waits_for_the_server(outside: StoppableOutside) -> None:
    outside.stop()
    with one_front(outside) as front:
        front.follow(0)
        front.pull(PLENTY)
        front.wait(0)
        assert not _failed(front.driver)
        outside.start()
        assert front.wait(RECORDS) == list(outside.payloads)


def check_killed_between_records(outside: StoppableOutside) -> None:
    with one_front(outside) as front:
        front.follow(0)
        for count in range(2, RECORDS + 1, 2):
            front.pull(2)
            # killed at another moment each time
            front.driver.settle(count // 2)
            outside.stop()
            outside.start()
            front.wait(count)
        assert front.got() == list(outside.payloads)
        assert not _failed(front.driver)


def check_a_replay_waits_for_the_server(outside: StoppableOutside) -> None:
    outside.stop()
    with one_front(outside) as front:
        front.producer.read(ReadRun(Front.fence(1), FRONT, run_of(outside, 100, 2, 5)))
        front.driver.settle()
        assert front.driver.events == []
        outside.start()
        assert list(front.driver.take(RunRead).payloads) == list(outside.payloads[2:5])


def _failed(driver: PortDriver) -> bool:
    return any(isinstance(event, SourceFailed) for event in driver.events)


def check_gives_the_rest_behind_a_killed_server(outside: StoppableOutside) -> None:
    """The server is killed while the front follows it, and while it reads again: nothing is lost, doubled or
    reordered.

    All in one, for servers that take long to start.
    """
    with one_front(outside) as front:
        front.follow(0)
        front.pull(4)
        front.wait(4)
        outside.stop()
        front.pull(RECORDS)
        front.driver.settle()
        outside.start()
        assert front.wait(RECORDS) == list(outside.payloads)
        outside.stop()
        front.producer.read(ReadRun(Front.fence(2), FRONT, run_of(outside, 100, 2, 5)))
        front.driver.settle()
        outside.start()
        assert list(front.driver.take(RunRead).payloads) == list(outside.payloads[2:5])
        front.follow(5, attempt=2)
        front.pull(PLENTY, attempt=2)
        assert front.wait(5, attempt=2) == list(outside.payloads[5:])


REPLAY_OUTAGE_CHECKS: Final[list[Callable[[StoppableOutside], None]]] = [check_a_replay_waits_for_the_server]
_OTHERS: Final = [*REPLAY_OUTAGE_CHECKS, check_gives_the_rest_behind_a_killed_server]
PRODUCER_OUTAGE_CHECKS: Final[list[Callable[[StoppableOutside], None]]] = checks_in(globals(), but=_OTHERS)
