"""Every guarantee through a life on a cluster: kills, suspend, resume, savepoint, edits, restore. (Exactly once: all other files.)"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from e2e.conftest import fresh
from e2e.support.folders import FolderJob
from e2e.support.installation import Installation
from e2e.support.kube import Kube

Report = Callable[..., None]


@pytest.mark.parametrize("guarantee", ["exactly-once-2pc", "at-least-once"])
def test_a_life_under_a_guarantee(installation: Installation, kube: Kube, report: Report, guarantee: str) -> None:
    job = FolderJob(kube, installation, fresh(), extra={"guarantee": guarantee})
    job.start()
    report(f"{guarantee}: worker killed twice", **struck(job, "worker", guarantee, times=2))
    job.typed("suspend", job.name)
    judged(job, guarantee)
    job.typed("resume", job.name, "--wait")
    saved = f"kept-{job.name}"
    assert f"{saved}: Completed, epoch" in job.typed("savepoint", job.name, "--name", saved)
    edited(job, checkpoint={**job.manifest()["spec"]["checkpoint"], "interval": "500ms"})
    edited(job, workers={"replicas": 3, "standby": 0})
    report(f"{guarantee}: executor killed", **struck(job, "executor", guarantee))
    found = judged(job, guarantee)
    other = FolderJob(kube, installation, fresh(), docs=job.name, extra={"guarantee": guarantee, "restoreFrom": {"snapshot": saved}})
    other.start()
    struck(other, "worker", guarantee)
    judged(other, guarantee)
    report(f"{guarantee}: a life", **{name: found[name] for name in ("delivered", "lost", "doubled", "reordered")})
    other.delete()
    job.delete()
    kube.delete("FlameStreamSnapshot", saved)


def test_none_keeps_nothing_and_runs_on(installation: Installation, kube: Kube) -> None:
    job = FolderJob(kube, installation, fresh(), extra={"guarantee": "none", "journal": None})
    job.start()
    attempt = job.status()["attempt"]
    found = job.drill("worker", audit=False)
    assert (found["done"], found["reason"]) == (1, "NotAudited") and "output went on" in found["message"], found
    assert job.status()["attempt"] > attempt
    job.delete()


def struck(job: FolderJob, target: str, guarantee: str, times: int = 1) -> dict[str, Any]:
    """A drill that passes, which says that output went on and that what was delivered is right."""
    status = job.drill(target, times=times)
    assert (status["phase"], status["reason"], status["done"]) == ("Passed", "Clean", times), (guarantee, status)
    return {"faults": status["faults"], "audit": status["audit"]}


def edited(job: FolderJob, **changes: Any) -> None:
    """Another manifest, until it is what runs; the drill behind it says that results come."""
    job.extra |= changes
    job.apply_and_wait()


def judged(job: FolderJob, guarantee: str) -> dict[str, Any]:
    """By the audit's own pod; repeats of equal bytes are no fault under at-least-once."""
    found: dict[str, Any] = json.loads(job.typed("audit", job.name, "--json"))
    assert found["clean"] and found["delivered"] > 0, (guarantee, found)
    return found
