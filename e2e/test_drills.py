"""FlameStreamDrills: `kubectl apply`, and the object's status has the verdict of the audit, the counts,
output gaps and recovery times."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.conftest import fresh
from e2e.support.folders import FolderJob
from e2e.support.installation import RELEASE, SYSTEM, Installation
from e2e.support.kube import ApiException, Kube

Report = Callable[..., None]


@pytest.fixture(scope="module")
def job(installation: Installation, kube: Kube) -> Iterator[FolderJob]:
    made = FolderJob(kube, installation, fresh())
    made.start()
    yield made
    made.delete()


@pytest.fixture(scope="module")
def pair(installation: Installation, kube: Kube) -> Iterator[FolderJob]:
    """As two applications; four workers and two drivers ask for little, to fit on one small node."""
    resources = {"requests": {"cpu": "50m"}, "limits": {"memory": "2Gi"}}
    workers = {"replicas": 2, "standby": 2, "resources": resources}
    made = FolderJob(kube, installation, fresh(), extra={"highAvailability": True, "workers": workers})
    made.start()
    yield made
    made.delete()


def checked(status: dict[str, Any], times: int = 1, *, seen: str = "gone") -> None:
    """A pass that says what it rests on."""
    assert (status["phase"], status["reason"]) == ("Passed", "Clean"), status
    audit = status["audit"]
    assert audit["clean"] and audit["delivered"] > 0 and audit["records"] > 0
    assert [audit[what] for what in ("lost", "doubled", "reordered", "foreign")] == [0, 0, 0, 0]
    assert status["done"] == times and len(status["faults"]) == times
    assert all(
        fault["victim"] and fault["recoveredMs"] > 0 and fault["seen"] == seen for fault in status["faults"]
    )
    assert audit["epoch"] >= status["epoch"] > 0, "the audit goes further than the last fault"
    # Ten documents a second come all the time, and the workers remember when they gave their results, whoever
    # coordinates.
    assert all("outputGapMs" in fault for fault in status["faults"]), status["faults"]
    # Recovered is the job; a ZooKeeper or a store that has a process again still has to begin, and to be
    # found.
    assert all(0 < fault["outputGapMs"] <= fault["recoveredMs"] + 10_000 for fault in status["faults"]), (
        status["faults"]
    )
    assert status["longestOutputGapMs"] == max(fault["outputGapMs"] for fault in status["faults"])


@pytest.mark.parametrize("target", ["worker", "daemon", "executor"])
def test_a_drill_strikes_a_worker_and_audits(job: FolderJob, report: Report, target: str) -> None:
    status = job.drill(target, times=2)
    checked(status, 2)
    assert all(fault["recoveryMs"] > 0 for fault in status["faults"]), "the coordinator's own figure"
    report(f"drill {target}", faults=status["faults"], audit=status["audit"])


def test_a_drill_pauses_a_worker_into_a_zombie(job: FolderJob, report: Report) -> None:
    status = job.drill("worker", action="pause", pauseFor="5s")
    checked(status, seen="paused")
    assert status["faults"][0]["recoveredMs"] >= 5000 and status["faults"][0]["recoveryMs"] > 0, (
        "others took over meanwhile"
    )
    report("drill pause", faults=status["faults"], audit=status["audit"])


def test_a_drill_kills_the_driver(job: FolderJob, report: Report) -> None:
    status = job.drill("driver")
    checked(status)
    report("drill driver", faults=status["faults"], audit=status["audit"])


def test_a_drill_kills_the_operator_that_runs_it(job: FolderJob, report: Report) -> None:
    before = job.installation.leader()
    status = job.drill("operator")
    checked(status)
    assert status["faults"][0]["victim"] == before
    assert job.installation.leader() != before
    report("drill operator", faults=status["faults"], audit=status["audit"])


REST = [("zookeeper", action) for action in ("kill", "delete", "pause", "cut")] + [
    ("store", action) for action in ("kill", "delete", "cut")
]
SEEN = {"kill": "gone", "delete": "gone", "pause": "paused", "cut": "cut"}


@pytest.mark.parametrize(("target", "action"), REST)
def test_a_drill_takes_what_the_job_rests_on(
    job: FolderJob, report: Report, target: str, action: str
) -> None:
    component = {"store": "s3"}.get(target, target)
    selector = {"app.kubernetes.io/instance": RELEASE, "app.kubernetes.io/component": component}
    status = job.drill(target, action=action, targetSelector=selector, targetNamespace=SYSTEM)
    assert status["faults"] and status["faults"][0]["seen"] in (SEEN[action], "going"), status
    checked(status, seen=status["faults"][0]["seen"])
    assert component in status["faults"][0]["victim"]
    report(f"drill {target} {action}", faults=status["faults"], audit=status["audit"])


@pytest.mark.parametrize("target", ["executor", "driver"])
def test_a_drill_that_deletes_a_pod_is_a_planned_stop(job: FolderJob, report: Report, target: str) -> None:
    status = job.drill(target, action="delete")
    checked(status, seen="going")
    report(f"drill {target} delete", faults=status["faults"], audit=status["audit"])


def test_a_drill_cuts_a_workers_network_and_others_take_over(job: FolderJob, report: Report) -> None:
    status = job.drill("network", action="cut", pauseFor="10s")
    checked(status, seen="cut")
    fault = status["faults"][0]
    assert fault["recoveredMs"] >= 10_000 and fault["recoveryMs"] > 0, "healed, and recovered from meanwhile"
    assert fault["outputGapMs"] < 10_000, "nobody waited for the end of the cut"
    report("drill network", faults=status["faults"], audit=status["audit"])


@pytest.mark.parametrize("action", ["kill", "pause", "cut"])
def test_a_drill_takes_all_of_a_job_that_is_on_a_node(job: FolderJob, report: Report, action: str) -> None:
    status = job.drill("node", action=action, **({} if action == "kill" else {"pauseFor": "8s"}))
    checked(status, seen=SEEN[action])
    report(f"drill node {action}", faults=status["faults"], audit=status["audit"])


@pytest.mark.parametrize(
    ("target", "action"),
    [("worker", "kill"), ("driver", "kill"), ("application", "kill"), ("application", "pause")],
)
def test_a_drill_strikes_a_job_of_two_applications(
    pair: FolderJob, report: Report, target: str, action: str
) -> None:
    status = pair.drill(target, action=action)
    checked(status, seen=SEEN[action])
    report(f"drill {target} {action} (two applications)", faults=status["faults"], audit=status["audit"])


def test_a_drill_that_can_not_be_made_proves_nothing_and_says_why(job: FolderJob) -> None:
    other = FolderJob(job.kube, job.installation, "nobody")
    status = other.drill("worker")
    assert (status["phase"], status["reason"]) == ("Inconclusive", "JobNotFound")
    assert "nobody" in status["message"]
    with pytest.raises(ApiException, match="to delete its pod, target: executor"):
        job.drill("worker", action="delete")
    with pytest.raises(ApiException, match="cut it, for pauseFor"):
        job.drill("store", action="pause", targetSelector={"a": "b"})
    with pytest.raises(ApiException, match="say which pods"):
        job.drill("store", targetSelector={})
    with pytest.raises(ApiException, match="target"):
        job.drill("moon")
    with pytest.raises(ApiException, match="a network is cut"):
        job.drill("network", action="kill")
