"""The chart's NetworkPolicies, where something enforces them: strangers reach nothing, and whoever has work
here does."""

import os

import pytest

from e2e.support.folders import FolderJob
from e2e.support.installation import RELEASE, SYSTEM, Installation
from e2e.support.job import restricted_pod
from e2e.support.kube import Kube, until

pytestmark = pytest.mark.skipif(
    "E2E_POLICIES" not in os.environ,
    reason="E2E_POLICIES does not say that something enforces NetworkPolicies",
)

REACH = """
import socket, sys
for place in sys.argv[1:]:
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 3).close()
        print(place, "open")
    except OSError as error:
        print(place, "shut")
"""
ZOOKEEPER, CONTROL = f"{RELEASE}-zookeeper.{SYSTEM}.svc:2181", f"{RELEASE}-coordinators.{SYSTEM}.svc:7700"
S3 = f"{RELEASE}-s3.{SYSTEM}.svc:7070"
STATUS_OF_METRICS = """
import http.client
for path in ("/metrics", "/healthz"):
    connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=10)
    connection.request("GET", path)
    print(connection.getresponse().status)
    connection.close()
"""
LISTENS = """
import pathlib
files = [pathlib.Path("/proc/net", name).read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
rows = [line.split() for lines in files for line in lines]
local = ("0100007F", "0" * 24 + "01000000", "0" * 16 + "FFFF00000100007F")
print(*{int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and not row[1].startswith(local)})
"""


@pytest.mark.parametrize(
    ("labels", "open_"),
    [
        ({}, set()),
        ({"flamestream.dev/role": "worker"}, {S3}),
        (
            {"app.kubernetes.io/managed-by": "flamestream", "flamestream.dev/role": "worker"},
            {ZOOKEEPER, CONTROL, S3},
        ),
        ({"flamestream.dev/role": "audit"}, {ZOOKEEPER, S3}),
        (
            {"app.kubernetes.io/managed-by": "flamestream", "flamestream.dev/role": "preflight"},
            {ZOOKEEPER, S3},
        ),
    ],
    ids=["a stranger", "half a worker", "a worker", "an audit", "a trial of new code"],
)
def test_who_reaches_what(
    installation: Installation, kube: Kube, labels: dict[str, str], open_: set[str]
) -> None:
    metrics = f"{installation.leader_pod()['status']['podIP']}:8080"
    assert_reached(kube, labels, open_ | {metrics}, ZOOKEEPER, CONTROL, S3, metrics)


def assert_reached(kube: Kube, labels: dict[str, str], expected: set[str], *places: str) -> None:
    """A pod with these labels gets connections to exactly those places, once what enforces policies knows the
    pod."""
    kube.apply(restricted_pod("reach", "sleep", "600", labels=labels, automountServiceAccountToken=False))

    def reached() -> set[str]:
        lines = kube.execute("reach", "python3", "-c", REACH, *places).splitlines()
        return {place for place, answer in map(str.split, lines) if answer == "open"}

    try:
        kube.wait_condition("Pod", "reach", "Ready", 60)
        until(f"a pod with {labels} reaches {expected}", lambda: reached() == expected, 60)
    finally:
        kube.delete("Pod", "reach", grace=0)


def test_a_job_s_pods_are_reached_by_pods_of_that_job_alone(installation: Installation, kube: Kube) -> None:
    """Links of workers, Spark's driver and executors: a stranger and a worker of another job get no
    connection at all."""
    job = FolderJob(kube, installation, "shut")
    job.start()
    pods = [pod for pod in kube.list("Pod", job.selector()) if pod["status"]["phase"] == "Running"]
    places = {
        f"{pod['status']['podIP']}:{port}"
        for pod in pods
        for port in kube.execute(pod["metadata"]["name"], "python3", "-c", LISTENS).split()
    }
    assert len(places) >= len(pods) >= 4, "each listens on something"
    other = {
        "app.kubernetes.io/managed-by": "flamestream",
        "flamestream.dev/role": "worker",
        "flamestream.dev/job": "another",
    }
    assert_reached(kube, {}, set(), *places)
    assert_reached(kube, other, set(), *places)
    assert_reached(kube, {"flamestream.dev/job": job.name}, places, *places)
    job.delete()


def test_metrics_ask_for_a_login(installation: Installation) -> None:
    """Without a right nobody reads them; e2e/test_figures.py reads them with one."""
    pod = installation.leader()
    system = installation.system
    asked = system.execute(pod, "python3", "-c", STATUS_OF_METRICS, check=False)
    assert asked.split() == ["401", "200"], asked


def test_audits_cats_drills_and_savepoints_pass(installation: Installation, kube: Kube) -> None:
    """As test_kubectl.py has each in full; here that nothing of it needs a way that is shut."""
    job = FolderJob(kube, installation, "policed")
    job.start()
    status = job.drill("worker")
    assert (status["phase"], status["reason"]) == ("Passed", "Clean"), status
    assert "Completed, epoch" in job.typed("savepoint", job.name, "--name", "policed")
    assert "0 lost, 0 doubled, 0 reordered" in job.typed("audit", job.name)
    assert len(job.typed("cat", "index", job.name, "--limit", "5").splitlines()) == 5
    job.delete()
    kube.delete("FlameStreamSnapshot", "policed")
