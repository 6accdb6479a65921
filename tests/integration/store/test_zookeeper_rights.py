"""A ZooKeeper that the operator and its jobs share: each has its own, a neighbour and a stranger nothing."""

import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.exceptions import MarshallingError, NoAuthError, QuotaExceededError
from kazoo.security import OPEN_ACL_UNSAFE

from flamestream.core.protocol.events import JournalFailed
from flamestream.core.protocol.job_record import JobRecord
from flamestream.journal.places import JournalConfig, build
from flamestream.loop.reactor import EpollReactor
from flamestream.model.errors import ClusterStateUnavailable, UserError
from flamestream.model.ids import Attempt, Epoch, LayoutVersion, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import Time
from flamestream.store.zookeeper import ClusterState, ZooKeeperJobRecords
from flamestream.store.zookeeper_leave import Leave, ZooKeeperLeave
from flamestream_operator.coordination.cluster_state import SharedClusterState
from flamestream_operator.objects.logins import login_of
from support.journals.worker import Worker
from support.loops import reactor
from support.zookeeper.pod import LOGIN, SharedZooKeeper

MINE, THEIRS = "space.mine", "space.theirs"
OTHER_LOGIN = f"operator:{'q' * 32}"


def record(attempt: int, outcome: str = "") -> JobRecord:
    layout = Layout(LayoutVersion(1), (WorkerId("w"),), (WorkerId("w"),), WorkerId("w"))
    return JobRecord(
        attempt=Attempt(attempt), layout=layout, announced=Epoch(3), committed=Epoch(2), cut=Time(5),
        index="m", index_hash="h", outcome=outcome,
    )  # fmt: skip


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SharedZooKeeper]:
    with SharedZooKeeper(tmp_path) as made:
        yield made


@pytest.fixture
def leader(server: SharedZooKeeper) -> Iterator[SharedClusterState]:
    """The operator's session, behind the first record of two jobs."""
    made = SharedClusterState(server.place(room=1 << 20))
    for job in (MINE, THEIRS):
        assert made.records(job).compare_and_set(record(1), None) == 0
    yield made
    made.close()


@pytest.fixture
def loop() -> Iterator[EpollReactor]:
    with reactor() as made:
        yield made


def worker_of(
    loop: EpollReactor, server: SharedZooKeeper, job: str, attempt: int = 1, login: str = LOGIN
) -> Worker:
    config = JournalConfig(zookeeper=server.access(login_of(job, login)))
    return Worker(loop, attempt, lambda post: build(config, job, 4, loop, post))


ATTACKS: dict[str, Callable[[ClusterState, str], object]] = {
    "says that it has completed": lambda state, job: ZooKeeperJobRecords(state, job).compare_and_set(
        record(1, "completed"), 0
    ),
    "deletes the record": lambda state, job: state.client.delete(f"/flamestream/{job}/record"),
    "deletes everything": lambda state, job: state.delete(job),
    "opens the record": lambda state, job: state.client.set_acls(
        f"/flamestream/{job}/record", OPEN_ACL_UNSAFE
    ),
    "gives leave to another job": lambda state, job: ZooKeeperLeave(state, job).give(
        Leave(job=job, to=THEIRS, kept={})
    ),
    "asks it to end": lambda state, job: ZooKeeperLeave(state, job).ask(THEIRS),
    "makes a node beside it": lambda state, job: state.client.create(f"/flamestream/{job}/outcome", b"x"),
    "makes a job": lambda state, job: state.client.create(
        "/flamestream/space.new/record", b"x", makepath=True
    ),
    "lists all jobs": lambda state, job: state.client.get_children("/flamestream"),
    "fills the server elsewhere": lambda state, job: state.client.create("/filled", b"x" * 1000),
    "fills it where quotas are": lambda state, job: state.client.create(
        "/zookeeper/quota/filled", b"x" * 1000
    ),
    "lifts its quota": lambda state, job: state.client.delete(
        f"/zookeeper/quota/flamestream/{job}/journal/zookeeper_limits"
    ),
}
ON_A_JOURNAL: dict[str, Callable[[ClusterState, str], object]] = {
    "reads a journal": lambda state, job: state.client.get(f"/flamestream/{job}/journal/front-3/fence"),
    "fences a journal": lambda state, job: state.client.set(
        f"/flamestream/{job}/journal/front-3/fence", b"99"
    ),
    "deletes a journal": lambda state, job: state.client.delete(
        f"/flamestream/{job}/journal", recursive=True
    ),
    "adds to a journal": lambda state, job: state.client.create(
        f"/flamestream/{job}/journal/front-3/entries/9", b"x"
    ),
}


def is_refused(attack: Callable[[ClusterState, str], object], state: ClusterState) -> bool:
    """Nothing but the right is missing."""
    try:
        attack(state, MINE)
    except NoAuthError:
        return True
    except UserError as error:
        return "another login" in str(error)
    return False


@pytest.mark.parametrize("who", ["the job itself", "a neighbour", "a stranger"])
def test_whoever_attacks_a_record_or_a_neighbour_is_refused_and_the_operator_goes_on(
    server: SharedZooKeeper, leader: SharedClusterState, loop: EpollReactor, who: str
) -> None:
    worker = worker_of(loop, server, MINE)
    worker.seal()
    worker.wrote(10)
    login = {
        "the job itself": login_of(MINE, LOGIN),
        "a neighbour": login_of(THEIRS, LOGIN),
        "a stranger": "",
    }[who]
    attacks = ATTACKS if who == "the job itself" else {**ATTACKS, **ON_A_JOURNAL}
    with server.session(login) as state:
        assert [name for name, attack in attacks.items() if not is_refused(attack, state)] == []
    assert leader.records(MINE).read() == (record(1), 0)
    assert leader.records(MINE).compare_and_set(record(2), 0) == 1
    worker.wrote(20)
    assert worker_of(loop, server, MINE, 2).seal() == [10, 20]


def test_a_job_reads_its_own_record_and_no_other(server: SharedZooKeeper, leader: SharedClusterState) -> None:
    with server.session(login_of(MINE, LOGIN)) as state:
        assert ZooKeeperJobRecords(state, MINE).read() == (record(1), 0)
        with pytest.raises(Exception, match="another login"):
            ZooKeeperJobRecords(state, THEIRS).read()


def test_what_was_open_is_closed_by_who_leads_first(server: SharedZooKeeper, loop: EpollReactor) -> None:
    """As older versions have left it: records and journals that everybody may write."""
    with server.session() as before:
        ZooKeeperJobRecords(before, MINE).compare_and_set(record(1), None)
        config = JournalConfig(zookeeper=server.access(""))
        old = Worker(loop, 1, lambda post: build(config, MINE, 4, loop, post))
        old.seal()
        old.wrote(10)
        ATTACKS["makes a node beside it"](before, MINE)
        leader = SharedClusterState(server.place(room=1 << 20))
        assert leader.records(MINE).read() == (record(1), 0)
        assert [
            name for name, attack in {**ATTACKS, **ON_A_JOURNAL}.items() if not is_refused(attack, before)
        ] == []
        entry = f"/flamestream/{MINE}/journal/front-3/entries/00000001-00000001-{10:020d}"
        assert is_refused(lambda state, _: state.client.set(entry, b"forged"), before)
    assert isinstance(old.append(20), JournalFailed), (
        "a worker of before has no right any more: it waits for its successor"
    )
    assert worker_of(loop, server, MINE, 2).seal() == [10]
    leader.close()


def test_everything_is_closed_once_and_not_by_every_leader(
    server: SharedZooKeeper, leader: SharedClusterState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flamestream.store.zookeeper_rights.Rights._close_job", None)
    successor = SharedClusterState(server.place())
    assert successor.records(MINE).read() == (record(1), 0)
    successor.close()


def test_a_secret_that_was_made_anew_ends_no_job(
    server: SharedZooKeeper, leader: SharedClusterState, loop: EpollReactor
) -> None:
    """The chart's server, whose superuser the operator is: all is the new login's, and pods of the old one
    wait for their successors."""
    old = worker_of(loop, server, MINE)
    old.seal()
    old.wrote(10)
    leader.close()
    server.start(OTHER_LOGIN)
    successor = SharedClusterState(server.place(OTHER_LOGIN))
    assert successor.records(MINE).compare_and_set(record(2), 0) == 1
    old.ask(20)
    failed = next(
        event
        for event in iter(old.next, None)
        if isinstance(event, JournalFailed) and "login" in event.message
    )
    assert "tried again" in failed.message
    late = worker_of(loop, server, MINE, 2)
    late.ask_to_seal()
    assert isinstance(late.next(), JournalFailed), "a recovery meanwhile waits as well, and ends no job"
    assert worker_of(loop, server, MINE, 2, OTHER_LOGIN).seal() == [10]
    with server.session(LOGIN) as former, pytest.raises(Exception, match="another login"):
        ZooKeeperJobRecords(former, MINE).read()
    successor.close()


def lose_rights(data: Path, node: str) -> None:
    """Have the newest snapshot say that the node's rights are the ten thousandth, which there are not.

    It is a tree, a digest of 20 bytes and a zxid, each with a seal behind it: the Adler-32 of all before, and "/".
    """
    file = max(data.glob("version-2/snapshot.*"), key=lambda path: int(path.suffix[1:], 16))
    content = bytearray(file.read_bytes())
    at = content.index(struct.pack(">i", len(node)) + node.encode()) + 4 + len(node)
    (size,) = struct.unpack_from(">i", content, at)
    struct.pack_into(">q", content, at + 4 + max(size, 0), 10_000)
    last = len(content) - 13
    for seal in (last - 21 - 33, last - 21, last):
        struct.pack_into(">q", content, seal, zlib.adler32(content[:seal]))
    file.write_bytes(content)


def test_a_node_whose_rights_the_server_has_lost_holds_up_no_other_job(
    server: SharedZooKeeper, leader: SharedClusterState, tmp_path: Path
) -> None:
    """As a ZooKeeper has left it that was killed: it can neither show the node nor change it."""
    leader.close()
    server.start()  # it writes a snapshot
    server.close()
    lose_rights(tmp_path / "data", f"/flamestream/{MINE}/journal")
    server.start(OTHER_LOGIN)
    successor = SharedClusterState(server.place(OTHER_LOGIN))
    assert successor.records(THEIRS).compare_and_set(record(2), 0) == 1
    successor.close()
    with server.session(OTHER_LOGIN) as session, pytest.raises(MarshallingError):
        session.client.get(f"/flamestream/{MINE}/journal")


def test_a_login_without_a_right_is_an_outage_and_no_error_of_a_job(
    server: SharedZooKeeper, leader: SharedClusterState
) -> None:
    """An ensemble of one's own, whose superuser is somebody else: streams run on, and epochs wait for the
    right login."""
    wrong = SharedClusterState(server.place(OTHER_LOGIN))
    for call in (wrong.records(MINE).read, lambda: wrong.records(MINE).compare_and_set(record(2), 0)):
        with pytest.raises(ClusterStateUnavailable, match="refuses reading /flamestream"):
            call()
    wrong.close()
    assert leader.records(MINE).read() == (record(1), 0)


def test_a_journal_that_is_full_waits_for_room_and_leaves_others_theirs(
    server: SharedZooKeeper, loop: EpollReactor
) -> None:
    leader = SharedClusterState(server.place(room=100_000))
    for job in (MINE, THEIRS):
        leader.records(job).read()
    greedy, modest = worker_of(loop, server, MINE), worker_of(loop, server, THEIRS)
    greedy.seal(), modest.seal()
    greedy.ask(10, payloads=bytes(60_000))
    greedy.reported(10)
    greedy.ask(20, payloads=bytes(60_000))
    failed = greedy.next()
    assert (
        isinstance(failed, JournalFailed)
        and "full" in failed.message
        and "zookeeper.journalRoom" in failed.message
    )
    modest.wrote(10)
    with server.session(login_of(MINE, LOGIN)) as state, pytest.raises(QuotaExceededError):
        state.client.create(f"/flamestream/{MINE}/journal/beside", bytes(60_000))
    greedy.ask_to_trim(15)  # what a commit lets go
    greedy.reported(20)
    leader.close()


def test_another_room_counts_for_journals_that_are_there(server: SharedZooKeeper, loop: EpollReactor) -> None:
    for room in (100_000, 300_000):
        leader = SharedClusterState(server.place(room=room))
        leader.records(MINE).read()
        leader.close()
    worker = worker_of(loop, server, MINE)
    worker.seal()
    worker.ask(10, payloads=bytes(200_000))
    assert worker.reported(10) == []


def test_what_is_deleted_leaves_no_node_and_no_quota(server: SharedZooKeeper, loop: EpollReactor) -> None:
    leader = SharedClusterState(server.place(room=100_000))
    leader.records(MINE).compare_and_set(record(1), None)
    worker = worker_of(loop, server, MINE)
    worker.seal()
    worker.wrote(10)
    # what its operator could not remove, were it not the superuser
    with server.session(login_of(MINE, LOGIN)) as state:
        state.client.create(f"/flamestream/{MINE}/journal/locked/below", b"", makepath=True)
    leader.delete(MINE)
    with server.session(LOGIN) as state:
        assert state.client.get_children("/flamestream") == []
        assert state.client.get_children("/zookeeper/quota/flamestream") == []
    leader.close()
