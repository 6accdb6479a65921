"""Savepoints as a user has them: taken, kept when their job is gone, restored into a new job, made by the clock."""

import uuid
from typing import Any

from e2e.conftest import fresh
from e2e.support.folders import FolderJob
from e2e.support.installation import Installation
from e2e.support.kube import Kube, until
from e2e.support.stream import Stream

API = "flamestream.dev/v1alpha1"


def taken(kube: Kube, job: str) -> tuple[str, dict[str, Any]]:
    """A new FlameStreamSnapshot's name and status, once it is complete."""
    name = f"before-{uuid.uuid4().hex[:4]}"
    kube.apply({"apiVersion": API, "kind": "FlameStreamSnapshot", "metadata": {"name": name}, "spec": {"job": job}})
    kube.run("wait", "--for=condition=Completed", f"flamestreamsnapshot/{name}", "--timeout=60s")
    return name, (kube.get("flamestreamsnapshot", name) or {})["status"]


def test_a_new_job_goes_on_where_the_savepoint_of_a_deleted_one_was_taken(stream: Stream) -> None:
    kube = stream.kube
    name, status = taken(kube, stream.name)
    assert status["epoch"] > 0 and status["size"] > 0 and status["objects"] > 1
    assert status["manifest"] and status["store"] == stream.installation.store
    stream.wait_flowing()
    verdict = stream.ask("/audit")
    assert verdict["clean"], verdict
    kube.run("delete", "flamestreamjob", stream.name, "--timeout=90s")
    assert kube.get("flamestreamsnapshot", name), "it outlives its job"

    other = Stream(kube, stream.installation, words=stream.words, name=fresh(), outside="other", extra={"restoreFrom": {"snapshot": name}})
    other.prepare()
    other.apply()
    other.wait_ready()
    other.send(20, 200)
    verdict = other.wait_through()
    assert other.state()["base"] > 0, "it began in the middle of the input"
    assert verdict["complete"] and verdict["clean"], verdict
    assert other.status()["epoch"]["number"] >= status["epoch"]
    kube.delete("flamestreamjob", other.name, "--timeout=90s")
    kube.delete("pod", "other", "--force", "--grace-period=0")
    kube.run("delete", "flamestreamsnapshot", name, "--timeout=60s")


def test_a_job_waits_for_its_snapshot_and_says_so(installation: Installation, kube: Kube) -> None:
    job = FolderJob(kube, installation, fresh(), extra={"restoreFrom": {"snapshot": "never-made"}})
    kube.apply(installation.secret(), job.application(), job.manifest())
    told = job.wait_condition("Degraded", "RestoringDelayed")
    assert "never-made" in told["message"]
    events = kube.run("get", "events", "--field-selector", f"involvedObject.name={job.name},reason=RestoringDelayed", "-o", "name")
    assert events.strip(), "and an event tells of it"
    job.delete()


def test_a_snapshot_of_another_graph_is_refused_before_anything_is_restored(installation: Installation, kube: Kube) -> None:
    first = FolderJob(kube, installation, fresh(), replicas=1, standby=0)
    first.start()
    until("it has saved something", lambda: first.status().get("epoch"), 60, 0.5)
    name, status = taken(kube, first.name)
    code = first.application()["data"]["inverted_index.py"]
    other = FolderJob(kube, installation, fresh(), replicas=1, standby=0, docs=first.name, extra={"restoreFrom": {"snapshot": name}})
    kube.apply(other.application(code + '\nindex.sink("second", key=word_of)\n'))
    kube.apply(other.manifest(sinks={sink: {"files": {"path": other.folder(other.name) + sink}} for sink in ("index", "second")}))
    told = other.wait_condition("Failed")
    assert f"epoch {status['epoch']} has graph" in told["message"], told
    kube.apply(other.application())
    kube.apply(other.manifest())
    other.wait_ready()
    other.delete()
    first.delete()
    kube.run("delete", "flamestreamsnapshot", name, "--timeout=60s")


def test_savepoints_by_the_clock_are_taken_and_the_newest_are_kept(installation: Installation, kube: Kube) -> None:
    job = FolderJob(kube, installation, fresh(), standby=0, replicas=1, extra={"savepoints": {"every": "10s", "keep": 2}})
    job.start()
    selector = f"flamestream.dev/job={job.name}"

    def complete() -> list[str]:
        found = kube.list("flamestreamsnapshots", selector)
        return sorted(each["metadata"]["name"] for each in found if each.get("status", {}).get("phase") == "Completed")

    first = until("two were taken", lambda: len(found := complete()) == 2 and found, 90, 0.5)
    second = until("newer ones are there", lambda: (found := complete()) > first and len(found) == 2 and found, 60, 0.5)
    until("no more are kept", lambda: len(kube.list("flamestreamsnapshots", selector)) <= 3, 10)
    assert set(second) != set(first)
    job.delete()
    kube.run("delete", "flamestreamsnapshots", "--selector", selector, "--timeout=60s")
