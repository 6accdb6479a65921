"""The DataFrame runners from the command line: one manifest, any runner, and kill -9 between."""

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flamestream.job.exit_codes import ExitCode
from flamestream.node.samples_file import SamplesTail
from support.eventually import eventually
from support.frames.sums_job import write

pytestmark = pytest.mark.spark


def started(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "runtime")}
    command = [sys.executable, "-m", "flamestream.cli.main", *arguments]
    return subprocess.Popen(
        command, cwd=folder, text=True, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def answer(folder: Path, *arguments: str) -> Any:
    done = started(folder, *arguments, "--json")
    said, errors = done.communicate(timeout=300)
    assert done.returncode == ExitCode.OK, said + errors
    return json.loads(said)


def test_a_stream_and_a_batch_of_one_manifest_deliver_the_same_once(tmp_path: Path) -> None:
    write(tmp_path, "exactly-once", "{count: 3000}")
    assert answer(tmp_path, "run", "job.yaml", "--no-spark")["outcome"] == "completed"
    batch = answer(tmp_path, "run", "--runner", "batch", "job.yaml")
    assert (batch["outcome"], batch["delivered"], batch["repeated"]) == ("completed", 0, 3000)
    assert answer(tmp_path, "audit", "job.yaml")["clean"]


@pytest.mark.slow  # a minute: beside a stream at each push
def test_a_second_start_beside_micro_batches_is_refused_and_takes_nothing_from_them(tmp_path: Path) -> None:
    write(tmp_path, "micro-batch", "{count: 6000, rate: 600}")
    run = started(tmp_path, "run", "job.yaml", "--json")
    committed = partial(newer_than, tmp_path / "store" / "indexes", set())
    eventually(committed, "an epoch is committed", within=300)
    second = started(tmp_path, "run", "job.yaml")
    _, errors = second.communicate(timeout=300)
    assert second.returncode == ExitCode.ALREADY_RUNNING, errors
    said, errors = run.communicate(timeout=300)
    assert json.loads(said)["outcome"] == "completed", errors
    seconds = SamplesTail(tmp_path / ".flamestream" / "sums").behind()
    assert max(each.items_out or 0 for each in seconds) > 0 and seconds[-1].epoch > 0, "its hour is kept too"


@pytest.mark.slow
def test_a_stream_goes_on_from_the_state_of_micro_batches(tmp_path: Path) -> None:
    """One that is stopped somewhere on the way; the stream does the rest."""
    write(tmp_path, "micro-batch", "{count: 6000, rate: 1500}")
    run = started(tmp_path, "run", "job.yaml", "--json")
    eventually(
        lambda: len(list((tmp_path / "store" / "indexes").glob("*"))) > 0,
        "an epoch is committed",
        within=120,
    )
    run.send_signal(signal.SIGTERM)
    said, _ = run.communicate(timeout=120)
    stopped = json.loads(said)
    assert stopped["outcome"] in ("stopped", "completed") and stopped["epoch"] >= 1
    write(tmp_path, "exactly-once", "{count: 6000, rate: 1500}")
    assert answer(tmp_path, "run", "job.yaml", "--no-spark")["outcome"] == "completed"
    audit = answer(tmp_path, "audit", "job.yaml")
    assert audit["clean"] and audit["verdict"]["delivered"] == 6000


def newer_than(folder: Path, before: set[str]) -> set[str]:
    return {path.name for path in folder.glob("*")} - before


@pytest.mark.slow
def test_micro_batches_survive_kills_of_everything(tmp_path: Path) -> None:
    write(tmp_path, "micro-batch", "{count: 6000, rate: 1500}")
    indexes = tmp_path / "store" / "indexes"
    for _ in range(3):
        before = {path.name for path in indexes.glob("*")}
        run = started(tmp_path, "run", "job.yaml")
        eventually(
            partial(newer_than, indexes, before),
            "an epoch is committed",
            within=120,
        )
        run.kill()
        run.communicate()
    assert answer(tmp_path, "run", "job.yaml")["outcome"] == "completed"
    assert answer(tmp_path, "audit", "job.yaml")["clean"]
    assert answer(tmp_path, "audit", "--spark", "job.yaml")["clean"]


def test_a_bootstrap_that_failed_was_none(tmp_path: Path) -> None:
    """The next audit knows nothing of its history."""
    write(tmp_path, "exactly-once", "{count: 600}")
    (tmp_path / "history").mkdir()
    pq.write_table(pa.table({"n": ["no number"]}), tmp_path / "history" / "a.parquet")
    failed = started(tmp_path, "bootstrap", "job.yaml", "numbers=history")
    said, errors = failed.communicate(timeout=300)
    assert failed.returncode == ExitCode.JOB_FAILED and "the history has an item that fails" in errors, said
    assert not (tmp_path / ".flamestream" / "sums" / "bootstrap.json").exists()
    assert answer(tmp_path, "run", "job.yaml", "--no-spark")["outcome"] == "completed"
    assert answer(tmp_path, "audit", "job.yaml")["records"] == 600


@pytest.mark.slow
def test_a_job_that_began_with_a_history_is_audited_with_it(tmp_path: Path) -> None:
    write(tmp_path, "exactly-once", "{count: 600}")
    history = tmp_path / "history"
    history.mkdir()
    pq.write_table(pa.table({"n": pa.array(range(500), pa.int64())}), history / "a.parquet")
    assert answer(tmp_path, "bootstrap", "job.yaml", "numbers=history")["rows"] == 7
    assert answer(tmp_path, "run", "job.yaml", "--no-spark")["outcome"] == "completed"
    for options in ((), ("--spark",)):
        audit = answer(tmp_path, "audit", *options, "job.yaml")
        assert audit["clean"] and audit["verdict"]["delivered"] == 600
    pq.write_table(pa.table({"n": pa.array([7, *range(1, 500)], pa.int64())}), history / "a.parquet")
    other = started(tmp_path, "audit", "job.yaml")
    assert other.communicate(timeout=300) and other.returncode == ExitCode.DIFFERENCE
