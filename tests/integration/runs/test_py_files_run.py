"""`pyFiles` in whole jobs: workers as processes and as Spark tasks, the batch and micro-batch runners, cat
and audit, and from S3."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flamestream.job.exit_codes import ExitCode
from support.runs.cli_job import ENVIRONMENT, CliJob
from support.versitygw import KEY, SECRET, S3Server, binary, store_at

LIBRARY = """\
from dataclasses import dataclass

import flamestream as fs


@fs.payload_type
@dataclass(frozen=True)
class Total:
    name: str
    sum: int


def add(total: Total, n: int) -> Total:
    return Total(NAME, total.sum + n)


NAME = "first"
"""
APPLICATION = """\
import flamestream as fs
from shop_library import prices
import shop_module

graph = fs.Graph("shop")
numbers = graph.source("numbers").map(shop_module.doubled)
numbers.reduce(key=lambda n: n % 6, initial=lambda: prices.Total("none", 0), combine=prices.add).sink("totals")
"""
MODULE = "def doubled(n):\n    return int(n) * 2\n"


def put_library(file: Path, text: str = LIBRARY) -> None:
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("shop_library/__init__.py", "")
        made.writestr("shop_library/prices.py", text)


def spec(folder: Path, *files: str, **more: Any) -> dict[str, Any]:
    (folder / "shop_application.py").write_text(APPLICATION)
    (folder / "numbers.txt").write_text("".join(f"{number}\n" for number in range(40)))
    return {
        "application": {"file": "shop_application.py", "graph": "graph", "pyFiles": list(files)},
        "sources": {"numbers": {"files": {"path": "numbers.txt", "records": "lines"}}},
        "sinks": {"totals": {"files": {"path": "out", "fsync": False}}},
        **more,
    }


def plain(job: CliJob) -> list[Any]:
    """What `cat` says, in a process that knows the types from pyFiles alone."""
    command = [sys.executable, "-m", "flamestream.cli.main", "cat", "totals", str(job.manifest)]
    done = subprocess.run(command, cwd=job.path, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(job: CliJob, *options: str) -> None:
    """It completes with forty results, and the audit is clean."""
    job.start(*options)
    code, answer = job.end()
    assert (code, answer["outcome"]) == (ExitCode.OK, "completed"), answer
    assert job.audit()["clean"], job.told()
    said = plain(job)
    assert (len(said), {each["name"] for each in said}) == (40, {"first"})
    assert max(each["sum"] for each in said) == sum(2 * n for n in range(40) if 2 * n % 6 == 0)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    put_library(tmp_path / "shop-1.0-py3-none-any.whl")
    (tmp_path / "shop_module.py").write_text(MODULE)
    (tmp_path / "libs").mkdir()
    (tmp_path / "shop_module.py").rename(tmp_path / "libs" / "shop_module.py")
    return ["shop-1.0-py3-none-any.whl", "libs/shop_module.py"]


@pytest.fixture
def jobs() -> Iterator[list[CliJob]]:
    made: list[CliJob] = []
    yield made
    for job in made:
        job.close()


def made(jobs: list[CliJob], *arguments: Any, **more: Any) -> CliJob:
    jobs.append(CliJob(*arguments, **more))
    return jobs[-1]


def test_workers_as_processes(tmp_path: Path, files: list[str], jobs: list[CliJob]) -> None:
    check(made(jobs, tmp_path, Path("unused"), spec(tmp_path, *files), spark=False))


def test_a_file_that_is_replaced_while_the_job_runs_changes_nothing_and_is_another_application_at_the_next_start(
    tmp_path: Path, files: list[str], jobs: list[CliJob]
) -> None:
    job = made(jobs, tmp_path, Path("unused"), spec(tmp_path, *files), spark=False)
    _, before = job.ask("validate", str(job.manifest))
    check(job)
    put_library(tmp_path / files[0], LIBRARY.replace("first", "other"))
    code, after = job.ask("validate", str(job.manifest))
    assert (code, after["pyFiles"][1]) == (ExitCode.OK, before["pyFiles"][1])
    assert after["pyFiles"][0] != before["pyFiles"][0]
    _, refused = job.ask("audit", str(job.run_folder.path))
    assert "but the job began with" in refused["error"]["message"], (
        "other results are not called lost: they are of other code"
    )


def test_a_missing_file_is_named_with_its_line(tmp_path: Path, files: list[str], jobs: list[CliJob]) -> None:
    job = made(jobs, tmp_path, Path("unused"), spec(tmp_path, *files), spark=False)
    (tmp_path / files[1]).unlink()
    code, answer = job.ask("run", str(job.manifest), "--no-spark")
    assert (code, answer["error"]["category"]) == (ExitCode.USAGE, "user")
    assert "spec.application.pyFiles.1: " in answer["error"]["message"]
    assert "shop_module.py cannot be read: No such file" in answer["error"]["message"]


@pytest.mark.spark
def test_workers_as_spark_tasks(tmp_path: Path, files: list[str], jobs: list[CliJob]) -> None:
    check(made(jobs, tmp_path, Path("unused"), spec(tmp_path, *files)))


@pytest.mark.spark
@pytest.mark.slow  # a minute: workers of a stream get their files in the same way
def test_one_batch(tmp_path: Path, files: list[str], jobs: list[CliJob]) -> None:
    check(made(jobs, tmp_path, Path("unused"), spec(tmp_path, *files)), "--runner", "batch")


@pytest.mark.slow  # a minute: a batch gets its files in the same way
@pytest.mark.spark
def test_micro_batches(tmp_path: Path, files: list[str], jobs: list[CliJob]) -> None:
    check(made(jobs, tmp_path, Path("unused"), spec(tmp_path, *files, guarantee="micro-batch")))


def test_from_s3_where_every_worker_fetches_what_was_found(
    tmp_path: Path, files: list[str], jobs: list[CliJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    binary()
    for name, value in (
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(ENVIRONMENT, name, value)
    server = S3Server(tmp_path / "server")
    server.start()
    try:
        server.make_bucket("bucket")
        store = store_at(server.endpoint, "bucket", "libs")
        places = []
        for file in files:
            assert store.put_new(Path(file).name, (tmp_path / file).read_bytes())
            (tmp_path / file).unlink()
            places.append(f"s3://bucket/libs/{Path(file).name}?endpoint={server.endpoint}")
        job = made(jobs, tmp_path, Path("unused"), spec(tmp_path, *places), spark=False)
        check(job)
        _, answer = job.ask("validate", str(job.manifest))
        pinned = answer["pyFiles"][0].replace(answer["pyFiles"][0][-4:], "0000")
        wrong = made(jobs, tmp_path, Path("unused"), spec(tmp_path, pinned, places[1]), spark=False)
        code, answer = wrong.ask("validate", str(wrong.manifest))
        assert (code, "and is to have" in answer["error"]["message"]) == (ExitCode.USAGE, True)
    finally:
        server.kill()
