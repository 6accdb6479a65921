"""Operators over a fake cluster: stale caches, missed events, conflicts, crashes between any two writes, and
two that act at once.

Everything is drawn from one seed; `World.trace` tells what happened.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.jobs.decide import status_of
from flamestream_operator.jobs.handlers import Tools
from flamestream_operator.jobs.reconciler import JobReconciler
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.kube.cache import Cluster
from flamestream_operator.objects.meta import ROLE, Object
from flamestream_operator.savepoints.reconciler import SnapshotReconciler
from flamestream_operator.site import Site
from support.operator.fake_fleet import FakeHosting, Fleet
from support.operator.fake_kubernetes import FakeKubernetes

KEY = ("default", "job")
SITE = Site(
    coordinator="operator:7700",
    zookeeper=ZooKeeperAccess("zk:2181", "operator:secret"),
    image="flamestream:1",
)


def keys(namespace: str) -> Object:
    """The Secret of a store, as jobs in tests name it."""
    text = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s"}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "store", "namespace": namespace},
        "stringData": text,
    }


class Crash(BaseException):
    """The operator's process ends here."""


class OneOperator:
    """A process: its cache, its memory, its coordinators."""

    def __init__(self, world: "World", name: str, seen: int) -> None:
        self.world, self.name, self.seen = world, name, seen
        self.cluster = Cluster()
        self.hosting = FakeHosting(world.fleet)
        tools = Tools(
            api=world.kubernetes,
            cluster=self.cluster,
            hosting=self.hosting,
            check=lambda: None,
            again=lambda key: None,
            clock=lambda: world.now,
            instant=lambda: world.now - world.ahead,
        )
        self.jobs = JobReconciler(SITE, tools)
        self.snapshots = SnapshotReconciler(self.jobs, tools)
        for kind, thing in world.kubernetes.log[:seen]:
            self._apply(kind, thing)

    def follow(self, count: int, lose: Callable[[], bool] = lambda: False) -> None:
        """Take so many events; a lost one is never delivered (the next relist brings its result)."""
        for kind, thing in self.world.kubernetes.log[self.seen : self.seen + count]:
            if not lose():
                self._apply(kind, thing)
        self.seen = min(len(self.world.kubernetes.log), self.seen + count)

    def relist(self) -> None:
        """As after a broken watch."""
        self.seen = len(self.world.kubernetes.log)
        self.cluster.jobs.replace_all(list(self.world.kubernetes.of("FlameStreamJob")), None)
        self.cluster.snapshots.replace_all(list(self.world.kubernetes.of("FlameStreamSnapshot")), None)
        self.cluster.replace_pods(list(self.world.kubernetes.of("Pod")), None)

    def _apply(self, kind: str, thing: Object) -> None:
        if thing["kind"] == "FlameStreamJob":
            self.cluster.jobs.drop(thing) if kind == "DELETED" else self.cluster.jobs.put(thing)
        elif thing["kind"] == "FlameStreamSnapshot":
            self.cluster.snapshots.drop(thing) if kind == "DELETED" else self.cluster.snapshots.put(thing)
        elif thing["kind"] == "Pod" and thing["metadata"].get("labels", {}).get(ROLE):
            self.cluster.drop_pod(thing) if kind == "DELETED" else self.cluster.put_pod(thing)

    async def reconcile(self) -> None:
        """One look; trouble is for the next one."""
        try:
            for key in self.world.keys:
                await self.jobs.reconcile(key)
            for thing in list(self.cluster.snapshots):
                await self.snapshots.reconcile((thing["metadata"]["namespace"], thing["metadata"]["name"]))
        except ApiProblem as problem:
            self.world.trace.append(f"{self.name}: {problem}")
        await asyncio.sleep(0)


class World:
    """One job's cluster."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.kubernetes = FakeKubernetes()
        self.fleet = Fleet(self.kubernetes)
        self.now = 1_000_000.0
        """What clocks show. They can be set (`set_clocks`), unlike what processes measure durations with."""
        self.ahead = 0.0
        self.trace: list[str] = []
        self.operators = [OneOperator(self, "one", 0)]
        self.keys = [KEY]
        """The jobs that are looked at."""
        self.life = 0
        """Where the objects of the job's newest life begin: only within one are names never used twice."""
        self.announced: set[str] = set()
        """Driver pods that a written status has named."""
        self.kubernetes.after = self._wrote

    def _wrote(self, verb: str, kind: str) -> None:
        for job in self.kubernetes.of("FlameStreamJob"):
            self.announced |= {driver.name for driver in status_of(job).drivers}

    # --- what a user does -----------------------------------------------------------------------------------

    def apply(self, **spec: Any) -> None:
        """kubectl apply."""
        whole = {
            "application": {"file": "j.py", "graph": "graph", "configMap": "app"},
            "sources": {"numbers": {"generator": {"count": 10}}},
            "sinks": {"out": {"files": {"path": "/out"}}},
            "workers": {"replicas": 2},
            "checkpoint": {"interval": "1s", "store": "s3://bucket/j", "secret": "store"},
        }
        whole |= spec
        key = ("FlameStreamJob", *KEY)
        if ("ConfigMap", KEY[0], "app") not in self.kubernetes.things:
            self.edit_code("print(1)")
        if ("Secret", KEY[0], "store") not in self.kubernetes.things:
            self.kubernetes.make(keys(KEY[0]))
        if key in self.kubernetes.things:
            self.kubernetes.merge(key, {"spec": spec})
        else:
            meta = {"namespace": KEY[0], "name": KEY[1]}
            self.life = len(self.kubernetes.created)
            self.kubernetes.make(
                {
                    "apiVersion": "flamestream.dev/v1alpha1",
                    "kind": "FlameStreamJob",
                    "metadata": meta,
                    "spec": whole,
                }
            )

    def beside(self, name: str, **spec: Any) -> None:
        """kubectl apply of another job, with the same spec but for this."""
        self.keys.append((KEY[0], name))
        thing = {key: self.job[key] for key in ("apiVersion", "kind")}
        its = {**self.job["spec"], "handOver": None, **spec}
        its = {key: each for key, each in its.items() if each is not None}
        meta = {"namespace": KEY[0], "name": name}
        self.kubernetes.make({**thing, "metadata": meta, "spec": its})

    def status_of(self, name: str) -> Any:
        return status_of(self.kubernetes.things[("FlameStreamJob", KEY[0], name)])

    def snapshot(self, called: str, /, of: str = KEY[1], **status: Any) -> None:
        """kubectl apply of a FlameStreamSnapshot; with a status it is one that was taken before, maybe of
        another job."""
        meta = {"namespace": KEY[0], "name": called}
        thing = {
            "apiVersion": "flamestream.dev/v1alpha1",
            "kind": "FlameStreamSnapshot",
            "metadata": meta,
            "spec": {"job": of},
        }
        self.kubernetes.make(thing | ({"status": status} if status else {}))

    def edit_code(self, text: str) -> str:
        """Another application; its digest."""
        from flamestream_operator.objects.small import digest_of_application

        key = ("ConfigMap", KEY[0], "app")
        if key in self.kubernetes.things:
            self.kubernetes.merge(key, {"data": {"j.py": text}})
        else:
            self.kubernetes.make(
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"namespace": KEY[0], "name": "app"},
                    "data": {"j.py": text},
                }
            )
        for operator in self.operators:
            operator.jobs.application_changed(KEY[0], "app")
        return digest_of_application(self.kubernetes.things[key])

    def delete(self) -> None:
        """kubectl delete."""
        if ("FlameStreamJob", *KEY) in self.kubernetes.things:
            self.kubernetes.remove(("FlameStreamJob", *KEY))

    def kill(self, role: str) -> None:
        """kubectl delete pod --force."""
        pods = [pod for pod in self.kubernetes.of("Pod") if pod["metadata"]["labels"].get(ROLE) == role]
        if pods:
            victim = self.random.choice(pods)
            self.kubernetes.remove(("Pod", KEY[0], victim["metadata"]["name"]))

    # --- what is there --------------------------------------------------------------------------------------

    @property
    def job(self) -> Object:
        return self.kubernetes.things[("FlameStreamJob", *KEY)]

    @property
    def status(self) -> Any:
        return status_of(self.job)

    def pods(self, role: str) -> list[str]:
        return [
            pod["metadata"]["name"]
            for pod in self.kubernetes.of("Pod")
            if pod["metadata"]["labels"].get(ROLE) == role
        ]

    def condition(self, kind: str) -> Any:
        return next(each for each in self.status.conditions if each.type == kind)

    def set_clocks(self, seconds: float) -> None:
        """Forward, or back."""
        self.now += seconds
        self.ahead += seconds

    # --- time -----------------------------------------------------------------------------------------------

    async def calm(self, seconds: int = 40) -> None:
        """Nothing goes wrong any more: every event arrives, one operator leads."""
        self.kubernetes.before = lambda verb, kind: None
        self.operators = self.operators[:1]
        for _ in range(seconds):
            self.now += 1.0
            operator = self.operators[0]
            operator.relist()
            await operator.reconcile()
            self.fleet.step()
            operator.hosting.step()
            self.check()

    def check(self) -> None:
        """The invariants, at every step."""
        made = [
            name
            for kind, name, _ in self.kubernetes.created[self.life :]
            if kind == "Pod" and "-driver-" in name
        ]
        assert len(made) == len(set(made)), f"a driver pod's name was used twice: {made}"
        assert set(made) <= self.announced, f"not announced before it was made: {set(made) - self.announced}"
        for record in self.fleet.records.values():
            attempts = [attempt for attempt, _ in record.commits]
            assert attempts == sorted(attempts), (
                f"a commit of an older attempt after a newer one's: {attempts}"
            )
