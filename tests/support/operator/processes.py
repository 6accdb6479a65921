"""Several of the operator's processes, each with the rights that the chart gives, and the jobs that they lead.

Workers are processes, and find their leaders by name. What the jobs deliver is compared with arithmetic.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml

from flamestream.connectors import sinks
from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.objects.meta import Object, part
from flamestream_operator.shards import name_of, shard_of
from support import helm
from support.operator.kubelet import Kubelet
from support.operator.operator_process import LEASE, OWN, SERVICE, Process, names_of
from support.operator.plain_cluster import APPLICATION, Places, results
from support.operator.pod_main import NAMES
from support.operator.raw_api import apply
from support.operator.real_cluster import the_api
from support.versitygw import KEY, SECRET

COUNT = 6000
"""Records of a job, 200 a second."""
KEPT = APPLICATION.replace("numbers.reduce(", 'numbers.reduce(name="sums", ')
"""The application, with a name for its state: another job may go on with it."""
Attempts = dict[str, int]


class Cluster:
    """Jobs in two shards of two, a node, and whoever leads."""

    def __init__(self, api: Any, places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
        self.api, self.places = api, places
        self.kubelet = Kubelet(api, places.namespace, places.folder / "pods")
        self._names = places.folder / "names.json"
        self._names.write_text("{}")
        monkeypatch.setenv(NAMES, str(self._names))
        names = [f"job-{number}" for number in range(40)]
        self.jobs = [
            [name for name in names if shard_of(f"{places.namespace}.{name}", 2) == shard][:2]
            for shard in (0, 1)
        ]
        self.processes: list[Process] = []

    def start(self, shards: int, **more: str) -> Process:
        """Another one; `more`: of its environment."""
        made = Process(self.places, len(self.processes) + 1, shards=shards, seconds=6, more=more)
        made.start()
        self.processes.append(made)
        return made

    async def close(self) -> None:
        self.kubelet.close()
        for each in self.processes:
            sys.stdout.write(each.kill())
        for shard in (0, 1):  # of the next test's operators nobody waits for these
            await self.api.delete("Lease", OWN, name_of(LEASE, shard))

    async def prepare(self) -> None:
        keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
        await self._put("Secret", "store", type="Opaque", stringData=keys)
        await self._put("ConfigMap", "app", data={"j.py": KEPT})

    async def begin_all(self) -> None:
        """The jobs of both shards."""
        await self.prepare()
        for name in chain(*self.jobs):
            await self.begin(name)

    async def begin(self, name: str, **more: Any) -> None:
        """A job; with `takeOver` it has the places of the other one."""
        of = (more.get("takeOver") or {}).get("job", name)
        store = f"s3://jobs/{self.places.namespace}-{of}?endpoint={self.places.s3.endpoint}&region=us-east-1"
        spec = {
            "application": {"file": "j.py", "graph": "graph", "configMap": "app"},
            "sources": {"numbers": {"generator": {"rate": 200, "count": COUNT}}},
            "sinks": {"out": {"files": {"path": str(self._output(of)), "fsync": False}}},
            "workers": {"replicas": 1, "slots": 4},
            "checkpoint": {"interval": "200ms", "store": store, "secret": "store"},
            **more,
        }
        await self._put("FlameStreamJob", name, spec=spec)

    def named(self, shard: int) -> set[str]:
        """Identities of a shard's jobs."""
        return {f"{self.places.namespace}.{name}" for name in self.jobs[shard]}

    async def holders(self) -> list[str]:
        """Who has the Leases, by shard."""
        leases = [await self.api.get("Lease", OWN, name_of(LEASE, shard)) for shard in (0, 1)]
        return [str(part(lease, "spec", "holderIdentity") or "") for lease in leases]

    async def attempts(self) -> dict[str, Attempts]:
        """By process, those of jobs that it coordinates."""
        found = await asyncio.gather(*(asyncio.to_thread(each.attempts) for each in self.processes))
        return {each.name: here for each, here in zip(self.processes, found, strict=True)}

    async def coordinated(
        self, by: Callable[[list[str]], list[Process]], *, but: Process | None = None
    ) -> Attempts:
        """Once each job is coordinated by the leader of its shard, and by nobody else: the attempts."""

        async def good() -> Attempts | None:
            attempts = await self.attempts()
            if but is not None:
                attempts.pop(but.name, None)
            holders = await self.holders()
            wanted = [self.named(shard) for shard in (0, 1)]
            leaders = [each.name for each in by(holders)]
            if len(leaders) < len(wanted):
                return None
            if len(set(leaders)) == 1:
                wanted, leaders = [wanted[0] | wanted[1]], leaders[:1]
            held = {name: set(here) for name, here in attempts.items() if here}
            if held != dict(zip(leaders, wanted, strict=True)):
                return None
            return {job: attempt for here in attempts.values() for job, attempt in here.items()}

        found: Attempts = await self.until(good, "each job is coordinated by the leader of its shard alone")
        return found

    def by_lease(self, holders: list[str]) -> list[Process]:
        return [each for holder in holders for each in self.processes if each.name == holder]

    async def until(self, good: Callable[[], Any], what: str, within: float = 120) -> Any:
        """The first answer that is not empty; the node works meanwhile."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while True:
            await self._work()
            if found := await good():
                return found
            assert loop.time() < deadline, (
                f"{what}\n{await self.holders()}\n{await self.attempts()}\n{self.kubelet.said()}"
            )
            await asyncio.sleep(0.05)

    async def phases(self, **wanted: str) -> None:
        """Until these jobs, with `_` for `-`, have these phases."""

        async def good() -> bool:
            jobs = await self.api.list_all("FlameStreamJob", self.places.namespace)
            seen = {job["metadata"]["name"].replace("-", "_"): part(job, "status", "phase") for job in jobs}
            return wanted.items() <= seen.items()

        await self.until(good, f"phases: {wanted}")

    async def completed(self) -> None:
        """Each job delivers what it must, and nothing twice, in one order."""
        await self.phases(**{name.replace("-", "_"): "Completed" for name in chain(*self.jobs)})
        self.delivered(*chain(*self.jobs))

    def delivered(self, *jobs: str) -> None:
        """What each must have given."""
        for name in jobs:
            given = [result for _, _, _, result in sinks.read({"files": {"path": str(self._output(name))}})]
            assert given == results(COUNT), name

    async def _work(self) -> None:
        try:
            await self.kubelet.step()
        except ApiProblem as problem:
            if not (problem.conflict or problem.passing or problem.absent):
                raise
        slices = [await self.api.get("EndpointSlice", OWN, name_of(SERVICE, shard)) for shard in (0, 1)]
        fresh = self._names.with_suffix(".new")
        fresh.write_text(json.dumps(names_of([each for each in slices if each is not None])))
        fresh.replace(self._names)

    def _output(self, name: str) -> Path:
        return self.places.folder / f"out-{name}"

    async def _put(self, kind: str, name: str, **body: Any) -> None:
        version = "flamestream.dev/v1alpha1" if kind.startswith("FlameStream") else "v1"
        meta = {"name": name, "namespace": self.places.namespace}
        thing: Object = {"apiVersion": version, "kind": kind, "metadata": meta, **body}
        await self.api.create(thing)


def give_rights(places: Places, **operator: Any) -> None:
    """The chart's, to the account of the processes. `operator`: more of its values."""
    values = {
        "operator": {"drills": True, "shards": 2, **operator},
        "allow": {"storeEndpoints": [places.s3.endpoint]},
    }
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}})
    for thing in filter(None, yaml.safe_load_all(helm.rendered(values))):
        if "Role" in thing["kind"] or thing["kind"] == "ServiceAccount":
            apply({**thing, "metadata": {"namespace": OWN, **thing["metadata"]}})


def play(places: Places, monkeypatch: pytest.MonkeyPatch, body: Callable[[Cluster], Any]) -> None:
    async def whole() -> None:
        async with the_api() as api:
            cluster = Cluster(api, places, monkeypatch)
            try:
                await body(cluster)
            finally:
                await cluster.close()

    asyncio.run(whole())
