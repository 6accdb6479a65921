"""The chart's NetworkPolicies, where something enforces them: strangers reach nothing, and whoever has work here does."""

import os

import pytest

from e2e.support.folders import FolderJob
from e2e.support.installation import IMAGE, RELEASE, SYSTEM, Installation
from e2e.support.kube import Kube

pytestmark = pytest.mark.skipif(
    "E2E_POLICIES" not in os.environ, reason="E2E_POLICIES does not say that something enforces NetworkPolicies"
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


@pytest.mark.parametrize(
    ("labels", "open_"),
    [
        ({}, set()),
        ({"flamestream.dev/role": "worker"}, set()),
        ({"app.kubernetes.io/managed-by": "flamestream", "flamestream.dev/role": "worker"}, {ZOOKEEPER, CONTROL}),
        ({"flamestream.dev/role": "audit"}, {ZOOKEEPER}),
    ],
    ids=["a stranger", "half a worker", "a worker", "an audit"],
)
def test_who_reaches_what(installation: Installation, kube: Kube, labels: dict[str, str], open_: set[str]) -> None:
    metrics = f"{(installation.system.get('pod', installation.leader()) or {})['status']['podIP']}:8080"
    container = {"name": "reach", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "args": ["sleep", "600"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reach", "labels": labels}, "spec": spec})
    try:
        kube.run("wait", "--for=condition=Ready", "pod/reach", "--timeout=60s")
        said = dict(line.split() for line in kube.execute("reach", "python3", "-c", REACH, ZOOKEEPER, CONTROL, metrics).splitlines())
        assert {place for place, seen in said.items() if seen == "open"} == open_ | {metrics}
    finally:
        kube.delete("pod", "reach", "--force", "--grace-period=0")


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
    kube.run("delete", "flamestreamsnapshot", "policed", "--timeout=60s")
