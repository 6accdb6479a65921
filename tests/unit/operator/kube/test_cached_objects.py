"""What is kept of objects that were seen: as much as somebody reads."""

from typing import Any

from flamestream_operator.kube.cache import Cluster
from flamestream_operator.objects.meta import CONNECTED, JOB

KEPT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1", "labels": {JOB: "j"},
        "ownerReferences": [{"uid": "o"}], "deletionTimestamp": "now", "deletionGracePeriodSeconds": 3,
    },
    "spec": {"nodeName": "node1", "readinessGates": [{"conditionType": CONNECTED}], "containers": [{"name": "c"}]},
    "status": {
        "phase": "Failed", "reason": "r", "message": "m", "podIP": "10.0.0.1", "conditions": [{"type": "Ready"}],
        "containerStatuses": [{"state": {"terminated": {"exitCode": 1}}}],
        "ephemeralContainerStatuses": [{"name": "cutter"}],
    },
}  # fmt: skip
WHOLE: dict[str, Any] = {
    **KEPT,
    "metadata": {**KEPT["metadata"], "managedFields": [{"manager": "m"}], "annotations": {"a": "b"}},
    "spec": {
        **KEPT["spec"], "volumes": [{"name": "tmp"}],
        "containers": [{"name": "c", "image": "i", "env": [{"name": "E"}]}],
    },
    "status": {**KEPT["status"], "qosClass": "Burstable"},
}  # fmt: skip


def test_a_pod_is_kept_without_what_nobody_reads_however_it_came() -> None:
    watched, listed = Cluster(), Cluster()
    assert watched.put_pod(WHOLE) == ("n", "j")
    listed.replace_pods([WHOLE], None)
    assert watched.pods_of(("n", "j")) == listed.pods_of(("n", "j")) == [KEPT]


def test_who_owns_which_field_of_a_job_is_not_kept() -> None:
    cluster = Cluster()
    meta = {"name": "j", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    cluster.jobs.put({"metadata": {**meta, "managedFields": [{"manager": "m"}]}, "spec": {}})
    assert cluster.jobs.get(("n", "j")) == {"metadata": meta, "spec": {}}


def test_of_other_shards_jobs_no_pod_is_kept_and_what_was_kept_can_go() -> None:
    mine = {("n", "j")}
    cluster = Cluster(lambda job: job in mine)
    other = {**WHOLE, "metadata": {**WHOLE["metadata"], "uid": "u2", "labels": {JOB: "other"}}}
    assert cluster.put_pod(other) is None
    cluster.replace_pods([WHOLE, other], None)
    assert (cluster.pods_of(("n", "j")), cluster.pods_of(("n", "other"))) == ([KEPT], [])
    mine.clear()  # its job has gone
    cluster.drop_pod(WHOLE)
    assert cluster.pods_of(("n", "j")) == []


def test_a_list_from_before_a_pods_end_does_not_bring_it_back() -> None:
    """A process that has just begun to lead has kept no pods, and hears of ends while it lists."""
    cluster = Cluster()
    cluster.jobs.put({"metadata": {"name": "j", "namespace": "n", "uid": "u1", "resourceVersion": "1"}})
    cluster.drop_pod(WHOLE)
    cluster.replace_pods([WHOLE], None)
    assert cluster.pods_of(("n", "j")) == []
