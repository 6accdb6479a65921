"""The operator's reconcilers and real coordinators on an API server, with workers in processes of this
machine: all but Spark and watches.

`play(body)` runs an async test body on one. Its waits are `until`, which reconciles and lets the kubelet work
until what is wanted can be seen. `new_leader` is another operator that finds what the last one left.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flamestream.connectors import sinks
from flamestream.job.status import JobStatus
from flamestream.net.acceptor import listen
from flamestream_operator.api.job_status import JobResourceStatus
from flamestream_operator.coordination.cluster_state import ZooKeeper
from flamestream_operator.coordination.coordinators import Coordinators
from flamestream_operator.coordination.job_store import job_store
from flamestream_operator.jobs.decide import status_of
from flamestream_operator.jobs.handlers import Tools
from flamestream_operator.jobs.reconciler import JobReconciler
from flamestream_operator.kube.api import Api, ApiProblem
from flamestream_operator.kube.cache import Cluster
from flamestream_operator.objects.meta import JOB, Object
from flamestream_operator.savepoints.reconciler import SnapshotReconciler
from flamestream_operator.site import Allowed, Site
from support.operator.kubelet import Kubelet, Pod
from support.versitygw import KEY, SECRET, S3Server

APPLICATION = """
import flamestream as fs

graph = fs.Graph("sums")
numbers = graph.source("numbers").map(int)
sums = numbers.reduce(
    key=lambda number: number % 5, initial=int, combine=lambda total, number: total + number, emit=lambda total, number: (number, total)
)
sums.sink("out", key=lambda result: result[0] % 5)
"""  # noqa: E501
"""The sum so far of the numbers that leave the same rest when divided by five."""


def results(count: int) -> list[tuple[int, int]]:
    """What must come out of the first so many numbers, by arithmetic alone."""
    return results_of(range(count))


def results_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """What must come out of these numbers, in their order and each once."""
    totals = [0] * 5
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        totals[number % 5] += number
        found.append((number, totals[number % 5]))
    return found


@dataclass(frozen=True)
class Places:
    """What outlives a test body: servers and folders."""

    zookeeper: ZooKeeper
    s3: S3Server
    namespace: str
    folder: Path


class PlainCluster:
    """One namespace; what is done and seen is of the job `name`, one after another."""

    def __init__(self, api: Api, places: Places) -> None:
        self.api, self.places = api, places
        self.namespace, self.name = places.namespace, "sums"
        with listen("127.0.0.1") as probe:
            self._port = int(probe.getsockname()[1])
        self.kubelet = Kubelet(api, self.namespace, places.folder / "pods")
        self.new_leader()

    def new_leader(self) -> None:
        """With empty hands, and the address of the one before."""
        self.cluster = Cluster()
        allowed = Allowed(store_endpoints=(self.places.s3.endpoint,))
        self.coordinators = Coordinators(
            zookeeper=self.places.zookeeper, host="127.0.0.1", port=self._port, changed=lambda _: None,
            store_of=partial(job_store, allowed=allowed),
        )  # fmt: skip
        site = Site(
            coordinator=f"127.0.0.1:{self._port}", zookeeper=self.places.zookeeper.access,
            image="flamestream:1", pull_policy="Never", allowed=allowed,
        )  # fmt: skip
        tools = Tools(
            api=self.api,
            cluster=self.cluster,
            hosting=self.coordinators,
            check=lambda: None,
            again=lambda _: None,
        )
        self.jobs = JobReconciler(site, tools)
        self.snapshots = SnapshotReconciler(self.jobs, tools)

    def lose_leader(self) -> None:
        """Its process ends. Nobody is told."""
        self.coordinators.close()

    # --- what a user does -----------------------------------------------------------------------------------

    async def apply(self, application: str = APPLICATION, /, **changes: Any) -> None:
        """The job and what it names; the application counts where there is none yet."""
        if await self.api.get("Secret", self.namespace, "store") is None:
            await self._put(
                {
                    "kind": "Secret",
                    "metadata": {"name": "store"},
                    "type": "Opaque",
                    "stringData": {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET},
                }
            )
            await self._put({"kind": "ConfigMap", "metadata": {"name": "app"}, "data": {"j.py": application}})
        await self._put(
            {"kind": "FlameStreamJob", "metadata": {"name": self.name}, "spec": {**self.spec(), **changes}}
        )

    def spec(self) -> dict[str, Any]:
        """Of an endless job."""
        return {
            "application": {"file": "j.py", "graph": "graph", "configMap": "app"},
            "sources": {"numbers": {"generator": {"rate": 200}}},
            "sinks": {"out": {"files": {"path": str(self.output), "fsync": False}}},
            "workers": {"replicas": 2, "slots": 16},
            "checkpoint": {
                "interval": "100ms",
                "store": f"s3://jobs/{self.namespace}?endpoint={self.places.s3.endpoint}&region=us-east-1",
                "secret": "store",
            },
        }

    async def edit(self, spec: dict[str, Any]) -> None:
        """kubectl patch."""
        await self.api.patch("FlameStreamJob", self.namespace, self.name, {"spec": spec})

    async def edit_code(self, text: str) -> None:
        """kubectl apply of the ConfigMap; a watch would tell the operator."""
        await self.api.patch("ConfigMap", self.namespace, "app", {"data": {"j.py": text}})
        self.jobs.application_changed(self.namespace, "app")

    async def save(self, name: str) -> Object:
        """A savepoint, when it is complete."""
        await self._put(
            {"kind": "FlameStreamSnapshot", "metadata": {"name": name}, "spec": {"job": self.name}}
        )
        await self.until(lambda: self._phase_of(name) == "Completed", f"savepoint {name} is complete")
        return self.cluster.snapshots.get((self.namespace, name)) or {}

    def kill(self) -> Pod:
        """SIGKILL of a worker's process that has slots; its pod stays, and Spark starts it again."""
        busy = {
            member.ip
            for member in self.coordinators.members(f"{self.namespace}.{self.name}")
            if not member.standby
        }
        victim = next(pod for pod in self.kubelet.workers() if pod.ip in busy)
        assert victim.process is not None
        victim.process.kill()
        return victim

    async def _put(self, thing: Object) -> None:
        ours = thing["kind"].startswith("FlameStream")
        whole = {"apiVersion": "flamestream.dev/v1alpha1" if ours else "v1", **thing}
        await self.api.create({**whole, "metadata": {**thing["metadata"], "namespace": self.namespace}})

    # --- what is there --------------------------------------------------------------------------------------

    @property
    def output(self) -> Path:
        return self.places.folder / f"out-{self.name}"

    @property
    def job(self) -> Object | None:
        return self.cluster.jobs.get((self.namespace, self.name))

    @property
    def status(self) -> JobResourceStatus:
        return status_of(self.job or {})

    @property
    def told(self) -> JobStatus | None:
        """The coordinator's word."""
        return self.coordinators.status(f"{self.namespace}.{self.name}")

    def delivered(self) -> list[Any]:
        """What a consumer was given, in the total order."""
        return [payload for _, _, _, payload in sinks.read({"files": {"path": str(self.output)}})]

    def _phase_of(self, snapshot: str) -> str:
        thing = self.cluster.snapshots.get((self.namespace, snapshot))
        return str(((thing or {}).get("status") or {}).get("phase", ""))

    def runs(self, attempt: int = 1, workers: int = 2) -> bool:
        """Whole, and behind a commit of this attempt."""
        told = self.told
        return (
            told is not None and told.phase == "running" and told.attempt >= attempt and len(told.workers)
                == workers
            and self.status.phase == "Running"
        )  # fmt: skip

    async def gives(self, who: str, attempt: int = 1, workers: int = 2) -> None:
        """It runs, takes epochs if it takes any, and more comes out than before."""
        await self.until(lambda: self.runs(attempt, workers), f"{who} runs")
        told, given = self.told, len(self.delivered())
        epoch = told.epoch if told is not None and (self.job or {})["spec"].get("guarantee") != "none" else -1
        more = lambda: len(self.delivered()) > given + 20 and (self.told or told).epoch > epoch  # type: ignore[union-attr]  # noqa: E731
        await self.until(more, f"{who} gives results and takes epochs")

    # --- time -----------------------------------------------------------------------------------------------

    async def until(
        self, seen: Callable[[], bool], what: str, within: float = 120.0, *, may_fail: bool = False
    ) -> None:
        """Reconcile until it is so. A job that fails meanwhile ends the wait, unless it may."""
        deadline = time.monotonic() + within
        while True:
            await self.look()
            if seen():
                return
            if time.monotonic() > deadline or (self.status.phase == "Failed" and not may_fail):
                raise AssertionError(
                    f"not within {within:g} s: {what}\n{self.status}\n{self.told}\n{self.kubelet.said()}"
                )
            await asyncio.sleep(0.02)

    async def look(self) -> None:
        """One turn of everybody."""
        namespace = self.namespace
        try:
            self.cluster.jobs.replace_all(await self.api.list_all("FlameStreamJob", namespace), namespace)
            self.cluster.snapshots.replace_all(
                await self.api.list_all("FlameStreamSnapshot", namespace), namespace
            )
            pods = [
                pod for pod in await self.api.list_all("Pod", namespace) if JOB in pod["metadata"]["labels"]
            ]
            self.cluster.replace_pods(pods, namespace)
            for thing in list(self.cluster.jobs):
                await self.jobs.reconcile((namespace, thing["metadata"]["name"]))
            for thing in list(self.cluster.snapshots):
                await self.snapshots.reconcile((namespace, thing["metadata"]["name"]))
            await self.kubelet.step()
        except ApiProblem as problem:
            if not (problem.conflict or problem.passing):
                raise

    async def close(self) -> None:
        """End what runs."""
        self.kubelet.close()
        self.coordinators.close()


def play(api: Callable[[], Any], places: Places, body: Callable[[PlainCluster], Awaitable[None]]) -> None:
    """`api` gives an async context manager of an API."""

    async def whole() -> None:
        async with api() as opened:
            cluster = PlainCluster(opened, places)
            try:
                await body(cluster)
            finally:
                await cluster.close()

    asyncio.run(whole())
