"""Real kills: the inverted index on a real Spark, with everything that it consists of killed at random
moments of its output.

Every run ends with the reference's bytes: nothing lost, doubled or reordered, whoever died when. `make test`
has 28 kills; `make test-long` has more than a hundred.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flamestream.job.application import load
from flamestream.model.time import FrontId, Timestamp, time_of
from flamestream.reference import interpret
from support.documents import Folder, SocketServer, name, texts
from support.eventually import eventually
from support.runs.cli_job import REPOSITORY, CliJob, canonical, explained
from support.runs.kills import Killer, Role, drawn

pytestmark = pytest.mark.spark

INDEX = REPOSITORY / "examples" / "inverted_index.py"
LINES = REPOSITORY / "benchmarks" / "jobs" / "workload.py"
W, S, C, D, E, J, L, Z = (
    Role.WORKER, Role.STANDBY, Role.COORDINATOR, Role.DAEMON, Role.EXECUTOR, Role.DRIVER, Role.LAUNCHER,
    Role.ZOMBIE,
)  # fmt: skip
LOCAL = [W, W, W, W, S, C, C, D, J, L]
JOURNALLED = [W, W, W, W, C, D, L, Z]
FOLLOWED = [W, W, W, C, C, D]
CLUSTER = [E, E, W, C]
Make = Callable[..., CliJob]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Jobs that end with the test."""
    with ExitStack() as stack:

        def made(application: Path, source: dict[str, Any], **changes: Any) -> CliJob:
            spec = {
                "sources": {"docs": source},
                "sinks": {"index": {"files": {"path": "index", "fsync": False}}},
                **changes,
            }
            job = CliJob(tmp_path, application, spec)
            stack.callback(job.close)
            return job

        yield made


def expected(application: Path, records: Sequence[Any]) -> list[bytes]:
    """The reference's output for these records in this order."""
    runs = [(time_of(Timestamp(1 + number), FrontId(0)), [record]) for number, record in enumerate(records)]
    return canonical([payload for _, payload in interpret(load(application, "graph"), runs)["index"]])


def check_audit(job: CliJob, records: int, results: int, *, complete: bool) -> None:
    audit = job.audit()
    assert (audit["clean"], audit["complete"], audit["records"], audit["verdict"]["delivered"]) == (
        True,
        complete,
        records,
        results,
    ), audit


def survive_on_a_list_of_files(
    make: Make, folder: Path, count: int, seed: int, roles: Sequence[Role], **changes: Any
) -> None:
    """A timed source: the files of a folder, in the order of their names."""
    records = Folder(folder / "docs").add(range(count))
    wanted = expected(INDEX, records)
    job = make(INDEX, {"files": {"path": "docs"}}, **changes)
    killer = Killer(job, drawn(seed, roles), sum(map(len, wanted)), seed)
    with explained(job, killer):
        job.start()
        killer.run()
        assert job.end()[1]["outcome"] == "completed"
        assert canonical(job.delivered("index")) == wanted
        check_audit(job, count, len(wanted), complete=True)
    assert killer.kills == len(roles)


def survive_on_a_socket(make: Make, folder: Path, count: int, seed: int, roles: Sequence[Role]) -> None:
    """A journalled source that cannot replay: what is not in the journal is asked for again."""
    lines = [f"{number}\t{text}" for number, text in enumerate(texts(count))]
    wanted = expected(LINES, lines)
    with SocketServer([line.encode() for line in lines], held=True) as server:
        journal = {"folder": str(folder / "journal"), "fsync": False, "keep": True}
        job = make(LINES, {"socket": {"address": server.address}}, journal=journal)
        killer = Killer(
            job,
            drawn(seed, roles),
            sum(map(len, wanted)),
            seed,
            meanwhile=lambda part: server.grow_to(part + 0.05),
        )
        with explained(job, killer):
            job.start()
            killer.run()
            server.grow_to(1)
            assert job.end()[1]["outcome"] == "completed"
    assert canonical(job.delivered("index")) == wanted
    check_audit(job, count, len(wanted), complete=True)
    assert killer.kills == len([role for role in roles if role is not Z])


def survive_on_a_followed_folder(
    make: Make, folder: Path, count: int, seed: int, roles: Sequence[Role]
) -> None:
    """Files appear while the job runs; which is seen when is chance, and journalled."""
    docs = Folder(folder / "docs")
    wanted = expected(INDEX, [docs.made(number) for number in range(count)])
    total = sum(map(len, wanted))
    journal = {"folder": str(folder / "journal"), "fsync": False, "keep": True}
    job = make(
        INDEX,
        {"files": {"path": "docs", "follow": True}},
        journal=journal,
        workers={"replicas": 2, "standby": 1, "slots": 64},
    )
    killer = Killer(
        job, drawn(seed, roles), total, seed, meanwhile=lambda part: docs.grow_to(count, part + 0.05)
    )
    with explained(job, killer):
        job.start("--drain")
        killer.run()
        docs.grow_to(count, 1)
        eventually(
            lambda: len(job.delivered("index")) >= len(wanted), "all documents are through", within=120
        )
        job.running()
        job.signal(signal.SIGTERM)
        assert job.end()[1]["outcome"] == "drained"
        changes = job.delivered("index")
        order = list(dict.fromkeys(change.document for change in changes))
        assert sorted(order) == [name(number) for number in range(count)]
        assert canonical(changes) == expected(
            INDEX, [docs.made(int(found.removesuffix(".txt"))) for found in order]
        )
        check_audit(job, count, len(wanted), complete=False)
    assert killer.kills == len(roles)


@pytest.mark.slow  # a minute each: the demo kills over a list of files, and times of files over a folder
def test_a_list_of_files(make: Make, tmp_path: Path) -> None:
    survive_on_a_list_of_files(
        make, tmp_path, 1500, 1, LOCAL, workers={"replicas": 2, "standby": 1, "slots": 64}
    )


@pytest.mark.slow
def test_a_socket_with_a_journal(make: Make, tmp_path: Path) -> None:
    survive_on_a_socket(make, tmp_path, 1500, 2, JOURNALLED)


@pytest.mark.slow
def test_a_followed_folder(make: Make, tmp_path: Path) -> None:
    survive_on_a_followed_folder(make, tmp_path, 800, 3, FOLLOWED)


@pytest.mark.slow  # two minutes: tests/integration/spark kills a driver, a worker and an executor at each push
def test_lost_executors(make: Make, tmp_path: Path) -> None:
    survive_on_a_list_of_files(make, tmp_path, 1200, 4, CLUSTER, spark={"master": "local-cluster[2,1,512]"})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 104))
def test_a_list_of_files_for_long(make: Make, tmp_path: Path, seed: int) -> None:
    survive_on_a_list_of_files(
        make, tmp_path, 6000, seed, LOCAL * 2, workers={"replicas": 2, "standby": 1, "slots": 64}
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 203))
def test_a_socket_with_a_journal_for_long(make: Make, tmp_path: Path, seed: int) -> None:
    survive_on_a_socket(make, tmp_path, 6000, seed, JOURNALLED * 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 302))
def test_a_followed_folder_for_long(make: Make, tmp_path: Path, seed: int) -> None:
    survive_on_a_followed_folder(make, tmp_path, 3000, seed, FOLLOWED * 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(400, 402))
def test_lost_executors_for_long(make: Make, tmp_path: Path, seed: int) -> None:
    survive_on_a_list_of_files(
        make, tmp_path, 6000, seed, [*CLUSTER * 2, J], spark={"master": "local-cluster[2,1,512]"}
    )
