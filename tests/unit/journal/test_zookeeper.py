"""The session with ZooKeeper of a worker's journal: when it is made, and that it is one."""

import threading
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from flamestream.core.protocol.actions import SealJournal
from flamestream.core.protocol.events import JournalFailed
from flamestream.journal.zookeeper import zookeeper_journal
from flamestream.model.errors import ClusterStateUnavailable
from flamestream.model.ids import Attempt, Fence, LayoutVersion
from flamestream.model.time import START, FrontId
from flamestream.store.zookeeper import ClusterState
from flamestream.testing.port_driver import PortDriver


class Silent:
    """A session that answers nothing."""

    hosts = "somewhere"

    def ask(self, what: str, _call: Callable[[], object]) -> object:
        raise ClusterStateUnavailable(f"{what} got no answer")


@pytest.fixture
def driver() -> Iterator[PortDriver]:
    with PortDriver() as made:
        yield made


def test_the_session_is_there_before_a_front_is_sealed(driver: PortDriver) -> None:
    made = threading.Event()

    def connect() -> ClusterState:
        made.set()
        return cast(ClusterState, Silent())

    zookeeper_journal(connect, "job", driver.reactor, driver.post)
    driver.until(made.is_set, "a session")


@pytest.mark.parametrize("problem", [None, OSError("nobody is there yet")])
def test_fronts_that_are_sealed_at_once_share_a_session(driver: PortDriver, problem: OSError | None) -> None:
    may, made = threading.Event(), []

    def connect() -> ClusterState:
        made.append(threading.get_ident())
        assert may.wait(30)
        if problem is not None and len(made) == 1:
            raise problem
        return cast(ClusterState, Silent())

    journal = zookeeper_journal(connect, "job", driver.reactor, driver.post)
    for front in range(2):
        journal.seal(SealJournal(Fence(Attempt(1), LayoutVersion(0)), FrontId(front), START))
    driver.until(lambda: bool(made), "a first try")
    may.set()
    for _ in range(2):
        assert "got no answer" in driver.take(JournalFailed).message
    assert len(made) == (1 if problem is None else 2)
