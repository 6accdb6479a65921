"""`kubectl flamestream`, typed as a user types it, against a job that runs."""

import json
from collections.abc import Iterator

import pytest

from e2e.conftest import fresh
from e2e.support.folders import FolderJob
from e2e.support.installation import Installation
from e2e.support.kube import Kube


@pytest.fixture(scope="module")
def job(installation: Installation, kube: Kube) -> Iterator[FolderJob]:
    made = FolderJob(kube, installation, fresh())
    made.start()
    made.wait_status("epoch")
    yield made
    made.delete()


def test_list_and_status_show_a_job_that_is_ready(job: FolderJob) -> None:
    assert f" {job.name} " in job.typed("list")
    shown = job.typed("status", job.name)
    for word in (
        "ready",
        "inverted_index.py:graph",
        "workers    2/2, 1 standby",
        "latency ",
        "snapshot ",
        "driver ",
    ):
        assert word in shown, shown
    status = json.loads(job.typed("status", job.name, "--json"))["job"]["status"]
    assert status["phase"] == "Running" and status["snapshot"]["size"] > 0 and status["latency"]["p50Ms"] > 0


def test_logs_are_of_all_pods_in_the_order_of_time(job: FolderJob) -> None:
    lines = job.typed("logs", job.name, "--tail", "20").splitlines()
    pods, times = {line.split()[0] for line in lines}, [line.split()[1] for line in lines]
    assert len(pods) >= 4, pods
    assert times == sorted(times)


def test_a_savepoint_by_name_is_complete_when_the_command_ends(job: FolderJob) -> None:
    name = f"typed-{job.name}"
    assert f"{name}: Completed, epoch" in job.typed("savepoint", job.name, "--name", name)
    job.kube.delete("FlameStreamSnapshot", name)


def test_a_drill_says_each_fault_and_the_verdict(job: FolderJob) -> None:
    said = job.typed("drill", job.name, "--kill", "worker", "--times", "2")
    assert said.count("whole again after") == 2, said
    assert "Passed: " in said and "0 lost, 0 doubled, 0 reordered" in said


def test_audit_and_cat_read_what_was_delivered(job: FolderJob) -> None:
    assert "0 lost, 0 doubled, 0 reordered" in job.typed("audit", job.name)
    found = json.loads(job.typed("audit", job.name, "--json"))
    assert found["clean"] and found["delivered"] > 0
    lines = job.typed("cat", "index", job.name, "--limit", "5").splitlines()
    assert len(lines) == 5 and all(json.loads(line) for line in lines)
    job.typed("cat", "no-such-sink", job.name, code=2)


def test_suspend_says_at_which_epoch_and_resume_waits(job: FolderJob) -> None:
    assert "at epoch" in job.typed("suspend", job.name)
    shown = job.typed("status", job.name, code=5)
    assert "Suspended" in shown and "suspended  at epoch" in shown
    job.typed("resume", job.name, "--wait")
    assert job.condition("Ready")["status"] == "True"
