"""Two tenants on one cluster: what one may create, and does, changes nothing of the other's results, and little of their latency.

The hostile one has Kubernetes' own ClusterRole `edit` and all of FlameStream's objects in its namespace, and acts with those rights only.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.support.folders import SECURITY
from e2e.support.installation import IMAGE, RELEASE, SYSTEM, Installation, install
from e2e.support.kube import Kube, KubectlError, until
from e2e.support.stream import Stream

SECONDS, PER_SECOND = 20, 20
WORSE = 2.0
"""Times that the other's p99 may grow, and `MORE` ms: both tenants' pods share the processors of a small cluster."""
MORE = 25.0
Report = Callable[..., None]
Object = dict[str, Any]
ZOOKEEPER = {"app.kubernetes.io/component": "zookeeper"}
A_WORKER = {"app.kubernetes.io/managed-by": "flamestream", "flamestream.dev/role": "worker"}


@dataclass(frozen=True)
class Tenant(Kube):
    """A namespace, with the rights of who works in it."""

    def run(self, *words: str, **more: Any) -> str:
        return super().run(f"--as=system:serviceaccount:{self.namespace}:tenant", *words, **more)

    def refuses(self, thing: Object) -> str:
        """Why it cannot be created; "": it can."""
        try:
            self.apply(thing)
        except KubectlError as error:
            return str(error)
        return ""


@pytest.fixture(scope="module")
def tenant(installation: Installation, namespace: str) -> Iterator[Tenant]:
    """The hostile one, where the operator watches too."""
    name = f"{namespace}-hostile"
    owner = Kube(name)
    owner.run("create", "namespace", name, check=False)
    install(namespace, name, drill_namespaces=())  # with the operator's among them whoever may create drills may strike ZooKeeper
    rules = [{"apiGroups": ["flamestream.dev"], "resources": ["*"], "verbs": ["*"]}]
    subject = [{"kind": "ServiceAccount", "name": "tenant", "namespace": name}]
    group = "rbac.authorization.k8s.io"
    owner.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant"}},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "streams"}, "rules": rules},
        *(
            {
                "apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": {"name": f"tenant-{role}"}, "subjects": subject,
                "roleRef": {"apiGroup": group, "kind": kind, "name": role},
            }
            for kind, role in (("Role", "streams"), ("ClusterRole", "edit"))
        ),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad"}, "data": {"bad.py": APPLICATION}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "guessed"}, "stringData": GUESSED},
        {**installation.secret(), "metadata": {"name": "keys"}},
    )  # fmt: skip
    yield Tenant(name)
    owner.run("delete", "flamestreamjobs,flamestreamdrills,flamestreamsnapshots", "--all", "--timeout=120s", check=False)
    owner.run("delete", "namespace", name, "--wait=false", check=False)
    install(namespace)


GUESSED = {"AWS_ACCESS_KEY_ID": "e2e", "AWS_SECRET_ACCESS_KEY": "guessed"}
APPLICATION = """
import itertools
import os

import flamestream as fs

KEPT = []


def bad(number):
    kind = os.environ.get("KIND")
    if kind == "endless":
        return itertools.count()
    if kind == "huge":
        return ["x" * 300_000_000]
    if kind == "hang":
        while True:
            pass
    if kind == "memory":
        KEPT.append(bytearray(50 << 20))
    return [number]


graph = fs.Graph("bad")
graph.source("numbers").flat_map(bad).sink("out")
"""


def ours(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "flamestream.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def job(name: str, store: str, *, secret: str = "keys", kind: str = "", pods: Object | None = None, **spec: Any) -> Object:
    """A FlameStreamJob of the hostile tenant."""
    pods = {**(pods or {}), "env": [{"name": "KIND", "value": kind}]} if kind else pods or {}
    whole = {
        "application": {"file": "bad.py", "graph": "graph", "configMap": "bad"},
        "sources": {"numbers": {"generator": {"rate": 100}}}, "sinks": {"out": {"discard": {}}}, "guarantee": "at-least-once",
        "workers": {"replicas": 1, "resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "1Gi", "cpu": "500m"}}},
        "checkpoint": {"interval": "1s", "store": store, **({"secret": secret} if secret else {})}, "onError": "fail",
        **({"pods": pods} if pods else {}), **spec,
    }  # fmt: skip
    return ours("FlameStreamJob", name, whole)


def pod(name: str, labels: dict[str, str], **spec: Any) -> Object:
    container = {"name": "it", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "args": ["sleep", "600"], "securityContext": SECURITY}
    security = {"runAsNonRoot": True, "runAsUser": 185, "seccompProfile": {"type": "RuntimeDefault"}}
    whole = {"containers": [container], "securityContext": security, "terminationGracePeriodSeconds": 0, "restartPolicy": "Never", **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": whole}


def drill(name: str, of: str, **fault: Any) -> Object:
    spec = {"job": of, "times": fault.pop("times", 1), "fault": fault, "audit": False}
    return ours("FlameStreamDrill", name, spec)


def own_store(installation: Installation, tenant: Kube, name: str) -> str:
    """A place of its own in the store that all share."""
    place, mark, query = installation.store.partition("?")
    return f"{place.rpartition('/')[0]}/{tenant.namespace}-{name}{mark}{query}"


def asked_for(installation: Installation, tenant: Kube, victim: Stream) -> dict[str, tuple[Object, str]]:
    """What a tenant may not have, whatever it writes, and what the refusal names. Its job `own` runs."""
    there = own_store(installation, tenant, "asked")
    host = {"volumes": [{"name": "v", "hostPath": {"path": "/"}}], "volumeMounts": [{"name": "v", "mountPath": "/host"}]}
    worker = {"flamestream.dev/job": victim.name, **A_WORKER}
    elsewhere = {"target": "pod", "targetSelector": A_WORKER, "targetNamespace": victim.kube.namespace}
    return {
        "the node's disk": (job("host", there, pods=host), "spec.pods.volumes"),
        "another account": (job("account", there, pods={"serviceAccountName": f"{RELEASE}-operator"}), "serviceAccountName"),
        "another image": (job("image", there, image="docker.io/evil/image:1"), "spec.image"),
        "a priority": (job("priority", there, pods={"priorityClassName": "system-node-critical"}), "priorityClassName"),
        "the operator's own keys": (job("keyless", there, secret=""), "spec.checkpoint.secret"),
        "the node's metadata": (job("metadata", "s3://b/p?endpoint=http://169.254.169.254"), "allow.storeEndpoints"),
        "a worker's pod with the node's disk": (pod("host", worker, volumes=host["volumes"]), "allow.hostPaths"),
        "a worker's pod with the node's network": (pod("network", worker, hostNetwork=True), "network"),
        "a worker's pod as root": (pod("root", worker, securityContext={"runAsUser": 0}), "not root"),
        "a drill of all pods": (drill("all", "own", target="pod", targetSelector={}), "targetSelector"),
        "a drill of the other's pods": (drill("other", "own", **elsewhere), "allow.drillNamespaces"),
        "a drill of ZooKeeper": (drill("zk", "own", target="zookeeper", targetSelector=ZOOKEEPER, targetNamespace=SYSTEM),
                                 "allow.drillNamespaces"),
        "a drill of 10,000 faults": (drill("many", "own", target="worker", times=10_000), "spec.times"),
    }  # fmt: skip


def measured(stream: Stream, doing: Callable[[], Any]) -> Object:
    """The other's results from when that is done."""
    first, began = stream.state()["sent"], stream.state()["now"]
    doing()
    until("documents are due", lambda: stream.state()["sent"] >= first + SECONDS * PER_SECOND, SECONDS * 6, poll=0.5)
    last = stream.state()["sent"]
    span = f"/latency?first={first}&last={last}"
    through = until("they are through", lambda: found if (found := stream.ask(span))["documents"] == last - first else None, 60, poll=1)
    return {**through, "gap": stream.ask(f"/gap?since={began}")}


def unharmed(stream: Stream, report: Report, what: str, before: Object, during: Object) -> None:
    """The other's audit, and its results beside a harm against those before, or beside something honest."""
    report(f"two tenants: {what}", before=before, during=during)
    verdict = stream.ask("/audit")
    assert verdict["clean"], verdict
    assert during["p99"] <= WORSE * before["p99"] + MORE, (before, during)


def unharmed_by_job(installation: Installation, tenant: Tenant, stream: Stream, report: Report, what: str, bad: Object) -> str:
    """`bad` costs the other no more than an honest job that starts as it does: both share its processors. Gives the phase it came to."""
    spans, phase = [], ""
    for thing in (job("honest", own_store(installation, tenant, "honest")), bad):
        name = thing["metadata"]["name"]
        try:
            spans.append(measured(stream, lambda thing=thing: tenant.apply(thing)))  # type: ignore[misc]
            phase = str((tenant.get("flamestreamjob", name) or {}).get("status", {}).get("phase", ""))
        finally:
            tenant.delete("flamestreamjob", name, "--timeout=120s")
    unharmed(stream, report, what, *spans)
    return phase


def test_what_a_tenant_may_not_have_is_refused_and_named(installation: Installation, tenant: Tenant, stream: Stream) -> None:
    tenant.apply(job("own", own_store(installation, tenant, "own")))  # all that is refused below differs from it in one thing
    tenant.run("wait", "--for=condition=Ready", "flamestreamjob/own", "--timeout=120s", within=140)
    for what, (thing, word) in asked_for(installation, tenant, stream).items():
        kind, name = thing["kind"], thing["metadata"]["name"]
        said = tenant.refuses(thing)
        if not said:  # then the operator does, by a condition, and makes nothing of it
            assert kind != "Pod", f"{what}: its pod was created"
            said = until(f"{what} is refused", lambda kind=kind, name=name: refusal(tenant, kind, name), 30)  # type: ignore[misc]
            assert not tenant.list("pods", f"flamestream.dev/job={name}"), what
            tenant.delete(kind, name)
        assert word in said, (what, said)
    tenant.delete("flamestreamjob", "own", "--timeout=120s")
    assert stream.status()["phase"] == "Running"


def refusal(tenant: Kube, kind: str, name: str) -> str:
    """What the operator says."""
    status = (tenant.get(kind, name) or {}).get("status", {})
    wrong = [each for each in status.get("conditions", []) if each["reason"] in ("SpecRefused", "Refused", "Invalid", "NotAllowed")]
    return str(wrong or (status if status.get("phase") in ("Failed", "Inconclusive") else ""))


def test_it_has_no_rights_beside_its_own(tenant: Tenant, stream: Stream) -> None:
    """Neither in the other's namespace nor in the operator's."""
    for namespace in (stream.kube.namespace, SYSTEM):
        for verb, kind in (("get", "secrets"), ("create", "pods"), ("create", "flamestreamjobs"), ("delete", "flamestreamjobs")):
            assert Kube.run(tenant, f"--as=system:serviceaccount:{tenant.namespace}:tenant", "auth", "can-i", verb, kind,
                            "--namespace", namespace, check=False).strip() == "no"  # fmt: skip


def test_a_snapshot_of_the_other_s_job_is_none(tenant: Tenant, stream: Stream) -> None:
    """A name is looked for in the snapshot's own namespace."""
    tenant.apply(ours("FlameStreamSnapshot", "stolen", {"job": stream.name}))
    until("it is refused", lambda: (tenant.get("flamestreamsnapshot", "stolen") or {}).get("status", {}).get("conditions"), 30)
    assert (tenant.get("flamestreamsnapshot", "stolen") or {})["status"].get("phase") != "Completed"
    tenant.delete("flamestreamsnapshot", "stolen")


@pytest.mark.parametrize("kind", ["endless", "huge", "hang", "memory"])
def test_bad_functions_cost_their_own_job(installation: Installation, tenant: Tenant, stream: Stream, report: Report, kind: str) -> None:
    bad = job(f"bad-{kind}", own_store(installation, tenant, kind), kind=kind)
    unharmed_by_job(installation, tenant, stream, report, f"a job whose function is {kind}", bad)


def test_the_name_of_the_other_s_store_opens_nothing(installation: Installation, tenant: Tenant, stream: Stream, report: Report) -> None:
    """Without its keys. (Who has the keys of a bucket has all that is in it: give each tenant its own.)"""
    thief = job("thief", installation.store, secret="guessed", kind="endless")
    assert unharmed_by_job(installation, tenant, stream, report, "a job with the other's store", thief) != "Running"


@pytest.mark.parametrize("labels", [{}, A_WORKER], ids=["a stranger", "a worker's labels"])
def test_floods_cost_nobody_else(
    installation: Installation, tenant: Tenant, stream: Stream, report: Report, labels: dict[str, str]
) -> None:
    """To ZooKeeper, coordinators, S3, metrics, and the other's own pods. `labels` open what a worker's would."""
    script = (Path(__file__).parent / "support" / "flood.py").read_text()
    addresses = [each["status"]["podIP"] for each in stream.workers()]
    leader = (installation.system.get("pod", installation.leader()) or {})["status"]["podIP"]
    places = [
        f"{RELEASE}-zookeeper.{SYSTEM}.svc:2181", f"{RELEASE}-coordinators.{SYSTEM}.svc:7700", f"{RELEASE}-s3.{SYSTEM}.svc:7070",
        f"{leader}:8080", *(f"{address}:{port}" for address in addresses for port in (7078, 7079)),
    ]  # fmt: skip
    made = pod("flood", labels)
    made["spec"]["containers"][0] |= {
        "args": ["python3", "-c", script, str(SECONDS), *places],
        "resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": "250m", "memory": "256Mi"}},
    }
    try:
        unharmed(stream, report, "floods", measured(stream, lambda: None), measured(stream, lambda: tenant.apply(made)))
        until("the flood is over", lambda: (tenant.get("pod", "flood") or {})["status"]["phase"] in ("Succeeded", "Failed"), 120, poll=1)
        taken = json.loads(tenant.run("logs", "flood") or "{}")
        report("two tenants: doors that a flood found open", taken=taken, labels=labels)
        assert set(taken) <= set(places)
    finally:
        tenant.delete("pod", "flood", "--force", "--grace-period=0")


def test_many_objects_at_once_cost_nobody_else(installation: Installation, tenant: Tenant, stream: Stream, report: Report) -> None:
    """A hundred jobs that cannot run, with a snapshot of each."""
    things = [job(f"n{number}", "s3://b/p?endpoint=http://169.254.169.254") for number in range(100)]
    things += [ours("FlameStreamSnapshot", f"n{number}", {"job": f"n{number}"}) for number in range(100)]

    def all_of_them() -> None:
        for thing in things:
            tenant.refuses(thing)

    try:
        unharmed(stream, report, "100 jobs and snapshots", measured(stream, lambda: None), measured(stream, all_of_them))
    finally:
        tenant.run("delete", "flamestreamjobs,flamestreamsnapshots", "--all", "--timeout=120s", check=False)
