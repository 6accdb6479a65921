"""Jobs whose workers wait in a queue of Kueue's for their share of a quota: the job says that they wait and for whom,
runs once they are let in, and an eviction costs no item."""

import uuid
from collections.abc import Callable, Iterator

import pytest

from e2e.conftest import flowing, fresh
from e2e.support.controllers import KUEUE_IMAGE, kueue
from e2e.support.external_metrics import thing
from e2e.support.installation import Installation
from e2e.support.job import restricted_pod
from e2e.support.kube import KUEUE, Kube, Object
from e2e.support.stream import Stream
from e2e.test_faults import broken

pytestmark = pytest.mark.skipif(not KUEUE_IMAGE, reason="E2E_KUEUE_IMAGE does not name an image of Kueue")

Report = Callable[..., None]
QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
GATE = "kueue.x-k8s.io/admission"
SMALL = {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}


@pytest.fixture(scope="module")
def queue(installation: Installation, kube: Kube) -> Iterator[str]:
    """A queue with room for two workers, by name; who has a higher priority drives others out."""
    name = f"streams-{uuid.uuid4().hex[:6]}"
    quota = [{"name": "cpu", "nominalQuota": "200m"}, {"name": "memory", "nominalQuota": "100Gi"}]
    spec = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": kube.namespace}},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [
            {"coveredResources": ["cpu", "memory"], "flavors": [{"name": name, "resources": quota}]}
        ],
    }
    with kueue():
        kube.apply(
            thing(KUEUE, "ResourceFlavor", name),
            thing(KUEUE, "ClusterQueue", name, spec=spec),
            thing(KUEUE, "LocalQueue", name, spec={"clusterQueue": name}),
            thing(KUEUE, "WorkloadPriorityClass", name, value=1000),
        )
        kube.wait_condition("LocalQueue", name, "Active")
        try:
            yield name
        finally:
            kube.delete("LocalQueue", name)
            kube.delete("ClusterQueue", name)
            kube.delete("ResourceFlavor", name)


def queued(kube: Kube, installation: Installation, queue: str, replicas: int, outside: str) -> Stream:
    """A stream whose workers are of this queue, as docs/operations/operator.md has it."""
    made = Stream(kube, installation, words=60, name=fresh(), replicas=replicas, standby=0, outside=outside)
    pods = {**made.spec()["pods"], "workers": {"labels": {QUEUE: queue}}}
    made.extra = {"pods": pods, "workers": {"replicas": replicas, "standby": 0, "resources": SMALL}}
    return made


@pytest.fixture(scope="module")
def first(installation: Installation, kube: Kube, queue: str) -> Iterator[Stream]:
    """A stream that takes the whole quota."""
    with flowing(queued(kube, installation, queue, 2, "outside-first"), 240) as made:
        yield made


def gates(pod: Object) -> list[str]:
    return [each["name"] for each in pod["spec"].get("schedulingGates", ())]


def test_workers_that_the_quota_has_room_for_are_let_in_and_counted(
    kube: Kube, first: Stream, queue: str
) -> None:
    assert [gates(pod) for pod in first.workers()] == [[], []]
    (flavor,) = (kube.get("ClusterQueue", queue) or {})["status"]["flavorsReservation"]
    (used,) = [each["total"] for each in flavor["resources"] if each["name"] == "cpu"]
    assert used == "200m"


def test_a_job_says_that_it_waits_for_a_queue_and_runs_once_there_is_room(
    installation: Installation, kube: Kube, first: Stream, queue: str
) -> None:
    second = queued(kube, installation, queue, 1, "outside-second")
    try:
        second.prepare()
        second.apply()
        said = second.wait_condition("Degraded", "SchedulingGated", 180)["message"]
        (pod,) = kube.list("Pod", second.selector("worker"))
        assert GATE in gates(pod)
        assert pod["metadata"]["name"] in said and GATE in said, said
        assert second.status()["message"] == said, "what `kubectl get` and `describe` show"
        first.apply(suspend=True)
        second.wait_ready(180)
        second.send(20, 200)
        verdict = second.wait_through()
        assert (verdict["clean"], verdict["complete"]) == (True, True), verdict
    finally:
        second.delete()
    first.apply()
    first.wait_ready(180)
    assert first.ask("/audit")["clean"]


def test_a_worker_that_is_driven_out_costs_no_item(
    kube: Kube, first: Stream, queue: str, report: Report
) -> None:
    dear = restricted_pod("dear", "sleep", "600", labels={QUEUE: queue, PRIORITY: queue}, cpu="100m")
    dear["spec"]["containers"][0]["resources"] = SMALL

    def driven_out() -> None:
        before = {pod["metadata"]["uid"] for pod in first.workers()}
        kube.apply(dear)
        kube.wait_condition("Pod", "dear", "Ready", 120)
        assert {pod["metadata"]["uid"] for pod in first.workers()} < before
        first.wait_condition("Degraded", "SchedulingGated", 90)
        kube.delete("Pod", "dear", grace=0)
        first.wait_whole()

    broken(first, report, "a worker driven out of its queue by Kueue", driven_out)


def test_an_edit_waits_where_there_is_no_room_for_a_second_set_of_workers_and_is_made_over_a_suspension(
    first: Stream,
) -> None:
    first.extra["pods"] = {**first.extra["pods"], "labels": {"team": "x"}}
    first.apply()
    first.wait_condition("Degraded", "SchedulingGated", 240)
    first.wait_flowing()
    first.apply(suspend=True)
    first.wait_condition("Suspended")
    first.apply()
    first.wait_ready(240)
    assert {pod["metadata"]["labels"].get("team") for pod in first.workers()} == {"x"}
    first.wait_flowing()
    assert first.ask("/audit")["clean"]
