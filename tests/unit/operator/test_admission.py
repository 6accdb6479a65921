"""What a job's author asks for beyond the least is refused with its field, and what the cluster's owner
allows is not."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from flamestream.model.errors import ManifestError
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.environment import read_environment
from flamestream_operator.jobs.spec import planned
from flamestream_operator.site import Allowed, Site
from support import helm
from support.operator.operator_world import KEY, World

OWN = "flamestream:1"
LEAST: dict[str, Any] = {
    "application": {"file": "j.py", "graph": "graph", "configMap": "app"},
    "sources": {"numbers": {"generator": {"count": 10}}},
    "sinks": {"out": {"files": {"path": "/out"}}},
    "workers": {"replicas": 2},
    "checkpoint": {"interval": "1s", "store": "s3://bucket/j", "secret": "keys"},
}


def store(url: str, **more: str) -> dict[str, Any]:
    return {"checkpoint": {"interval": "1s", "store": url, "secret": "keys", **more}}


def volume(**kind: Any) -> dict[str, Any]:
    return {"pods": {"volumes": [{"name": "v", **kind}]}}


def tried(spec: dict[str, Any], namespace: str = "team", **allowed: Any) -> str:
    """Why it is refused; "": it is not."""
    meta = {"name": "j", "namespace": namespace}
    job = {"apiVersion": "flamestream.dev/v1alpha1", "kind": "FlameStreamJob", "metadata": meta, "spec": spec}
    site = Site(
        coordinator="o:1",
        zookeeper=ZooKeeperAccess("z:1", "o:s"),
        image=OWN,
        namespace="system",
        allowed=Allowed(**allowed),
    )
    try:
        planned(job, {**LEAST, **spec}, site, "digest")
    except ManifestError as error:
        return str(error)
    return ""


ASKED: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({"image": "evil:1"}, "spec.image: evil:1", {"images": ("evil:1",)}),
    ({"image": "registry.example/team/app@sha256:00"}, "spec.image", {"images": ("registry.example/team/",)}),
    (
        {"pods": {"serviceAccountName": "admin"}},
        "spec.pods.serviceAccountName: admin",
        {"service_accounts": ("admin",)},
    ),
    (
        {"pods": {"priorityClassName": "system-node-critical"}},
        "spec.pods.priorityClassName",
        {"priority_classes": ("system-node-critical",)},
    ),
    (
        volume(hostPath={"path": "/"}),
        "spec.pods.volumes: volume 'v' is the node's folder '/'",
        {"host_paths": ("/",)},
    ),
    (volume(hostPath={"path": "/data/shared/in"}), "'/data/shared/in'", {"host_paths": ("/data/shared",)}),
    (volume(nfs={"server": "s", "path": "/"}), "of kind nfs", {"volumes": ("nfs",)}),
    (
        store("s3://b/p?endpoint=http://169.254.169.254"),
        "http://169.254.169.254",
        {"store_endpoints": ("http://169.254.169.254",)},
    ),
    (store("s3://b/p"), "AWS's S3", {"store_endpoints": ("aws",)}),
]


@pytest.mark.parametrize(("spec", "words", "allowed"), ASKED, ids=str)
def test_what_is_asked_for_is_refused_unless_it_is_allowed(
    spec: dict[str, Any], words: str, allowed: dict[str, Any]
) -> None:
    said = tried(spec, store_endpoints=()) if "AWS" in words else tried(spec)
    assert words in said
    assert "allow." in said, "it says who may allow it, and where"
    assert tried(spec, **allowed) == ""


NEVER: list[tuple[dict[str, Any], str]] = [
    ({"checkpoint": {"interval": "1s", "store": "s3://bucket/j"}}, "spec.checkpoint.secret: missing"),
    (store("s3://b/p?region=x@169.254.169.254/%23"), "spec.checkpoint.store"),
    (store("s3://b:80/p"), "spec.checkpoint.store"),
    (store("s3://b/p?endpoint=http://169.254.169.254&endpoint=file:///x"), "spec.checkpoint.store"),
    (
        {"spark": {"conf": {"spark.kubernetes.executor.container.image": "evil:1"}}},
        "spark.kubernetes.executor.container.image",
    ),
    (
        {"spark": {"conf": {"spark.kubernetes.executor.volumes.hostPath.v.mount.path": "/"}}},
        "hostPath.v.mount.path",
    ),
    (
        {"spark": {"conf": {"spark.kubernetes.executor.label.flamestream.dev/job": "another"}}},
        "label.flamestream.dev/job",
    ),
    (
        {"pods": {"annotations": {"container.apparmor.security.beta.kubernetes.io/executor": "unconfined"}}},
        "spec.pods.annotations",
    ),
    (
        {
            "pods": {
                "workers": {
                    "annotations": {"container.apparmor.security.beta.kubernetes.io/executor": "unconfined"}
                }
            }
        },
        "spec.pods.workers.annotations",
    ),
]


@pytest.mark.parametrize(("spec", "words"), NEVER, ids=str)
def test_what_nobody_can_allow_is_refused(spec: dict[str, Any], words: str) -> None:
    everything: dict[str, Any] = {
        "images": ("evil:1",),
        "host_paths": ("/",),
        "store_endpoints": ("aws", "http://169.254.169.254"),
    }
    assert words in tried(spec, **everything)


NEARLY: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"image": "registry.example/teams/app:1"}, {"images": ("registry.example/team/",)}),
    ({"image": "flamestream:1-evil"}, {"images": ()}),
    (volume(hostPath={"path": "/data/sharedx"}), {"host_paths": ("/data/shared",)}),
    (volume(hostPath={"path": "/data/shared/../../etc"}), {"host_paths": ("/data/shared",)}),
    (volume(hostPath={}), {"host_paths": ("/data/shared",)}),
    (volume(hostPath={"path": "/data/shared"}), {"volumes": ("hostPath",)}),
    (store("s3://b/p?endpoint=http://s3.example:90"), {"store_endpoints": ("http://s3.example:9",)}),
    (store("s3://b/p?endpoint=http://s3.example@evil.example"), {"store_endpoints": ("http://s3.example",)}),
]


@pytest.mark.parametrize(("spec", "allowed"), NEARLY, ids=str)
def test_what_only_looks_like_something_allowed_is_refused(
    spec: dict[str, Any], allowed: dict[str, Any]
) -> None:
    assert tried(spec, **allowed)


def test_no_job_runs_beside_the_operator() -> None:
    assert "metadata.namespace: 'system'" in tried({}, namespace="system")


def test_the_least_is_enough() -> None:
    more = {
        "image": OWN,
        "spark": {"conf": {"spark.kubernetes.executor.limit.cores": "2", "spark.log.level": "INFO"}},
    }
    assert tried(LEAST | more | volume(persistentVolumeClaim={"claimName": "c"})) == ""


@pytest.fixture
def login(tmp_path: Path) -> str:
    """The file with the operator's login for ZooKeeper."""
    file = tmp_path / "login"
    file.write_text(f"operator:{'x' * 48}")
    return str(file)


def read(values: dict[str, Any], login: str) -> Allowed:
    """By the operator, of what the chart's Deployment tells it."""
    things = [
        thing
        for thing in yaml.safe_load_all(helm.rendered(values))
        if thing and thing["kind"] == "Deployment"
    ]
    told = {
        each["name"]: each.get("value", "x")
        for each in things[0]["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    return read_environment(
        told | {"FLAMESTREAM_ZOOKEEPER_LOGIN": login, "FLAMESTREAM_ZOOKEEPER_AUTHORITY": ""}
    ).allowed


def test_what_the_chart_says_is_what_the_operator_reads(login: str) -> None:
    assert read({}, login) == Allowed()
    allow = {
        "images": ["r.example/team/"], "serviceAccounts": ["a"], "priorityClasses": ["p"],
        "hostPaths": ["/d"], "volumes": ["nfs"], "storeEndpoints": ["https://s3.example"],
        "drillNamespaces": ["space"], "egress": "any",
    }  # fmt: skip
    assert read({"allow": allow, "s3": {"enabled": True, "secretKey": "x"}}, login) == Allowed(
        images=("r.example/team/",), service_accounts=("a",), priority_classes=("p",), host_paths=("/d",),
        volumes=("nfs",), store_endpoints=("https://s3.example", "http://release-s3.space.svc:7070"),
        drill_namespaces=("space",), egress="any",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "certificates in PEM"), ("-----BEGIN", "certificates in PEM"), (None, "cannot read")],
)
def test_an_operator_without_the_authority_that_it_is_told_of_does_not_begin(
    content: str | None, words: str, login: str, tmp_path: Path
) -> None:
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_text(content)
    names = ("POD_NAME", "POD_NAMESPACE", "POD_IP", "FLAMESTREAM_ZOOKEEPER", "FLAMESTREAM_IMAGE")
    told = dict.fromkeys(names, "x") | {
        "FLAMESTREAM_ZOOKEEPER_LOGIN": login,
        "FLAMESTREAM_ZOOKEEPER_AUTHORITY": str(file),
    }
    with pytest.raises(ManifestError, match=words):
        read_environment(told)


@pytest.mark.parametrize("text", ["{", "[]", '{"hostPath": ["/"]}', '{"images": "evil:1"}'])
def test_an_operator_that_is_told_nonsense_does_not_begin(text: str, login: str) -> None:
    names = ("POD_NAME", "POD_NAMESPACE", "POD_IP", "FLAMESTREAM_ZOOKEEPER", "FLAMESTREAM_IMAGE")
    with pytest.raises(ManifestError, match="FLAMESTREAM_ALLOW"):
        read_environment(
            dict.fromkeys(names, "x") | {"FLAMESTREAM_ZOOKEEPER_LOGIN": login, "FLAMESTREAM_ALLOW": text}
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [({"checkpoint": {"secret": None}}, "spec.checkpoint.secret"), ({"image": "evil:1"}, "spec.image")],
)
def test_a_job_that_is_refused_says_so_and_nothing_is_made_for_it(change: dict[str, Any], words: str) -> None:
    world = World()

    async def play() -> None:
        world.apply(suspend=True)
        world.kubernetes.merge(("FlameStreamJob", *KEY), {"spec": {**change, "suspend": False}})
        await world.calm(10)

    asyncio.run(play())
    assert words in world.condition("Failed").message, world.status
    assert {kind for kind, _, _ in world.kubernetes.created} <= {
        "FlameStreamJob",
        "ConfigMap",
        "Secret",
        "Event",
    }
    assert [name for kind, name, _ in world.kubernetes.created if kind == "Secret"] == ["store"], (
        "not even a token"
    )
