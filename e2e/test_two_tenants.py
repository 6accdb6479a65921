"""Two tenants on one cluster: what one may create, and does, changes nothing of the other's results, and
little of their latency.

The hostile one has Kubernetes' own ClusterRole `edit` and all of FlameStream's objects in its namespace, and
acts with those rights only.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.support.installation import RELEASE, SYSTEM, Installation, install
from e2e.support.job import config_map, is_over, ours, restricted_pod
from e2e.support.kube import ApiException, Kube, Object, until
from e2e.support.stream import Stream

SECONDS, PER_SECOND = 20, 20
WORSE = 2.0
"""Times that the other's p99 may grow, and `MORE` ms: both tenants' pods share the processors of a small
cluster."""
MORE = 25.0
Report = Callable[..., None]
ZOOKEEPER = {"app.kubernetes.io/component": "zookeeper"}
A_WORKER = {"app.kubernetes.io/managed-by": "flamestream", "flamestream.dev/role": "worker"}


def refused(tenant: Kube, thing: Object) -> str:
    """Why it cannot be created; "": it can."""
    try:
        tenant.apply(thing)
    except ApiException as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def tenant(installation: Installation, namespace: str) -> Iterator[Kube]:
    """The hostile one, where the operator watches too, with the rights of who works in its namespace."""
    name = f"{namespace}-hostile"
    owner = Kube(name)
    owner.make_namespace()
    # with the operator's among them whoever may create drills may strike ZooKeeper
    install(namespace, name, drill_namespaces=())
    rules = [{"apiGroups": ["flamestream.dev"], "resources": ["*"], "verbs": ["*"]}]
    subject = [{"kind": "ServiceAccount", "name": "tenant", "namespace": name}]
    group = "rbac.authorization.k8s.io"
    owner.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant"}},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "streams"}, "rules": rules},
        *(
            {
                "apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": {"name": f"tenant-{role}"},
                "subjects": subject, "roleRef": {"apiGroup": group, "kind": kind, "name": role},
            }
            for kind, role in (("Role", "streams"), ("ClusterRole", "edit"))
        ),
        config_map("bad", {"bad.py": APPLICATION}),
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "guessed"}, "stringData": GUESSED},
        {**installation.secret(), "metadata": {"name": "keys"}},
    )  # fmt: skip
    yield Kube(name, f"system:serviceaccount:{name}:tenant")
    owner.unmake_namespace()
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


def job(
    name: str, store: str, *, secret: str = "keys", kind: str = "", pods: Object | None = None, **spec: Any
) -> Object:
    """A FlameStreamJob of the hostile tenant."""
    pods = {**(pods or {}), "env": [{"name": "KIND", "value": kind}]} if kind else pods or {}
    whole = {
        "application": {"file": "bad.py", "graph": "graph", "configMap": "bad"},
        "sources": {"numbers": {"generator": {"rate": 100}}},
        "sinks": {"out": {"discard": {}}},
        "guarantee": "at-least-once",
        "workers": {
            "replicas": 1,
            "resources": {"requests": {"cpu": "50m"}, "limits": {"memory": "1Gi", "cpu": "500m"}},
        },
        "checkpoint": {"interval": "1s", "store": store, **({"secret": secret} if secret else {})},
        "onError": "fail",
        **({"pods": pods} if pods else {}),
        **spec,
    }
    return ours("FlameStreamJob", name, whole)


def pod(name: str, labels: dict[str, str], **spec: Any) -> Object:
    security = {"runAsNonRoot": True, "runAsUser": 185, "seccompProfile": {"type": "RuntimeDefault"}}
    return restricted_pod(
        name, "sleep", "600", labels=labels, **{"restartPolicy": "Never", "securityContext": security, **spec}
    )


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
    host = {
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
        "volumeMounts": [{"name": "v", "mountPath": "/host"}],
    }
    worker = {"flamestream.dev/job": victim.name, **A_WORKER}
    elsewhere = {"target": "pod", "targetSelector": A_WORKER, "targetNamespace": victim.kube.namespace}
    return {
        "the node's disk": (job("host", there, pods=host), "spec.pods.volumes"),
        "another account": (
            job("account", there, pods={"serviceAccountName": f"{RELEASE}-operator"}),
            "serviceAccountName",
        ),
        "another image": (job("image", there, image="docker.io/evil/image:1"), "spec.image"),
        "a priority": (
            job("priority", there, pods={"priorityClassName": "system-node-critical"}),
            "priorityClassName",
        ),
        "the operator's own keys": (job("keyless", there, secret=""), "spec.checkpoint.secret"),
        "the node's metadata": (
            job("metadata", "s3://b/p?endpoint=http://169.254.169.254"),
            "allow.storeEndpoints",
        ),
        "a worker's pod with the node's disk": (
            pod("host", worker, volumes=host["volumes"]),
            "allow.hostPaths",
        ),
        "a worker's pod with the node's network": (pod("network", worker, hostNetwork=True), "network"),
        "a worker's pod as root": (pod("root", worker, securityContext={"runAsUser": 0}), "not root"),
        "a drill of all pods": (drill("all", "own", target="pod", targetSelector={}), "targetSelector"),
        "a drill of the other's pods": (drill("other", "own", **elsewhere), "allow.drillNamespaces"),
        "a drill of ZooKeeper": (
            drill("zk", "own", target="zookeeper", targetSelector=ZOOKEEPER, targetNamespace=SYSTEM),
            "allow.drillNamespaces",
        ),
        "a drill of 10,000 faults": (drill("many", "own", target="worker", times=10_000), "spec.times"),
    }


def measured(stream: Stream, doing: Callable[[], Any]) -> Object:
    """The other's results from when that is done."""
    first, began = stream.state()["sent"], stream.state()["now"]
    doing()
    until(
        "documents are due",
        lambda: stream.state()["sent"] >= first + SECONDS * PER_SECOND,
        SECONDS * 6,
        poll=0.5,
    )
    last = stream.state()["sent"]
    span = f"/latency?first={first}&last={last}"
    through = until(
        "they are through",
        lambda: found if (found := stream.ask(span))["documents"] == last - first else None,
        60,
        poll=1,
    )
    return {**through, "gap": stream.ask(f"/gap?since={began}")}


def unharmed(stream: Stream, report: Report, what: str, before: Object, during: Object) -> None:
    """The other's audit, and its results beside a harm against those before, or beside something honest."""
    report(f"two tenants: {what}", before=before, during=during)
    verdict = stream.ask("/audit")
    assert verdict["clean"], verdict
    assert during["p99"] <= WORSE * before["p99"] + MORE, (before, during)


def unharmed_by_job(
    installation: Installation, tenant: Kube, stream: Stream, report: Report, what: str, bad: Object
) -> str:
    """`bad` costs the other no more than an honest job that starts as it does: both share its processors.
    Gives the phase it came to."""
    spans, phase = [], ""
    for thing in (job("honest", own_store(installation, tenant, "honest")), bad):
        name = thing["metadata"]["name"]
        try:
            spans.append(measured(stream, lambda thing=thing: tenant.apply(thing)))  # type: ignore[misc]
            phase = str((tenant.get("FlameStreamJob", name) or {}).get("status", {}).get("phase", ""))
        finally:
            tenant.delete("FlameStreamJob", name)
    unharmed(stream, report, what, *spans)
    return phase


def test_what_a_tenant_may_not_have_is_refused_and_named(
    installation: Installation, tenant: Kube, stream: Stream
) -> None:
    # all that is refused below differs from it in one thing
    tenant.apply(job("own", own_store(installation, tenant, "own")))
    tenant.wait_condition("FlameStreamJob", "own", "Ready")
    for what, (thing, word) in asked_for(installation, tenant, stream).items():
        kind, name = thing["kind"], thing["metadata"]["name"]
        said = refused(tenant, thing)
        if not said:  # then the operator does, by a condition, and makes nothing of it
            assert kind != "Pod", f"{what}: its pod was created"
            said = tenant.wait(kind, name, refusal, 30)
            assert not tenant.list("Pod", f"flamestream.dev/job={name}"), what
            tenant.delete(kind, name)
        assert word in said, (what, said)
    tenant.delete("FlameStreamJob", "own")
    assert stream.status()["phase"] == "Running"


def refusal(thing: Object) -> str:
    """What the operator says."""
    status = thing.get("status", {})
    wrong = [
        each
        for each in status.get("conditions", [])
        if each["reason"] in ("SpecRefused", "Refused", "Invalid", "NotAllowed")
    ]
    return str(wrong or (status if status.get("phase") in ("Failed", "Inconclusive") else ""))


def test_it_has_no_rights_beside_its_own(tenant: Kube, stream: Stream) -> None:
    """Neither in the other's namespace nor in the operator's."""
    ours, core = "flamestream.dev", ""
    wanted = (
        ("get", core, "secrets"),
        ("create", core, "pods"),
        ("create", ours, "flamestreamjobs"),
        ("delete", ours, "flamestreamjobs"),
    )
    assert may(tenant, tenant.namespace, *wanted[0]), "the question is asked as it wants to be"
    for namespace in (stream.kube.namespace, SYSTEM):
        assert not [each for each in wanted if may(tenant, namespace, *each)], namespace


def may(tenant: Kube, namespace: str, verb: str, group: str, resource: str) -> bool:
    """What `kubectl auth can-i` asks."""
    review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    wanted = {"namespace": namespace, "verb": verb, "group": group, "resource": resource}
    asked = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": wanted},
    }
    return bool(json.loads(tenant.raw(review, asked))["status"]["allowed"])


def test_a_snapshot_of_the_other_s_job_is_none(tenant: Kube, stream: Stream) -> None:
    """A name is looked for in the snapshot's own namespace."""
    tenant.apply(ours("FlameStreamSnapshot", "stolen", {"job": stream.name}))
    tenant.wait("FlameStreamSnapshot", "stolen", lambda it: it.get("status", {}).get("conditions"), 30)
    assert (tenant.get("FlameStreamSnapshot", "stolen") or {})["status"].get("phase") != "Completed"
    tenant.delete("FlameStreamSnapshot", "stolen")


@pytest.mark.parametrize("kind", ["endless", "huge", "hang", "memory"])
def test_bad_functions_cost_their_own_job(
    installation: Installation, tenant: Kube, stream: Stream, report: Report, kind: str
) -> None:
    bad = job(f"bad-{kind}", own_store(installation, tenant, kind), kind=kind)
    unharmed_by_job(installation, tenant, stream, report, f"a job whose function is {kind}", bad)


def test_the_name_of_the_other_s_store_opens_nothing(
    installation: Installation, tenant: Kube, stream: Stream, report: Report
) -> None:
    """Without its keys. (Who has the keys of a bucket has all that is in it: give each tenant its own.)"""
    thief = job("thief", installation.store, secret="guessed", kind="endless")
    assert (
        unharmed_by_job(installation, tenant, stream, report, "a job with the other's store", thief)
        != "Running"
    )


@pytest.mark.parametrize("labels", [{}, A_WORKER], ids=["a stranger", "a worker's labels"])
def test_floods_cost_nobody_else(
    installation: Installation, tenant: Kube, stream: Stream, report: Report, labels: dict[str, str]
) -> None:
    """To ZooKeeper, coordinators, S3, metrics, and the other's own pods. `labels` open what a worker's
    would."""
    script = (Path(__file__).parent / "support" / "flood.py").read_text()
    addresses = [each["status"]["podIP"] for each in stream.workers()]
    leader = installation.leader_pod()["status"]["podIP"]
    places = [
        f"{RELEASE}-zookeeper.{SYSTEM}.svc:2181", f"{RELEASE}-coordinators.{SYSTEM}.svc:7700",
        f"{RELEASE}-s3.{SYSTEM}.svc:7070", f"{leader}:8080",
        *(f"{address}:{port}" for address in addresses for port in (7078, 7079)),
    ]  # fmt: skip
    made = pod("flood", labels)
    made["spec"]["containers"][0] |= {
        "args": ["python3", "-c", script, str(SECONDS), *places],
        "resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": "250m", "memory": "256Mi"}},
    }
    try:
        unharmed(
            stream,
            report,
            "floods",
            measured(stream, lambda: None),
            measured(stream, lambda: tenant.apply(made)),
        )
        tenant.wait("Pod", "flood", is_over, 120)
        taken = json.loads(tenant.logs("flood") or "{}")
        report("two tenants: doors that a flood found open", taken=taken, labels=labels)
        assert set(taken) <= set(places)
    finally:
        tenant.delete("Pod", "flood", grace=0)


def test_many_objects_at_once_cost_nobody_else(
    installation: Installation, tenant: Kube, stream: Stream, report: Report
) -> None:
    """A hundred jobs that cannot run, with a snapshot of each."""
    things = [job(f"n{number}", "s3://b/p?endpoint=http://169.254.169.254") for number in range(100)]
    things += [ours("FlameStreamSnapshot", f"n{number}", {"job": f"n{number}"}) for number in range(100)]

    def all_of_them() -> None:
        for thing in things:
            refused(tenant, thing)

    try:
        unharmed(
            stream,
            report,
            "100 jobs and snapshots",
            measured(stream, lambda: None),
            measured(stream, all_of_them),
        )
    finally:
        for kind in ("FlameStreamJob", "FlameStreamSnapshot"):
            tenant.delete_all(kind)
