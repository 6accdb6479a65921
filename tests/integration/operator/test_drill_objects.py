"""FlameStreamDrills on a real API server: what is refused when it is applied, and a drill from its object to
its verdict."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from lightkube.core.exceptions import ApiError

from flamestream.job.drills.status import OVER
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.api.drill import ACTIONS, ELSEWHERE, REFUSALS, DrillStatus
from flamestream_operator.drills.reconciler import DrillReconciler
from flamestream_operator.jobs.handlers import Tools
from flamestream_operator.kube.api import ApiProblem, LightkubeApi
from flamestream_operator.kube.cache import Cluster
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import JOB, Object, pod_labels
from flamestream_operator.site import Site
from support.operator.real_cluster import namespace, the_api
from support.operator.whole_job import Coordinators

pytestmark = pytest.mark.usefixtures("own_api_server")
ZOOKEEPER = ZooKeeperAccess("zk:2181", "o:s")
SITE = Site(
    coordinator="operator:7700", zookeeper=ZOOKEEPER, image="flamestream.invalid/none:1", pull_policy="Never"
)
ALL = ("kill", "pause", "delete", "cut")
PAIRS = [(target, action) for target in ACTIONS for action in ALL]
CLEAN = {
    "clean": True,
    "records": 5,
    "delivered": 5,
    "complete": True,
    "bounds": "all results had to be there",
}


@pytest.fixture(scope="module")
def place(api_server: None) -> Iterator[str]:
    with namespace() as name:
        yield name


def a_drill(place: str, name: str = "d", **fault: Any) -> Object:
    meta = {"name": name, "namespace": place}
    spec = {"job": "j", "fault": fault, "times": 1, "after": "50ms", "timeout": "20s"}
    return {
        "apiVersion": "flamestream.dev/v1alpha1",
        "kind": "FlameStreamDrill",
        "metadata": meta,
        "spec": spec,
    }


def tried(place: str, **fault: Any) -> str:
    """The API server's words against it; "": it would take it."""

    async def play() -> str:
        async with the_api() as api:
            try:
                await api.create(a_drill(place, **fault), dry_run=True)
            except ApiProblem as problem:
                return problem.message if problem.status == 422 else f"another answer: {problem}"
        return ""

    return asyncio.run(play())


@pytest.mark.parametrize(("target", "action"), PAIRS, ids=lambda word: word)
def test_what_is_offered_is_taken_and_what_cannot_be_done_is_refused_with_what_to_choose(
    place: str, target: str, action: str
) -> None:
    more = {"targetSelector": {"app": "x"}} if target in ELSEWHERE else {}
    said = tried(place, target=target, action=action, **more)
    assert bool(said) == (action not in ACTIONS[target])
    assert not said or (REFUSALS[target] in said and "spec.fault.action" in said)


STRANGE: list[tuple[dict[str, Any], str]] = [
    ({"target": "moon"}, "Unsupported value"),
    ({"target": "store"}, "say which pods"),
    ({"target": "store", "targetSelector": {}}, "say which pods"),
    ({"target": "worker", "targetSelector": {"app": "x"}}, "are for zookeeper, store and pod"),
    ({"target": "node", "targetNamespace": "elsewhere"}, "are for zookeeper, store and pod"),
    ({"target": "worker", "action": "pause", "pauseFor": "soon"}, "should match"),
]


@pytest.mark.parametrize(
    ("fault", "words"), STRANGE, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_fault_that_means_nothing_is_refused(place: str, fault: dict[str, Any], words: str) -> None:
    assert words in tried(place, **fault)


class Stage:
    """A job's objects by hand, and an operator that drills it. Nothing replaces a pod here: a fault that took
    a worker leaves a gap."""

    def __init__(self, api: LightkubeApi, place: str) -> None:
        self.api, self.place, self.cluster, self.hosting = api, place, Cluster(), Coordinators()
        tools = Tools(
            api=api, cluster=self.cluster, hosting=self.hosting, check=lambda: None, again=lambda _: None, clock=time.time,  # type: ignore[arg-type]  # what a drill asks of them  # noqa: E501
        )  # fmt: skip
        self.drills = DrillReconciler(None, SITE, tools, api, ("nowhere", "operator"))  # type: ignore[arg-type]  # its audit's pod is made here

    async def set(self) -> None:
        spec = {
            "application": {"file": "j.py", "graph": "graph", "configMap": "app"},
            "sources": {"numbers": {"generator": {"count": 10}}},
            "sinks": {"out": {"files": {"path": "/out"}}},
            "workers": {"replicas": 2},
            "checkpoint": {"interval": "1s", "store": "s3://bucket/j", "secret": "store"},
        }
        meta = {"name": "j", "namespace": self.place}
        job = await self.api.create(
            {
                "apiVersion": "flamestream.dev/v1alpha1",
                "kind": "FlameStreamJob",
                "metadata": meta,
                "spec": spec,
            }
        )
        await self.api.replace_status({**job, "status": {"phase": "Running", "attempt": 1}})
        for number in (1, 2):
            await self._pod(f"exec-{number}", f"10.0.0.{number}")

    async def _pod(self, name: str, ip: str, labels: dict[str, str] | None = None, **status: Any) -> None:
        meta = {
            "name": name,
            "namespace": self.place,
            "labels": pod_labels("j", "a", 1, "worker") if labels is None else labels,
        }
        containers = [{"name": "executor", "image": "flamestream.invalid/none:1"}]
        spec = {
            "nodeName": "nowhere",
            "containers": containers,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
        }
        await self.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        told = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], **status}
        await self.api.patch("Pod", self.place, name, {"status": told}, status=True)

    async def over(self) -> Object:
        """Look until there is a verdict; the audit's pod has said its own by then."""
        audited = False
        for _ in range(400):
            self.cluster.jobs.replace_all(await self.api.list_all("FlameStreamJob", self.place), self.place)
            self.cluster.replace_pods(await self.api.list_all("Pod", self.place, {JOB: "j"}), self.place)
            drill = await self.api.get("FlameStreamDrill", self.place, "d")
            assert drill is not None
            self.cluster.drills.put(drill)
            status = msgspec.convert(drill.get("status") or {}, DrillStatus)
            if status.phase in OVER:
                return drill
            if status.phase == "Auditing" and not audited:
                audited = True
                ended = {
                    "name": "executor",
                    "state": {"terminated": {"exitCode": 0, "message": json.dumps(CLEAN)}},
                }
                said = {**ended, "image": "", "imageID": "", "ready": False, "restartCount": 0}
                await self._pod(names.audit("d"), "10.0.0.9", {}, phase="Succeeded", containerStatuses=[said])
            before = status.struck_at
            pause = await self.drills.reconcile((self.place, "d"))
            fresh = await self.api.get("FlameStreamDrill", self.place, "d") or {}
            self.hosting.attempt += bool(not before and fresh.get("status", {}).get("struckAt"))
            await asyncio.sleep(min(0.02, pause or 0))
        raise AssertionError(f"never over: {await self.api.get('FlameStreamDrill', self.place, 'd')}")


def drilled(**fault: Any) -> tuple[Object, list[str]]:
    """The drill as the API server has it at its end, and the pods that are left."""

    async def play(place: str) -> tuple[Object, list[str]]:
        async with the_api() as api:
            stage = Stage(api, place)
            await stage.set()
            await api.create(a_drill(place, **fault))
            drill = await stage.over()
            return drill, [pod["metadata"]["name"] for pod in await api.list_all("Pod", place, {JOB: "j"})]

    with namespace() as place:
        return asyncio.run(play(place))


def test_a_drill_that_passed_is_stored_with_everything_that_it_rests_on() -> None:
    drill, left = drilled(target="executor", action="kill")
    status = drill["status"]
    assert (status["phase"], status["reason"], status["done"]) == ("Passed", "Clean", 1), status
    assert (status["faults"][0]["seen"], status["audit"]["clean"], status["audit"]["bounds"]) == (
        "gone",
        True,
        CLEAN["bounds"],
    )
    assert status["faults"][0]["victim"] not in left and len(left) == 1
    assert {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]} == {
        "Ready": ("True", "Clean"), "Completed": ("True", "Clean"), "Failed": ("False", "Clean"),
        "Reconciling": ("False", "Clean"), "Stalled": ("False", "Clean"),
    }  # fmt: skip


def test_a_strike_that_the_api_server_refuses_is_a_verdict_with_its_words() -> None:
    """There is no kubelet that could run a command in the pod."""
    drill, left = drilled(target="worker", action="kill")
    status = drill["status"]
    assert (status["phase"], status["done"], len(left)) == ("Inconclusive", 0, 2), status
    assert status["reason"] == "Refused" and "exec Pod" in status["message"]


def test_a_drill_is_carried_out_once(place: str) -> None:
    async def play() -> None:
        async with the_api() as api:
            await api.create(a_drill(place, "once", target="worker"))
            try:
                with pytest.raises((ApiProblem, ApiError), match="carried out once"):
                    await api.patch("FlameStreamDrill", place, "once", {"spec": {"times": 2}})
            finally:
                await api.delete("FlameStreamDrill", place, "once")

    asyncio.run(play())
