"""What is kept of objects that were seen: as much as somebody reads."""

import asyncio
from typing import Any

from flamestream_operator.kube.cache import Cluster, key_of, uid_of
from flamestream_operator.kube.lists import Lists
from flamestream_operator.kube.namespaces import Namespaces
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


def life(name: str, uid: str, version: int) -> dict[str, Any]:
    labels = {JOB: "j"}
    meta = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": str(version), "labels": labels}
    return {"metadata": meta, "spec": {}}


class Passing:
    """An API server whose lists are behind: what is made while one is on its way is told by an event before."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list_all(self, kind: str, where: str | None, labels: Any = None) -> list[dict[str, Any]]:
        match kind:
            case "FlameStreamJob":
                self._cluster.jobs.put(life("made", "u2", 2))
            case "FlameStreamSnapshot":
                self._cluster.snapshots.put(life("saved", "u3", 2))
            case "Pod":
                self._cluster.put_pod(life("p", "u4", 2))
        return []


def test_what_is_made_while_a_list_is_on_its_way_stays_and_what_the_list_lacks_goes() -> None:
    cluster = Cluster()
    cluster.jobs.put(life("old", "u1", 1))
    cluster.put_pod(life("older", "u0", 1))
    api: Any = Passing(cluster)
    asyncio.run(Lists(api, cluster, Namespaces(None), drills=False).replace_all(()))
    assert [key_of(each) for each in cluster.jobs] == [("n", "made")]
    assert [key_of(each) for each in cluster.snapshots] == [("n", "saved")]
    assert [key_of(each) for each in cluster.pods_of(("n", "j"))] == [("n", "p")]
    assert cluster.jobs.put(life("made", "u2", 3)), "its next event counts"


def test_a_life_that_began_under_a_name_that_was_there_before_the_list_stays() -> None:
    cluster = Cluster()
    cluster.jobs.put(life("j", "u1", 1))
    before = cluster.jobs.lives()
    cluster.jobs.drop(life("j", "u1", 2))
    cluster.jobs.put(life("j", "u2", 3))
    cluster.jobs.replace_all([], None, before)
    assert [uid_of(each) for each in cluster.jobs] == ["u2"]
