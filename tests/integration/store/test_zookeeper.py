"""The job record in a real ZooKeeper: one writer wins each round, and what is not known is said."""

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from kazoo.client import KazooClient

from flamestream.core.protocol.job_record import JobRecord
from flamestream.machine.process_identity import ProcessIdentity
from flamestream.model.errors import ClusterStateUnavailable, Corrupt, UserError
from flamestream.model.ids import Attempt, Epoch, LayoutVersion, WorkerId
from flamestream.model.layout import Layout
from flamestream.model.time import Time
from flamestream.store.zookeeper import ClusterState, SingleInstance, ZooKeeperJobRecords
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream.store.zookeeper_server import EmbeddedZooKeeper
from support.eventually import eventually
from support.processes import kill

WORKER = WorkerId("w1")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zk")) as server:
        yield server


@pytest.fixture
def job(request: pytest.FixtureRequest) -> str:
    """A job of its own for every test."""
    return str(request.node.name)


@pytest.fixture
def state(shared: EmbeddedZooKeeper) -> Iterator[ClusterState]:
    with ClusterState(shared.access) as connected:
        yield connected


def record(attempt: int, writer: str = "") -> JobRecord:
    layout = Layout(LayoutVersion(1), (WORKER, WORKER), (WORKER,), WORKER)
    return JobRecord(
        attempt=Attempt(attempt),
        layout=layout,
        announced=Epoch(3),
        committed=Epoch(2),
        cut=Time(2**63 + 5),
        index="epoch-2",
        index_hash="ab",
        writer=writer,
    )


def expire(client: KazooClient) -> None:
    """End the session of `client` as ZooKeeper would: by closing it through another connection."""
    lost = threading.Event()
    client.add_listener(lambda state: lost.set() if state == "LOST" else None)
    double = KazooClient(
        client.hosts if isinstance(client.hosts, str) else ",".join(f"{h}:{p}" for h, p in client.hosts)
    )
    double._session_id, double._session_passwd = client.client_id
    double.start()
    double.stop()
    double.close()
    assert lost.wait(60), "the client never learnt that its session is gone"


def test_there_is_no_record_before_the_first_attempt(state: ClusterState, job: str) -> None:
    assert ZooKeeperJobRecords(state, job).read() is None


def test_what_was_written_is_read_with_its_version(state: ClusterState, job: str) -> None:
    records = ZooKeeperJobRecords(state, job)
    version = records.compare_and_set(record(1), None)
    assert version is not None
    assert records.read() == (record(1), version)
    newer = records.compare_and_set(record(2), version)
    assert newer is not None
    assert newer != version
    assert records.read() == (record(2), newer)


def test_a_write_over_another_version_is_a_conflict_and_changes_nothing(
    state: ClusterState, job: str
) -> None:
    records = ZooKeeperJobRecords(state, job)
    assert records.compare_and_set(record(9), 0) is None, "there is no record yet"
    version = records.compare_and_set(record(1), None)
    assert version is not None
    assert records.compare_and_set(record(9), None) is None
    assert records.compare_and_set(record(9), version + 1) is None
    assert records.read() == (record(1), version)


def test_of_racing_writers_one_wins_each_round(shared: EmbeddedZooKeeper, job: str) -> None:
    rounds = 40
    with ClusterState(shared.access) as one, ClusterState(shared.access) as two:
        sides = {"one": ZooKeeperJobRecords(one, job), "two": ZooKeeperJobRecords(two, job)}
        version: int | None = None
        for attempt in range(1, rounds + 1):
            answers = race({name: writes(side, attempt, name, version) for name, side in sides.items()})
            winners = [name for name, answer in answers.items() if answer is not None]
            assert len(winners) == 1, f"round {attempt}: {answers}"
            version = answers[winners[0]]
            for side in sides.values():
                assert side.read() == (record(attempt, winners[0]), version)


def writes(
    side: ZooKeeperJobRecords, attempt: int, name: str, version: int | None
) -> Callable[[], int | None]:
    return lambda: side.compare_and_set(record(attempt, name), version)


def race(calls: dict[str, Callable[[], int | None]]) -> dict[str, int | None]:
    """The results of all calls, made at the same moment as far as threads can."""
    start = threading.Barrier(len(calls))
    answers: dict[str, int | None] = {}

    def run(name: str, call: Callable[[], int | None]) -> None:
        start.wait()
        answers[name] = call()

    threads = [threading.Thread(target=run, args=item) for item in calls.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_an_acknowledged_record_survives_a_killed_server(tmp_path: Path, job: str) -> None:
    with EmbeddedZooKeeper(tmp_path) as server, ClusterState(server.access) as state:
        records = ZooKeeperJobRecords(state, job)
        version = records.compare_and_set(record(7), None)
        kill(server.pid)
        eventually(server.ensure_running, "the server is started again")
        assert eventually(lambda: read_or_none(records), "the record is read from the restarted server") == (
            record(7),
            version,
        )
        assert records.compare_and_set(record(8), version) is not None


def read_or_none(records: ZooKeeperJobRecords) -> tuple[JobRecord, int] | None:
    try:
        return records.read()
    except ClusterStateUnavailable:
        return None


def test_without_a_server_a_write_is_of_unknown_outcome_in_bounded_time(
    tmp_path: Path, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flamestream.store.zookeeper.ANSWER_WITHIN", 0.3)
    with EmbeddedZooKeeper(tmp_path) as server, ClusterState(server.access) as state:
        records = ZooKeeperJobRecords(state, job)
        version = records.compare_and_set(record(1), None)
        kill(server.pid)
        with pytest.raises(ClusterStateUnavailable, match="read again"):
            records.compare_and_set(record(2), version)
        with pytest.raises(ClusterStateUnavailable, match=f"reading /flamestream/{job}/record"):
            records.read()
        eventually(server.ensure_running, "the server is started again")
        found = eventually(lambda: read_or_none(records), "the record is read from the restarted server")
        assert found in {(record(1), version), (record(2), 1)}


def test_after_an_expired_session_the_record_is_reached_by_a_new_one(state: ClusterState, job: str) -> None:
    records = ZooKeeperJobRecords(state, job)
    version = records.compare_and_set(record(1), None)
    expire(state.client)
    assert eventually(lambda: read_or_none(records), "the record is read in a new session") == (
        record(1),
        version,
    )
    assert records.compare_and_set(record(2), version) is not None


def test_an_unreachable_zookeeper_is_named() -> None:
    with pytest.raises(
        ClusterStateUnavailable, match=r"no ZooKeeper answers at 127\.0\.0\.1:1 within 0\.3 s"
    ):
        ClusterState(ZooKeeperAccess("127.0.0.1:1"), connect_within=0.3)


def test_a_foreign_record_is_an_error_that_names_it(state: ClusterState, job: str) -> None:
    state.client.create(f"/flamestream/{job}/record", b'{"attempt": "none"}', makepath=True)
    with pytest.raises(Corrupt, match=f"/flamestream/{job}/record"):
        ZooKeeperJobRecords(state, job).read()


@pytest.mark.parametrize("name", ["", "a/b", ".."])
def test_a_name_that_is_no_node_is_refused(state: ClusterState, name: str) -> None:
    with pytest.raises(UserError, match="cannot be a job's name"):
        ZooKeeperJobRecords(state, name)


def test_a_second_launcher_is_refused_with_the_holders_name(
    shared: EmbeddedZooKeeper, state: ClusterState, job: str
) -> None:
    SingleInstance(state, job).claim()
    with (
        ClusterState(shared.access) as other,
        pytest.raises(UserError, match=f"{job}.* already run by process {os.getpid()} on "),
    ):
        SingleInstance(other, job).claim()


def test_a_released_job_can_be_claimed(shared: EmbeddedZooKeeper, state: ClusterState, job: str) -> None:
    first = SingleInstance(state, job)
    first.claim()
    first.release()
    with ClusterState(shared.access) as other:
        SingleInstance(other, job).claim()
        first.release()
        with ClusterState(shared.access) as third, pytest.raises(UserError, match="already run"):
            SingleInstance(third, job).claim()


def test_the_claim_of_a_dead_launcher_of_this_machine_does_not_hold(
    shared: EmbeddedZooKeeper, state: ClusterState, job: str
) -> None:
    dead = msgspec.structs.replace(ProcessIdentity.of_this_process(), ticks=1)
    state.client.create(
        f"/flamestream/{job}/launcher", msgspec.json.encode(dead), ephemeral=True, makepath=True
    )
    with ClusterState(shared.access) as other:
        SingleInstance(other, job).claim()


def test_the_claim_of_a_launcher_elsewhere_holds_while_its_session_does(
    shared: EmbeddedZooKeeper, job: str
) -> None:
    elsewhere = msgspec.structs.replace(ProcessIdentity.of_this_process(), place="another boot", ticks=1)
    with ClusterState(shared.access) as other:
        other.client.create(
            f"/flamestream/{job}/launcher", msgspec.json.encode(elsewhere), ephemeral=True, makepath=True
        )
        with ClusterState(shared.access) as state, pytest.raises(UserError, match="already run"):
            SingleInstance(state, job).claim()
    with ClusterState(shared.access) as state:
        SingleInstance(state, job).claim()


@pytest.mark.parametrize("login", ["", "flamestream:guessed"])
def test_without_its_login_nobody_reads_writes_or_removes_what_is_there(
    shared: EmbeddedZooKeeper, state: ClusterState, job: str, login: str
) -> None:
    """Who reaches the port is not yet who made it: a write of `completed` would end a running job."""
    job = job.replace("[", "-").replace(":", "-")
    version = ZooKeeperJobRecords(state, job).compare_and_set(record(1), None)
    with ClusterState(replace(shared.access, login=login)) as stranger:
        for attack in (
            lambda: ZooKeeperJobRecords(stranger, job).read(),
            lambda: ZooKeeperJobRecords(stranger, job).compare_and_set(record(2), version),
            lambda: ZooKeeperJobRecords(stranger, f"{job}-new").compare_and_set(record(1), None),
            lambda: stranger.delete(job),
            lambda: SingleInstance(stranger, job).claim(),
        ):
            with pytest.raises(UserError, match="somebody with another login has made that node"):
                attack()
    assert ZooKeeperJobRecords(state, job).read() == (record(1), version)
    assert "@" not in state.hosts, "what is said in messages has no password"


def test_the_login_is_for_the_folders_owner_only(shared: EmbeddedZooKeeper) -> None:
    login = shared._folder / "login"
    assert login.read_text() == shared.access.login
    assert login.stat().st_mode & 0o777 == 0o600
