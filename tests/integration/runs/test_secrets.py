"""A live job's secrets: in no process's arguments or environment, in no log, and in a few files that are
their owner's alone."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes import descendants, kill
from support.runs.cli_job import NAME, CliJob, explained

APPLICATION = """\
import flamestream as fs

graph = fs.Graph("sums")
graph.source("numbers").reduce(key=lambda n: n % 7, initial=int, combine=lambda total, n: total + n).sink("totals", key=lambda t: t % 5)
"""  # noqa: E501
SPEC = {
    "sources": {"numbers": {"generator": {"count": 10_000_000, "rate": 500}}},
    "sinks": {"totals": {"files": {"path": "out"}}},
}
MADE_FOR_THEM = {"coordinator.json", "worker.json", "zookeeper/login"}
"""What a process must be told, below the run folder."""


@pytest.fixture
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CliJob]:
    (tmp_path / "sums.py").write_text(APPLICATION)
    made = CliJob(tmp_path, tmp_path / "sums.py", SPEC, spark=request.param)
    with explained(made):
        yield made
    made.close()


def secrets_of(job: CliJob) -> dict[str, bytes]:
    """What whoever knows it could use: the job's token, its attempts' keys, ZooKeeper's password."""
    token = json.loads((job.run_folder.path / "coordinator.json").read_text())["token"].encode()
    keys = {
        f"key of attempt {number}": hmac.new(token, f"{NAME}/{number}".encode(), hashlib.sha256)
        for number in (1, 2)
    }
    password = (job.run_folder.zookeeper / "login").read_bytes().partition(b":")[2]
    return {"token": token, "password": password} | {
        name: key.hexdigest().encode() for name, key in keys.items()
    }


def said(pid: int) -> bytes:
    """What anybody, or this user, may read of a process: its arguments, and its environment."""
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))


@pytest.mark.parametrize(
    "job",
    [pytest.param(False, id="plain"), pytest.param(True, id="spark", marks=pytest.mark.spark)],
    indirect=True,
)
def test_no_secret_is_where_it_can_be_read(job: CliJob) -> None:
    launcher = job.start()
    victim = job.run_folder.worker(job.running().workers[0].worker)
    assert victim is not None
    kill(victim.pid)
    job.running(attempt=2)
    secrets = secrets_of(job)
    assert all(len(secret) >= 32 for secret in secrets.values())

    processes = {pid: said(pid) for pid in [launcher.pid, *descendants(launcher.pid)]}
    assert len(processes) >= 5, "launcher, coordinator, ZooKeeper, two workers"
    assert any(b"coordinator_process" in text for text in processes.values()), (
        "what is looked for can be found"
    )
    assert [
        (pid, name) for pid, text in processes.items() for name, secret in secrets.items() if secret in text
    ] == []

    job.signal()
    assert job.end()[1]["outcome"] == "stopped"
    files = [file for file in job.path.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} >= {".log", ".out"}, "logs are among them"
    holding = {file for file in files if any(secret in file.read_bytes() for secret in secrets.values())}
    assert {str(file.relative_to(job.run_folder.path)) for file in holding} == MADE_FOR_THEM
    assert [file for file in holding if file.stat().st_mode & 0o077] == []
