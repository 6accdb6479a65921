"""A world for drills: a fake API server whose pods are struck, and a job on two nodes with one drill."""

import asyncio
import json
from typing import Any

import msgspec

from flamestream.job.drills.status import OVER
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.api.drill import ELSEWHERE, DrillStatus
from flamestream_operator.drills.reconciler import DrillReconciler
from flamestream_operator.jobs.handlers import Tools
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.cache import Cluster
from flamestream_operator.objects import names
from flamestream_operator.objects.meta import Object, pod_labels
from flamestream_operator.site import Allowed, Site
from support.operator.fake_kubernetes import FakeKubernetes
from support.operator.whole_job import Coordinators

KEY = ("n", "d")
SITE = Site(
    coordinator="operator:7700",
    zookeeper=ZooKeeperAccess("zk:2181", "operator:secret"),
    image="flamestream:1",
    pull_policy="Never",
    allowed=Allowed(drill_namespaces=("system",)),
)
CLEAN = {
    "clean": True,
    "records": 5,
    "delivered": 5,
    "lost": 0,
    "doubled": 0,
    "reordered": 0,
    "foreign": 0,
    "firstDifference": "",
    "complete": True,
}
SELECTED = {"targetSelector": {"app": "zk"}, "targetNamespace": "system"}


class Pods:
    """The fake API server, with commands in pods, containers beside them, and logs."""

    def __init__(self) -> None:
        self.fake = FakeKubernetes()
        self.commands: list[tuple[str, list[str]]] = []
        self.graces: list[tuple[str, int | None]] = []
        self.answer = ""
        """Of a command; "": what a strike that worked says."""
        self.cutter: Object = {"running": {"startedAt": "now"}}
        self.said = "cut eth0"
        self.problem: ApiProblem | None = None
        """Of the next strike."""
        self.heeds_deletions = True
        self.comes_back = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fake, name)

    def _strike(self) -> None:
        if self.problem is not None:
            raise self.problem

    async def execute(self, namespace: str, pod: str, container: str, command: list[str]) -> str:
        self._strike()
        self.commands.append((pod, command[3:]))
        return self.answer or json.dumps({"pids": [7], "seen": "paused" if "pause" in command else "gone"})

    async def attach(self, namespace: str, pod: str, container: Object) -> None:
        self._strike()
        self.commands.append((pod, [container["image"], *container["command"][2:]]))
        status = {"ephemeralContainerStatuses": [{"name": container["name"], "state": self.cutter}]}
        self.merge(("Pod", namespace, pod), {"status": status})

    async def log(self, namespace: str, pod: str, container: str | None = None) -> str:
        return self.said

    async def delete(self, kind: str, namespace: str, name: str, *, grace: int | None = None) -> None:
        self._strike()
        self.graces.append((name, grace))
        if self.heeds_deletions:
            gone = self.things[(kind, namespace, name)]
            await self.fake.delete(kind, namespace, name, grace=grace)
            if self.comes_back:  # as a StatefulSet's: another life of the same name
                self.make({**gone, "metadata": {**gone["metadata"], "resourceVersion": ""}})


class World:
    """A job of two applications on two nodes, an operator, a ZooKeeper, and one drill."""

    def __init__(self, target: str, action: str = "kill", site: Site = SITE, **spec: Any) -> None:
        self.api: Any = Pods()
        self.site = site
        self.hosting, self.now = Coordinators(), 1_800_000_000.0
        self.audit: dict[str, Any] | None = dict(CLEAN)
        self.cluster = Cluster()
        self._job()
        for number, application in enumerate("ab", start=1):
            self._pod(f"driver-{application}", "driver", application, f"10.0.1.{number}", f"node{number}")
            self._pod(f"exec-{application}", "worker", application, f"10.0.0.{number}", f"node{number}")
        self._pod("operator-1", "operator", "", "10.0.2.1", "node1", namespace="system")
        self._pod("zk-0", "zookeeper", "", "10.0.2.2", "node1", namespace="system")
        fault = {
            "target": target,
            "action": action,
            **(SELECTED if target in ELSEWHERE else {}),
            **spec.pop("fault", {}),
        }
        whole = {"job": "j", "fault": fault, "after": "200ms", "timeout": "60s", **spec}
        meta = {"name": "d", "namespace": "n", "creationTimestamp": "2027-01-15T08:00:00Z"}
        self.drill = self.api.make(
            {
                "apiVersion": "flamestream.dev/v1alpha1",
                "kind": "FlameStreamDrill",
                "metadata": meta,
                "spec": whole,
            }
        )
        self.leader = ("system", "operator-1")

    def _job(self) -> None:
        spec = {
            "workers": {"replicas": 2},
            "sinks": {"out": {"files": {"path": "/out"}}},
            "guarantee": "exactly-once",
        }
        thing = {
            "apiVersion": "flamestream.dev/v1alpha1",
            "kind": "FlameStreamJob",
            "metadata": {"name": "j", "namespace": "n"},
            "spec": spec,
        }
        self.api.make({**thing, "status": {"phase": "Running", "attempt": 1}})

    def _pod(self, name: str, role: str, application: str, ip: str, node: str, namespace: str = "n") -> None:
        meta = {
            "name": name,
            "namespace": namespace,
            "labels": pod_labels("j", application, "-ab".find(application), role),
        }
        spec = {
            "nodeName": node,
            "containers": [{"name": "executor" if role == "worker" else role, "image": "app:1"}],
        }
        status = {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]}
        self.api.make({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status})

    def operator(self) -> DrillReconciler:
        tools = Tools(
            api=self.api,
            cluster=self.cluster,
            hosting=self.hosting,  # type: ignore[arg-type]  # what a drill asks of them
            check=lambda: None,
            again=lambda _: None,
            clock=lambda: self.now,
        )
        return DrillReconciler(None, self.site, tools, self.api, self.leader)  # type: ignore[arg-type]  # its audits' pods are made here

    def status(self) -> DrillStatus:
        return msgspec.convert(self.api.things[("FlameStreamDrill", *KEY)].get("status") or {}, DrillStatus)

    def look(self, operator: DrillReconciler) -> None:
        """One look by that operator, of the cluster as it is."""
        self.cluster.jobs.replace_all(list(self.api.of("FlameStreamJob")), None)
        self.cluster.drills.replace_all(list(self.api.of("FlameStreamDrill")), None)
        self.cluster.replace_pods(
            [pod for pod in self.api.of("Pod") if pod["metadata"]["namespace"] == "n"], None
        )
        before = self.status()
        pause = asyncio.run(operator.reconcile(KEY))
        after = self.status()
        if after.struck_at and not before.struck_at:
            self.hosting.attempt += 1
        if (
            after.phase == "Auditing"
            and self.audit is not None
            and ("Pod", "n", names.audit("d")) not in self.api.things
        ):
            ended = [{"state": {"terminated": {"exitCode": 0, "message": json.dumps(self.audit)}}}]
            meta = {"name": names.audit("d"), "namespace": "n", "labels": {}}
            status = {"phase": "Succeeded", "containerStatuses": ended}
            self.api.make({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {}, "status": status})
        self.now += pause or 0.5

    def over(self, until: str = "", most: int = 3000) -> DrillStatus:
        """Go on to its end, or until there is something in this field of its status."""
        operator = self.operator()
        for _ in range(most):
            status = self.status()
            if status.phase in OVER or (until and getattr(status, until)):
                return status
            self.look(operator)
        raise AssertionError(f"never over: {self.status()}")


def damaged(target: str, action: str = "kill", **wrong: Any) -> DrillStatus:
    """A drill in a cluster where something is wrong with the strike."""
    world = World(target, action, fault={"pauseFor": "6s"})
    for name, value in wrong.items():
        setattr(world.api, name, value)
    return world.over()


def only(api: Pods, *names_: str) -> Any:
    """What lists nothing but the things of these names."""

    async def list_all(
        kind: str, namespace: str | None, labels: dict[str, str] | None = None
    ) -> list[Object]:
        return [thing for thing in api.of(kind) if thing["metadata"]["name"] in names_]

    return list_all
