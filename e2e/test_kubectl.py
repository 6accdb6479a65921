"""`kubectl flamestream`, typed as a user types it, against a job that runs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from e2e.conftest import fresh
from e2e.support.folders import ROOT, FolderJob
from e2e.support.installation import Installation
from e2e.support.kube import Kube, until


@pytest.fixture(scope="module")
def job(installation: Installation, kube: Kube) -> Iterator[FolderJob]:
    made = FolderJob(kube, installation, fresh())
    made.start()
    until("it has saved something", lambda: made.status().get("epoch"), 60, 0.5)
    yield made
    made.delete()


def typed(job: FolderJob, *words: str, code: int = 0) -> str:
    """`kubectl flamestream WORDS`, and what it prints."""
    command = [sys.executable, "-m", "flamestream.cli.kubectl.main", *words, "--namespace", job.kube.namespace]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "runtime")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_list_and_status_show_a_job_that_is_ready(job: FolderJob) -> None:
    assert f" {job.name} " in typed(job, "list")
    shown = typed(job, "status", job.name)
    for word in ("ready", "inverted_index.py:graph", "workers    2/2, 1 standby", "latency ", "snapshot ", "driver "):
        assert word in shown, shown
    live = json.loads(typed(job, "status", job.name, "--json"))["live"]
    assert live["phase"] == "running" and live["snapshot_size"] > 0 and live["latency"]["classes"]


def test_logs_are_of_all_pods_in_the_order_of_time(job: FolderJob) -> None:
    lines = typed(job, "logs", job.name, "--tail", "20").splitlines()
    pods, times = {line.split()[0] for line in lines}, [line.split()[1] for line in lines]
    assert len(pods) >= 4, pods
    assert times == sorted(times)


def test_a_savepoint_by_name_is_complete_when_the_command_ends(job: FolderJob) -> None:
    name = f"typed-{job.name}"
    assert f"{name}: Completed, epoch" in typed(job, "savepoint", job.name, "--name", name)
    job.kube.run("delete", "flamestreamsnapshot", name, "--timeout=60s")


def test_a_drill_says_each_fault_and_the_verdict(job: FolderJob) -> None:
    said = typed(job, "drill", job.name, "--kill", "worker", "--times", "2")
    assert said.count("whole again after") == 2, said
    assert "Passed: " in said and "0 lost, 0 doubled, 0 reordered" in said


def test_audit_and_cat_read_what_was_delivered(job: FolderJob) -> None:
    assert "0 lost, 0 doubled, 0 reordered" in typed(job, "audit", job.name)
    found = json.loads(typed(job, "audit", job.name, "--json"))
    assert found["clean"] and found["delivered"] > 0
    lines = typed(job, "cat", "index", job.name, "--limit", "5").splitlines()
    assert len(lines) == 5 and all(json.loads(line) for line in lines)
    typed(job, "cat", "no-such-sink", job.name, code=2)


def test_suspend_says_at_which_epoch_and_resume_waits(job: FolderJob) -> None:
    assert "at epoch" in typed(job, "suspend", job.name)
    shown = typed(job, "status", job.name, code=5)
    assert "Suspended" in shown and "suspended  at epoch" in shown
    typed(job, "resume", job.name, "--wait")
    assert job.condition("Ready")["status"] == "True"
