"""The leave of a job for one of another cluster, in a real ZooKeeper that the operators of both reach."""

from collections.abc import Iterator

import pytest

from flamestream.model.errors import UserError
from flamestream.store.zookeeper import ClusterState
from flamestream.store.zookeeper_leave import Leave, ZooKeeperLeave
from flamestream.store.zookeeper_server import EmbeddedZooKeeper
from support.eventually import eventually

JOB = "here.blue"
LEAVE = Leave(job=JOB, to="there.green", kept={"spec.guarantee": "1"})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zk")) as made:
        yield made


@pytest.fixture
def here(server: EmbeddedZooKeeper) -> Iterator[ClusterState]:
    """The session of the operator whose job it is."""
    with ClusterState(server.access) as state:
        yield state
        state.delete(JOB)


@pytest.fixture
def there(server: EmbeddedZooKeeper) -> Iterator[ClusterState]:
    """The other one's."""
    with ClusterState(server.access) as state:
        yield state


def test_what_one_operator_gives_the_other_reads_until_it_is_taken_away(
    here: ClusterState, there: ClusterState
) -> None:
    mine, theirs = ZooKeeperLeave(here, JOB), ZooKeeperLeave(there, JOB)
    assert theirs.read() is None
    assert mine.give(LEAVE) == ""
    assert theirs.read() == LEAVE
    other = Leave(job=JOB, to="there.red", kept={})
    mine.give(other)
    assert theirs.read() == other
    mine.give(None)
    mine.give(None)
    assert theirs.read() is None


def test_who_asks_is_heard_as_long_as_it_asks(here: ClusterState, there: ClusterState) -> None:
    mine, theirs = ZooKeeperLeave(here, JOB), ZooKeeperLeave(there, JOB)
    mine.give(LEAVE)
    theirs.ask("there.green")
    theirs.ask("there.green")
    assert mine.give(LEAVE) == "there.green"
    theirs.ask("")
    assert mine.give(LEAVE) == ""


def test_an_operator_that_dies_asks_no_more(server: EmbeddedZooKeeper, here: ClusterState) -> None:
    mine = ZooKeeperLeave(here, JOB)
    mine.give(LEAVE)
    with ClusterState(server.access) as dies:
        ZooKeeperLeave(dies, JOB).ask("there.green")
        assert mine.give(LEAVE) == "there.green"
    eventually(lambda: mine.give(LEAVE) == "", "nobody asks")


def test_a_job_that_is_not_there_cannot_be_asked(there: ClusterState) -> None:
    with pytest.raises(UserError, match=r"here\.blue.*has never run"):
        ZooKeeperLeave(there, JOB).ask("there.green")
