"""The operator's process with the rights that the chart gives it, and no others, through lives of jobs: what
it asks for is what it may.

The API server's audit log has each request of its account. A right that no request has used is red, unless
`HELD` says why it is held; so is a request that was refused. Spark is not here, so what its drivers do stands
in tests/unit/operator/test_objects.py.
"""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flamestream_operator.kube.api import ApiProblem
from flamestream_operator.objects.meta import JOB, Object
from support import helm
from support.eventually import eventually
from support.operator.kubelet import Kubelet
from support.operator.operator_process import OWN, SERVICE, Process
from support.operator.plain_cluster import APPLICATION, Places
from support.operator.raw_api import apply, refusal, remove
from support.operator.raw_api import places as places_of
from support.operator.real_cluster import VARIABLE, served, the_api
from support.ports import free_port
from support.versitygw import KEY, SECRET

pytestmark = pytest.mark.usefixtures("own_api_server")
Right = tuple[str, str, str]
"""Group, resource with its subresource, verb."""
KEPT = APPLICATION.replace("numbers.reduce(", 'numbers.reduce(name="sums", ')
"""The application, with a name for its state: it can be asked for."""
HELD: dict[Right, str] = {
    (
        "",
        "pods",
        "deletecollection",
    ): "a Role is given by who holds its rules: Spark removes executors at once",
    ("", "pods/exec", "create"): "Kubernetes from 1.35 on asks for it where get was enough",
    ("", "endpoints/restricted", "create"): "asked for by some distributions",
    ("authentication.k8s.io", "tokenreviews", "create"): "asked when somebody reads /metrics",
    ("authorization.k8s.io", "subjectaccessreviews", "create"): "the same",
    ("flamestream.dev", "flamestreamdrills", "get"): "what there is now, behind a write that came too late",
}
"""Rights that this life does not use, and why they are held."""


def granted(things: list[dict[str, Any]]) -> set[Right]:
    """By the chart."""
    rules = [
        rule
        for thing in things
        if thing["kind"] in ("Role", "ClusterRole")
        for rule in thing["rules"]
        if "resources" in rule
    ]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def asked() -> tuple[set[Right], list[str]]:
    """By the operator: what it was given, and what it was refused."""
    used, refused = set[Right](), list[str]()
    for line in Path(os.environ[VARIABLE]).with_name("audit.log").read_text().splitlines():
        event = json.loads(line)
        about = event.get("objectRef") or {}
        if not about.get("resource"):
            continue  # which kinds there are, which everybody may ask
        resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        right = (about.get("apiGroup", ""), resource, event["verb"])
        if (event.get("annotations") or {}).get("authorization.k8s.io/decision") == "forbid":
            refused.append(f"{event['verb']} {event['requestURI']}")
        else:
            used.add(right)
    return used, refused


class Node(Kubelet):
    """There is no name service: who looks for the coordinators' Service finds this machine."""

    coordinators = 0
    """The port."""

    async def _mount(self, thing: Object, folder: Path) -> None:
        await super()._mount(thing, folder)
        for file in folder.glob("config/driver-*.json"):
            told = json.loads(file.read_text())
            assert told["coordinator"].startswith(f"{SERVICE}.{OWN}.svc:")
            file.write_text(json.dumps({**told, "coordinator": f"127.0.0.1:{self.coordinators}"}))


class Cluster:
    """One operator's process, a user, and a node."""

    def __init__(self, api: Any, places: Places, operator: Process) -> None:
        self.api, self.places, self.operator = api, places, operator
        self.kubelet = Node(api, places.namespace, places.folder / "pods")
        self.kubelet.coordinators = operator.port

    async def put(self, kind: str, name: str, **body: Any) -> None:
        ours = kind.startswith("FlameStream")
        meta = {"name": name, "namespace": self.places.namespace}
        await self.api.create(
            {
                "apiVersion": "flamestream.dev/v1alpha1" if ours else "v1",
                "kind": kind,
                "metadata": meta,
                **body,
            }
        )

    async def job(self, name: str, **changes: Any) -> None:
        store = (
            f"s3://jobs/{self.places.namespace}-{name}?endpoint={self.places.s3.endpoint}&region=us-east-1"
        )
        spec = {
            "application": {"file": "j.py", "graph": "graph", "configMap": "app"},
            "sources": {"numbers": {"generator": {"rate": 200}}},
            "sinks": {"out": {"files": {"path": str(self.places.folder / f"out-{name}"), "fsync": False}}},
            "workers": {"replicas": 2, "slots": 16},
            "checkpoint": {"interval": "500ms", "store": store, "secret": "store"},
            **changes,
        }  # fmt: skip
        await self.put("FlameStreamJob", name, spec=spec)

    async def until(self, kind: str, name: str, good: Any, within: float = 90) -> Any:
        """The object, once it is so; None: it is gone."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while True:
            try:
                await self.kubelet.step()
            except ApiProblem as problem:
                if not (problem.conflict or problem.passing or problem.absent):
                    raise
            thing = await self.api.get(kind, self.places.namespace, name)
            if good(thing):
                return thing
            assert loop.time() < deadline, (
                f"{kind} {name}: {(thing or {}).get('status')}\n{self.kubelet.said()}"
            )
            await asyncio.sleep(0.05)

    async def phase(self, name: str, phase: str, **more: Any) -> Any:
        def good(thing: Any) -> bool:
            status = (thing or {}).get("status") or {}
            return status.get("phase") == phase and all(
                status.get("run", {}).get(key, 0) >= value for key, value in more.items()
            )

        return await self.until("FlameStreamJob", name, good)


def bare(places: Places) -> Object:
    """A pod of a job's that nothing restricts."""
    meta = {"name": "bare", "namespace": places.namespace, "labels": {JOB: "sums"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [{"name": "bare", "image": "flamestream:1"}]},
    }


@pytest.fixture
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Of this test alone: its log has no other test's requests, and there is nothing yet."""
    with served(tmp_path_factory.mktemp("api-server")):
        yield


@pytest.fixture
def chart(places: Places) -> Iterator[list[dict[str, Any]]]:
    """Its rights and its admission policies, in force: what the operator and its node make passes them."""
    values = {
        "operator": {"drills": True}, "image": {"repository": "flamestream", "tag": "1"},
        "allow": {"storeEndpoints": [places.s3.endpoint]},
    }  # fmt: skip
    kinds = ("Role", "ServiceAccount", "ValidatingAdmission")
    everything = [thing for thing in yaml.safe_load_all(helm.rendered(values)) if thing]
    things = [thing for thing in everything if any(kind in thing["kind"] for kind in kinds)]
    apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}})
    for thing in things:
        apply({**thing, "metadata": {"namespace": OWN, **thing["metadata"]}})
    eventually(
        lambda: "not root" in refusal("POST", places_of(bare(places)), bare(places)),
        "the policies are in force",
        within=60,
    )
    yield things
    for thing in things:
        remove({**thing, "metadata": {"namespace": OWN, **thing["metadata"]}})


@pytest.fixture
def operator(places: Places, chart: list[dict[str, Any]]) -> Iterator[Process]:
    made = Process(places)
    made.start()
    yield made
    sys.stdout.write(made.kill())


async def _lived(cluster: Cluster) -> None:
    """All that a user does, and what a cluster does to a job."""
    await cluster.put(
        "Secret",
        "store",
        type="Opaque",
        stringData={"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET},
    )
    await cluster.put("ConfigMap", "app", data={"j.py": KEPT})
    token = cluster.places.folder / "queries-token"
    token.write_text("open sesame")
    queries = {"listen": f"0.0.0.0:{free_port()}", "tokenFile": str(token)}
    await cluster.job("sums", savepoints={"every": "1s", "keep": 1}, deletionPolicy="Delete", queries=queries)
    await cluster.phase("sums", "Running")
    await _mended(cluster)
    await _coded_anew(cluster)
    await _asked_no_more(cluster)
    await _drilled(cluster)
    cluster.operator.stop()
    cluster.operator.start()
    await _finished(cluster)
    await cluster.api.delete("FlameStreamJob", cluster.places.namespace, "sums")
    await cluster.until("FlameStreamJob", "sums", lambda thing: thing is None)


async def _mended(cluster: Cluster) -> None:
    """Somebody has changed what belongs to the job; the next launch, of one more worker, makes it what it
    was."""
    space = cluster.places.namespace
    name = "flamestream-sums-driver"
    await cluster.api.patch("Role", space, name, {"rules": []})
    await cluster.api.patch("RoleBinding", space, name, {"subjects": []})
    login = (await cluster.api.get("Secret", space, "sums-zookeeper"))["data"]
    await cluster.api.patch("Secret", space, "sums-zookeeper", {"data": {"login": ""}})
    await cluster.api.patch("Service", space, "sums-queries", {"spec": {"selector": {JOB: "other"}}})
    await cluster.api.patch("FlameStreamJob", space, "sums", {"spec": {"workers": {"replicas": 3}}})
    await cluster.until("Role", name, lambda thing: bool(thing.get("rules")))
    await cluster.until("Secret", "sums-zookeeper", lambda thing: thing["data"] == login)
    await cluster.until("Service", "sums-queries", lambda thing: thing["spec"]["selector"][JOB] == "sums")
    await cluster.until(
        "PodDisruptionBudget", "sums-workers", lambda thing: thing["spec"]["minAvailable"] == 2
    )
    await cluster.phase("sums", "Running")


async def _coded_anew(cluster: Cluster) -> None:
    """Other code, which is tried in a pod first."""
    space = cluster.places.namespace
    await cluster.api.patch(
        "ConfigMap", space, "app", {"metadata": {"labels": {"flamestream.dev/application-source": "true"}}}
    )
    stable = await cluster.until(
        "FlameStreamJob", "sums", lambda thing: bool(thing["status"].get("lastStable"))
    )
    before = stable["status"]["run"]["code"]
    await cluster.api.patch("ConfigMap", space, "app", {"data": {"j.py": KEPT + "# in other words\n"}})
    await cluster.until("FlameStreamJob", "sums", lambda thing: thing["status"]["run"]["code"] != before)
    await cluster.phase("sums", "Running")


async def _asked_no_more(cluster: Cluster) -> None:
    """Its port goes, and the Service with it."""
    patch = {"spec": {"queries": None}}
    await cluster.api.patch("FlameStreamJob", cluster.places.namespace, "sums", patch)
    await cluster.until("Service", "sums-queries", lambda thing: thing is None)
    await cluster.phase("sums", "Running")


async def _drilled(cluster: Cluster) -> None:
    """There is no kubelet that would run a command or a container: the requests are made, and the drills end
    for want of an answer."""
    for target, action in (("worker", "kill"), ("network", "cut"), ("executor", "kill")):
        spec = {
            "job": "sums",
            "fault": {"target": target, "action": action},
            "after": "50ms",
            "timeout": "30s",
            "audit": False,
        }
        await cluster.put("FlameStreamDrill", f"{target}-{action}", spec=spec)
        if action == "cut":
            await _cut_in_vain(cluster, f"{target}-{action}")
        over = lambda thing: (thing.get("status") or {}).get("phase") in ("Passed", "Failed", "Inconclusive")  # noqa: E731
        await cluster.until("FlameStreamDrill", f"{target}-{action}", over, within=120)
    await cluster.phase("sums", "Running")


async def _cut_in_vain(cluster: Cluster, drill: str) -> None:
    """The container that cuts has begun, so its log is read, and ends with an error."""
    struck = await cluster.until(
        "FlameStreamDrill", drill, lambda thing: bool((thing.get("status") or {}).get("struckAt"))
    )
    space, victim = cluster.places.namespace, struck["status"]["victim"]
    pod = await cluster.until("Pod", victim, lambda thing: bool(thing["spec"].get("ephemeralContainers")))
    states: list[dict[str, dict[str, int]]] = [{"running": {}}, {"terminated": {"exitCode": 1}}]
    for state in states:
        said = {
            "name": pod["spec"]["ephemeralContainers"][0]["name"],
            "image": "",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
        }
        await cluster.api.patch(
            "Pod",
            space,
            victim,
            {"status": {"ephemeralContainerStatuses": [{**said, "state": state}]}},
            status=True,
        )
        await cluster.until("Pod", victim, lambda _: ("", "pods/log", "get") in asked()[0])


async def _finished(cluster: Cluster) -> None:
    """A job that has completed is deleted in time."""
    await cluster.job("few", sources={"numbers": {"generator": {"count": 10}}}, ttlAfterFinished="1s")
    await cluster.until("FlameStreamJob", "few", lambda thing: thing is None)


@pytest.mark.slow  # two minutes: .ci/e2e runs the operator with these rights alone
def test_the_operator_may_do_what_a_run_of_it_does_and_nothing_else(
    places: Places, chart: list[dict[str, Any]], operator: Process
) -> None:
    async def life() -> None:
        async with the_api() as api:
            cluster = Cluster(api, places, operator)
            try:
                await _lived(cluster)
            finally:
                cluster.kubelet.close()

    asyncio.run(life())
    used, refused = asked()
    assert refused == []
    rights = granted(chart)
    assert sorted(used - rights) == [], "refused, or given by somebody else"
    assert sorted(rights - used - set(HELD)) == [], (
        "nobody has used them: cut them, or say in HELD why they are held"
    )
    assert sorted(set(HELD) - (rights - used)) == [], "HELD is for rights that are given and not used"
