"""A job that was restored from another's savepoint, for real: the audit begins with the state that the engine
has saved."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flamestream.audit.committed import LastCommit, cluster_state_of, committed_here, savepoint_named
from flamestream.audit.job_audit import audited
from flamestream.audit.report import Report
from flamestream.job.manifest import read
from flamestream.job.validation import checked_job
from flamestream.store.folder import LocalStore
from flamestream.store.zookeeper import ClusterState, ZooKeeperJobRecords
from flamestream.store.zookeeper_server import EmbeddedZooKeeper
from flamestream_operator.coordination import savepoints
from flamestream_operator.coordination.hosting import Savepoint
from support.eventually import eventually
from support.runs.cli_job import NAME, CliJob
from support.runs.past_run import own_modules

APPLICATION = """\
import flamestream as fs

graph = fs.Graph("words")
words = graph.source("lines")
words.reduce(key=lambda line: line.split()[0], initial=fs.Vector, combine=lambda seen, line: seen.append(line)).sink("seen")
words.group(window=3, key=lambda line: line.split()[0]).sink("windows")
"""  # noqa: E501
SAVEPOINT = "before-0123abcd"


def job_in(folder: Path, source: Path, journal: str) -> CliJob:
    """Its own application, store, journal and sinks; the source is everybody's."""
    folder.mkdir()
    (folder / f"words_of_{folder.name}.py").write_text(APPLICATION)
    spec: dict[str, Any] = {
        "sources": {"lines": {"files": {"path": str(source), "records": "lines", "follow": True}}},
        "sinks": {name: {"files": {"path": name, "fsync": False}} for name in ("seen", "windows")},
        "journal": {"folder": journal, "keep": True},
    }
    job = CliJob(folder, folder / f"words_of_{folder.name}.py", spec, spark=False)
    job.manifest.write_text(job.manifest.read_text().replace(f'"name": "{NAME}"', f'"name": "{folder.name}"'))
    return job


def lines(file: Path, first: int, end: int) -> None:
    with file.open("a") as log:
        log.writelines(f"{'abcdefg'[number % 7]} {number}\n" for number in range(first, end))


def run_until(job: CliJob, results: int) -> None:
    """Until each sink has so many results, then drained."""
    job.start("--drain")
    job.running()
    eventually(
        lambda: [len(job.delivered(sink)) for sink in ("seen", "windows")] == [results, results],
        f"{results} results",
        within=60,
    )
    job.signal(signal.SIGTERM)
    assert job.end()[1]["outcome"] == "drained", job.told()


def committed(job: CliJob) -> LastCommit:
    found = read(job.manifest)
    with cluster_state_of(job.run_folder) as zookeeper:
        return committed_here(job.run_folder, zookeeper, found.name, found.store)


def restored(job: CliJob, savepoint: Savepoint, source: LocalStore) -> None:
    """As the operator does it: the first record of a job that has never run."""
    target = LocalStore(job.path / "snapshots", create=True)
    record = savepoints.restore(source, savepoint, target, job.path.name)
    with EmbeddedZooKeeper(job.run_folder.zookeeper) as zookeeper, ClusterState(zookeeper.access) as state:
        assert ZooKeeperJobRecords(state, job.path.name).compare_and_set(record, None) is not None


def audit(job: CliJob, store: str) -> Report:
    last = committed(job)
    begins = LastCommit(last.record, last.index, last.held, last.outcome, savepoint_named("before", store))
    return audited(checked_job(read(job.manifest)), begins)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[list[CliJob]]:
    made: list[CliJob] = []
    with own_modules():
        yield made
    for job in made:
        job.close()


def test_a_restored_job_is_audited_from_the_state_of_its_savepoint_on(
    tmp_path: Path, jobs: list[CliJob]
) -> None:
    (source := tmp_path / "in").mkdir()
    lines(source / "log", 0, 50)
    first, second = (
        job_in(tmp_path / "first", source, "zookeeper://"),
        job_in(tmp_path / "second", source, "journal"),
    )
    jobs += [first, second]
    run_until(first, 50)
    assert (told := first.audit())["clean"] and told["records"] == 50, (
        "its journal is in the ZooKeeper of the run folder"
    )
    store = LocalStore(first.path / "snapshots")
    record = committed(first).record
    assert record is not None
    restored(second, savepoints.take(store, str(store.root), record, "first", SAVEPOINT), store)
    lines(source / "log", 50, 90)
    run_until(second, 40)

    report = audit(second, str(store.root))
    assert report.clean and (report.records, report.verdict.delivered) == (40, 80), report
    assert "savepoint 'before'" in report.bounds.begins
    max((second.path / "seen").glob("*.log"), key=lambda log: log.stat().st_size).unlink()
    report = audit(second, str(store.root))
    assert report.verdict.lost == 80 - report.verdict.delivered > 0 and not report.kept
