"""Savepoints as a user has them: taken, kept when their job is gone, restored into a new job, made by the
clock."""

import uuid
from typing import Any

from e2e.conftest import fresh
from e2e.support.folders import FolderJob
from e2e.support.installation import Installation
from e2e.support.job import ours
from e2e.support.kube import Kube, Object
from e2e.support.stream import Stream


def taken(kube: Kube, job: str) -> tuple[str, dict[str, Any]]:
    """A new FlameStreamSnapshot's name and status, once it is complete."""
    name = f"before-{uuid.uuid4().hex[:4]}"
    kube.apply(ours("FlameStreamSnapshot", name, {"job": job}))
    kube.wait_condition("FlameStreamSnapshot", name, "Completed", 60)
    return name, (kube.get("FlameStreamSnapshot", name) or {})["status"]


def test_a_new_job_goes_on_where_the_savepoint_of_a_deleted_one_was_taken(stream: Stream) -> None:
    kube = stream.kube
    stream.wait_flowing()
    name, status = taken(kube, stream.name)
    assert status["epoch"] > 0 and status["size"] > 0 and status["objects"] > 1
    assert status["index"] and status["store"] == stream.installation.store
    verdict = stream.ask("/audit")
    assert verdict["clean"], verdict
    kube.delete("FlameStreamJob", stream.name)
    assert kube.get("FlameStreamSnapshot", name), "it outlives its job"

    other = Stream(
        kube,
        stream.installation,
        fresh(),
        words=stream.words,
        outside="other",
        extra={"restoreFrom": {"snapshot": name}},
    )
    other.prepare()
    other.apply()
    other.wait_ready()
    other.send(20, 200)
    verdict = other.wait_through()
    assert other.state()["base"] > 0, "it began in the middle of the input"
    assert verdict["complete"] and verdict["clean"], verdict
    assert other.status()["epoch"]["number"] >= status["epoch"]
    other.delete()
    kube.delete("FlameStreamSnapshot", name)


def test_a_job_waits_for_its_snapshot_and_says_so(installation: Installation, kube: Kube) -> None:
    job = FolderJob(kube, installation, fresh(), extra={"restoreFrom": {"snapshot": "never-made"}})
    kube.apply(installation.secret(), job.application(), job.manifest())
    told = job.wait_condition("Degraded", "RestoringDelayed")
    assert "never-made" in told["message"]
    job.wait_event("RestoringDelayed")
    job.delete()


def test_a_snapshot_of_another_graph_is_refused_before_anything_is_restored(
    installation: Installation, kube: Kube
) -> None:
    first = FolderJob(kube, installation, fresh(), replicas=1, standby=0)
    first.start()
    first.wait_status("epoch")
    name, status = taken(kube, first.name)
    code = first.application()["data"]["inverted_index.py"]
    other = FolderJob(
        kube,
        installation,
        fresh(),
        replicas=1,
        standby=0,
        docs=first.name,
        extra={"restoreFrom": {"snapshot": name}},
    )
    kube.apply(other.application(code.replace("postings.reduce(", 'postings.reduce(name="other", ')))
    # only another spec than the one that failed is tried
    other.apply(checkpoint={**other.spec()["checkpoint"], "interval": "2s"})
    told = other.wait_condition("Failed")
    assert f"epoch {status['epoch']}: " in told["message"] and "no such operation" in told["message"], told
    kube.apply(other.application())
    other.apply()
    other.wait_ready()
    other.delete()
    first.delete()
    kube.delete("FlameStreamSnapshot", name)


def test_savepoints_by_the_clock_are_taken_and_the_newest_are_kept(
    installation: Installation, kube: Kube
) -> None:
    job = FolderJob(
        kube, installation, fresh(), standby=0, replicas=1, extra={"savepoints": {"every": "10s", "keep": 2}}
    )
    job.start()

    def complete(there: dict[str, Object], but: list[str]) -> list[str]:
        """Two, and not these."""
        found = sorted(
            name for name, each in there.items() if each.get("status", {}).get("phase") == "Completed"
        )
        return found if len(found) == 2 and found > but else []

    first = kube.watch("FlameStreamSnapshot", lambda there: complete(there, []), 90, selector=job.selector())
    second = kube.watch(
        "FlameStreamSnapshot", lambda there: complete(there, first), 60, selector=job.selector()
    )
    kube.watch("FlameStreamSnapshot", lambda there: len(there) <= 3, 10, selector=job.selector())
    assert set(second) != set(first)
    job.delete()
    kube.delete_all("FlameStreamSnapshot", job.selector())
