"""Coordinators of several jobs in one process, with a real ZooKeeper and real workers: what the operator
relies on."""

import re
import signal
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

from flamestream.job.status import JobStatus
from flamestream.model.errors import UserError
from flamestream.net.acceptor import listen
from flamestream.store.places import store_from
from flamestream.store.zookeeper import ClusterState
from flamestream.store.zookeeper_server import EmbeddedZooKeeper
from flamestream_operator.coordination import coordinators
from flamestream_operator.coordination.cluster_state import ZooKeeper
from flamestream_operator.coordination.coordinators import Coordinators
from support.eventually import eventually
from support.operator.hosted_job import HostedJob as Job


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zk")) as server:
        yield server


class Leader:
    """An operator's coordinators on a port that stays, as a Service's does."""

    def __init__(self, zookeeper: EmbeddedZooKeeper, port: int) -> None:
        self.heard: list[str] = []
        self.coordinators = Coordinators(
            zookeeper=ZooKeeper(access=zookeeper.access), host="127.0.0.1", port=port,
            changed=self.heard.append, store_of=lambda url, _: store_from(url),
        )  # fmt: skip

    def wait(self, job: str, seen: Callable[[JobStatus], bool]) -> JobStatus:
        """Until its status is so."""
        eventually(
            lambda: (status := self.coordinators.status(job)) is not None and seen(status),
            f"job {job}",
            within=60,
        )
        status = self.coordinators.status(job)
        assert status is not None
        return status


@pytest.fixture
def port() -> int:
    with listen("127.0.0.1") as probe:
        return int(probe.getsockname()[1])


@pytest.fixture
def leader(zookeeper: EmbeddedZooKeeper, port: int) -> Iterator[Leader]:
    made = Leader(zookeeper, port)
    yield made
    made.coordinators.close()


@pytest.fixture
def job(tmp_path: Path, port: int, request: pytest.FixtureRequest) -> Iterator[Job]:
    made = Job(re.sub("[^a-z0-9]+", "-", request.node.name)[:60].strip("-"), tmp_path, port)
    yield made
    made.end()


def runs(status: JobStatus) -> bool:
    return status.phase == "running" and status.epoch > 0


def test_a_job_runs_is_suspended_at_an_epoch_and_goes_on(leader: Leader, job: Job) -> None:
    leader.coordinators.start(job.told)
    leader.wait(job.name, lambda status: status.phase == "starting")
    workers = [job.start_worker() for _ in range(2)]
    leader.wait(job.name, runs)
    assert {member.worker for member in leader.coordinators.members(job.name)} == {"w0", "w1"}
    sampled = partial(leader.coordinators.samples, job.name)
    eventually(sampled, "a second is over, and nobody has looked before")
    leader.coordinators.suspend(job.name)
    drained = leader.wait(job.name, lambda status: bool(status.outcome))
    assert drained.outcome == "drained"
    assert [worker.wait(60) for worker in workers] == [0, 0]
    record = leader.coordinators.record(job.name).result(10)
    assert record is not None and record.committed == drained.epoch
    leader.coordinators.start(job.told)
    for _ in range(2):
        job.start_worker()
    assert (
        leader.wait(job.name, lambda status: runs(status) and status.epoch > drained.epoch).attempt
        > record.attempt
    )
    eventually(lambda: sampled()[-1].attempt > record.attempt, "the hour goes on")
    assert sampled()[0].attempt <= record.attempt, "and has what was before"
    leader.coordinators.stop(job.name)
    eventually(lambda: leader.coordinators.status(job.name) is None, "nobody coordinates it")
    assert sampled()[0].attempt <= record.attempt and sampled()[-1].attempt > record.attempt


def test_a_new_leader_adopts_the_running_stream(
    zookeeper: EmbeddedZooKeeper, leader: Leader, job: Job, port: int
) -> None:
    leader.coordinators.start(job.told)
    for _ in range(2):
        job.start_worker()
    before = leader.wait(job.name, runs)
    leader.coordinators.close()
    successor = Leader(zookeeper, port)
    try:
        successor.coordinators.start(job.told)
        after = successor.wait(job.name, lambda status: runs(status) and status.epoch > before.epoch)
        assert after.attempt == before.attempt, "nobody was disturbed"
    finally:
        successor.coordinators.close()


def test_a_retired_address_hands_its_slots_over_and_is_let_in_no_more(leader: Leader, job: Job) -> None:
    leader.coordinators.start(job.told)
    job.start_worker("127.0.0.2")
    job.start_worker()
    leader.wait(job.name, lambda status: runs(status) and len(status.workers) == 2)
    job.start_worker()
    leader.wait(job.name, lambda status: bool(status.standbys))
    leader.coordinators.retire(job.name, ["127.0.0.2"])
    after = leader.wait(
        job.name, lambda status: runs(status) and {worker.worker for worker in status.workers} == {"w1", "w2"}
    )
    assert after.standbys == []
    assert "w0" not in {member.worker for member in leader.coordinators.members(job.name)}


def test_a_worker_that_fell_silent_is_no_member_and_a_standby_says_when_it_has_the_state(
    leader: Leader, job: Job
) -> None:
    leader.coordinators.start(job.told)
    silent = job.start_worker()
    job.start_worker()
    leader.wait(job.name, lambda status: runs(status) and len(status.workers) == 2 and status.epoch > 0)
    job.start_worker()

    def members() -> dict[str, bool]:
        return {member.worker: member.warm for member in leader.coordinators.members(job.name)}

    eventually(lambda: members() == {"w0": True, "w1": True, "w2": True}, "the standby is warm")
    silent.send_signal(signal.SIGSTOP)
    eventually(lambda: set(members()) == {"w1", "w2"}, "the silent one is no member")


def test_a_savepoint_outlives_later_commits_and_begins_another_job(
    leader: Leader, job: Job, tmp_path: Path, port: int
) -> None:
    leader.coordinators.start(job.told)
    for _ in range(2):
        job.start_worker()
    leader.wait(job.name, runs)
    savepoint = leader.coordinators.savepoint(job.told, "first").result(20)
    leader.wait(job.name, lambda status: status.epoch > savepoint.epoch + 2)
    other = Job("another", tmp_path / "another", port)
    try:
        record = leader.coordinators.restore(other.told, savepoint).result(20)
        assert (record.committed, record.cut) == (savepoint.epoch, savepoint.cut)
        with pytest.raises(UserError, match="state of its own"):
            leader.coordinators.restore(other.told, savepoint).result(20)
        leader.coordinators.start(other.told)
        for _ in range(2):
            other.start_worker()
        leader.wait("another", lambda status: runs(status) and status.epoch > savepoint.epoch)
    finally:
        other.end()
    leader.coordinators.delete_savepoint(job.told.keys, savepoint).result(20)
    assert not list((tmp_path / "store" / "savepoints").rglob("*.parquet"))


def test_a_job_that_fails_leaves_the_others_alone(
    leader: Leader, job: Job, tmp_path: Path, port: int
) -> None:
    wrong = Job("wrong", tmp_path / "wrong", port)
    leader.coordinators.start(job.told)
    leader.coordinators.start(
        msgspec.structs.replace(wrong.told, settings=replace(wrong.told.settings, graph="another graph"))
    )
    try:
        wrong.start_worker()
        for _ in range(2):
            job.start_worker()
        leader.wait(job.name, runs)
        status = leader.wait("wrong", lambda status: bool(status.problems))
        assert "graph" in status.problems[0]
    finally:
        wrong.end()
    assert leader.coordinators.healthy()


def test_forgetting_a_job_leaves_no_trace(leader: Leader, tmp_path: Path, port: int) -> None:
    identity = "space.forgotten"  # as in a cluster: what its workers call its folder is not quite its name
    job = Job("forgotten", tmp_path / "forgotten", port, identity)
    leader.coordinators.start(job.told)
    workers = [job.start_worker() for _ in range(2)]
    leader.wait(identity, lambda status: runs(status) and status.epoch > 1)
    leader.coordinators.end(identity)
    leader.wait(identity, lambda status: status.outcome == "stopped")
    for worker in workers:
        worker.wait(60)
    leader.coordinators.stop(identity)
    leader.coordinators.forget(job.told).result(20)
    assert leader.coordinators.record(identity).result(10) is None
    assert [file for file in (tmp_path / "forgotten" / "store").rglob("*") if file.is_file()] == []


def test_of_jobs_that_are_coordinated_no_more_the_hours_of_so_many_are_kept(
    leader: Leader, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinators, "MOST_STOPPED", 2)
    names = ["one", "two", "three"]
    for name in names:
        leader.coordinators.start(Job(name, tmp_path / name, port).told)
        leader.coordinators.stop(name)
    eventually(lambda: list(leader.coordinators._stopped) == names[1:], "the oldest is gone")


REVEALING = """
import flamestream as fs

def revealed(number):
    raise ValueError(f"secret {number}")

graph = fs.Graph("numbers")
graph.source("numbers").map(revealed).sink("texts")
"""


def test_what_a_function_raised_is_in_the_worker_s_log_and_nowhere_else(
    leader: Leader, port: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A status is read by whoever may get the job; the operator's log by whoever runs it."""
    job = Job("revealing", tmp_path / "job", port, application=REVEALING)
    try:
        leader.coordinators.start(job.told)
        job.start_worker()
        job.start_worker()
        ended = leader.wait(job.name, lambda status: bool(status.outcome))
        assert (ended.outcome, ended.category) == ("failed", "user")
        assert "revealed raised ValueError: (see the worker's log) (record " in ended.message
        assert "secret" not in msgspec.json.encode(ended).decode() and "secret" not in caplog.text
        logs = "".join(file.read_text() for file in (tmp_path / "job").glob("worker-*.log"))
        assert "secret 0" in logs
    finally:
        job.end()


@pytest.mark.parametrize("damage", [b'{"job": "\xff"}', b"[" * 100_000, b"{}"], ids=["text", "depth", "kind"])
def test_a_damaged_record_ends_its_own_job_alone(
    zookeeper: EmbeddedZooKeeper, leader: Leader, job: Job, port: int, tmp_path: Path, damage: bytes
) -> None:
    victim = Job(f"victim-{uuid.uuid4().hex}", tmp_path / "victim", port)
    with ClusterState(zookeeper.access) as state:
        state.client.create(f"/flamestream/{victim.name}/record", damage, makepath=True)
    try:
        for each in (victim, job):
            leader.coordinators.start(each.told)
            each.start_worker()
            each.start_worker()
        before = leader.wait(job.name, runs)
        ended = leader.wait(victim.name, lambda status: bool(status.outcome))
        assert (ended.outcome, ended.category) == ("failed", "corrupt")
        assert f"/flamestream/{victim.name}/record" in ended.message
        leader.wait(job.name, lambda status: runs(status) and status.epoch > before.epoch + 2)
        assert leader.coordinators.healthy()
    finally:
        victim.end()
