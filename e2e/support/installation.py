"""The chart, installed as a user does it, with ZooKeeper and S3 in the cluster."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from e2e.support.kube import Kube, Object, until

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "flamestream"
RELEASE = "flamestream"
SYSTEM = "flamestream-system"
READER = "default"
"""The account in the operator's namespace that may read its metrics."""
DISK = os.environ.get("E2E_DISK", "/var/tmp/flamestream-e2e")
"""On the nodes: claims of ZooKeeper and S3, and the folder that stands for a shared volume."""
IMAGE = os.environ.get("E2E_IMAGE", "localhost/flamestream:e2e")
OTHER_IMAGE = os.environ.get("E2E_OTHER_IMAGE", "" if "E2E_IMAGE" in os.environ else f"{IMAGE}-other")
"""The same content under another name, for a job that gets another image; "": there is none."""
S3_IMAGE = os.environ.get("E2E_S3_IMAGE", "localhost/versitygw:e2e")


OTHER_CLUSTER = os.environ.get("E2E_OTHER_CLUSTER", "")
"""The kubeconfig of a second cluster, which has the image, and whose pods reach services of the first by their
addresses; "": there is none."""


@dataclass(frozen=True)
class Release:
    """A chart, the image of the same day, and the values that it does not know yet: by their paths."""

    chart: Path = CHART
    image: str = IMAGE
    unknown: tuple[str, ...] = ()

    def known(self, values: Object) -> Object:
        """The values that it takes, with its image."""
        repository, _, tag = self.image.rpartition(":")
        image = {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"}
        return {"image": image, **_without(values, self.unknown)}


TODAY = Release()


def _without(values: Object, paths: Sequence[str]) -> Object:
    kept = {}
    for name, value in values.items():
        below = [path.removeprefix(f"{name}.") for path in paths if path.startswith(f"{name}.")]
        if name not in paths:
            kept[name] = _without(value, below) if below else value
    return kept


@dataclass(frozen=True)
class Installation:
    """What a job's manifest refers to."""

    system: Kube
    store: str
    node: str
    """Where ZooKeeper and S3 are: never a target of node faults."""

    def secret(self) -> Object:
        """The S3 keys, for another namespace."""
        found = self.system.get("Secret", f"{RELEASE}-s3")
        assert found is not None, "the chart makes it"
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3-keys"}, "data": found["data"]}

    def leader(self, shard: int = 0) -> str:
        """The operator pod that leads this shard; "": none."""
        lease = f"{RELEASE}-operator-{shard}" if shard else f"{RELEASE}-operator"
        return _holder(self.system.get("Lease", lease) or {})

    def leader_pod(self) -> Object:
        """That pod; empty while it is not there."""
        return self.system.get("Pod", self.leader()) or {}

    def wait_leader(self, *but: str, within: float = 60) -> None:
        """Until somebody leads, other than these."""
        self.system.wait(
            "Lease", f"{RELEASE}-operator", lambda lease: _holder(lease) not in ("", *but), within
        )

    def life(self) -> tuple[str, int]:
        """Of who leads: the pod, and how often it has begun again."""
        pod = self.leader_pod()
        restarts = sum(each["restartCount"] for each in pod.get("status", {}).get("containerStatuses", ()))
        return pod.get("metadata", {}).get("name", ""), restarts


def stays(pod: Object) -> bool:
    """Whether it is there, and nobody wants it gone: a lease may still name a pod that is going."""
    return bool(pod) and "deletionTimestamp" not in pod["metadata"]


def _holder(lease: Object) -> str:
    return str(lease.get("spec", {}).get("holderIdentity") or "").partition("_")[0]


def install(
    job_namespace: str,
    *others: str,
    drill_namespaces: Sequence[str] = (SYSTEM,),
    shards: int = 1,
    release: Release = TODAY,
) -> Installation:
    """helm upgrade --install, and wait until it is ready. The operator watches these namespaces; one leads all jobs,
    unless there are more shards."""
    system = Kube(SYSTEM)
    node = os.environ.get("E2E_CONTROL_NODE") or first_node()
    metadata = _disks(node)
    watched: list[str] = [] if os.environ.get("E2E_CLUSTERWIDE") else [job_namespace, *others]
    values: Object = {
        "operator": {"watchNamespaces": watched, "drills": True, "shards": shards},
        "allow": {
            "hostPaths": [DISK],
            "images": [OTHER_IMAGE] if OTHER_IMAGE else [],
            "drillNamespaces": list(drill_namespaces),
        },
        "ui": {"enabled": True, "actions": True},
        "metrics": {"readers": [{"kind": "ServiceAccount", "name": READER, "namespace": SYSTEM}]},
        "zookeeper": {"storageClass": "flamestream-e2e", "nodeSelector": {"kubernetes.io/hostname": node}},
        "s3": {
            "enabled": True,
            "image": S3_IMAGE,
            "storageClass": "flamestream-e2e",
            "nodeSelector": {"kubernetes.io/hostname": node},
            "accessKey": "e2e",
            "secretKey": "e2e-secret",
            "metadata": metadata,
        },
    }
    more = os.environ.get("E2E_HELM_ARGUMENTS", "").split()
    helm("--install", "--create-namespace", *more, values=release.known(values), chart=release.chart)
    made = Installation(system, f"s3://flamestream/{job_namespace}?endpoint={_endpoint()}", node)
    until("an operator leads that is to stay", lambda: stays(made.leader_pod()), 60)
    return made


def uninstall() -> None:
    """helm uninstall: what the chart keeps, and the claims of its servers, stay."""
    command = ["helm", "uninstall", RELEASE, "--namespace", SYSTEM, "--ignore-not-found", "--wait"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"helm: {done.stderr[-2000:]}"


@contextmanager
def another_operator(installation: Installation, system: Kube, namespace: str) -> Iterator[None]:
    """In a namespace of its own, `system`, an operator that sees the jobs of `namespace` alone, as one of another
    cluster does: it has ZooKeeper and the login for it in common with the first, and nothing else. `system` may be of
    another cluster indeed."""
    login, authority = f"{RELEASE}-zookeeper", f"{RELEASE}-zookeeper-tls"
    server = f"{RELEASE}-zookeeper.{SYSTEM}.svc:2181"
    repository, _, tag = IMAGE.rpartition(":")
    values = {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"},
        "operator": {"watchNamespaces": [namespace], "replicas": 1, "shards": 1},
        "allow": {"hostPaths": [DISK], "storeEndpoints": [_endpoint()]},
        "zookeeper": {"servers": server, "loginSecret": login, "tls": {"secret": authority}},
        "admissionPolicy": {"enabled": False},
    }
    name = system.namespace
    # rendered without a cluster: it has to be told one that the chart takes
    where = ["--namespace", name, "--kube-version", "1.34"]
    command = ["helm", "template", name, str(CHART), *where, "--values", "-"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    # definitions are the first one's
    things = [each for each in yaml.safe_load_all(done.stdout) if each and not _is_apart(each)]
    system.make_namespace()
    if system.config:
        _lend(installation, system.config)
    try:
        for each in (login, authority):
            found = installation.system.get("Secret", each)
            assert found is not None, "the chart makes it"
            system.apply(
                {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": each}, "data": found["data"]}
            )
        for thing in things:
            replace(system, namespace=thing["metadata"].get("namespace", name)).apply(thing)
        system.wait_rollout("Deployment", f"{name}-operator")
        yield
    finally:
        for thing in things:
            if thing["kind"].startswith("Cluster"):
                system.delete(thing["kind"], thing["metadata"]["name"], within=0)
        system.unmake_namespace()


def _lend(installation: Installation, config: str) -> None:
    """Have another cluster know the definitions, and the first one's ZooKeeper and S3 by their names there."""
    there = Kube(SYSTEM, config=config)
    there.make_namespace()
    for file in sorted((ROOT / "crds").glob("*.yaml")):
        there.apply(*filter(None, yaml.safe_load_all(file.read_text())))
    for name, port in ((f"{RELEASE}-zookeeper", 2181), (f"{RELEASE}-s3", 7070)):
        found = installation.system.get("Service", name)
        assert found is not None, "the chart makes it"
        pods = installation.system.list(
            "Pod", ",".join(f"{k}={v}" for k, v in found["spec"]["selector"].items())
        )
        addresses = [{"ip": pod["status"]["podIP"]} for pod in pods]
        ports = [{"name": "it", "port": port}]
        metadata = {"name": name}
        service = {"kind": "Service", "metadata": metadata, "spec": {"clusterIP": "None", "ports": ports}}
        subsets = [{"addresses": addresses, "ports": ports}]
        endpoints = {"kind": "Endpoints", "metadata": metadata, "subsets": subsets}
        there.apply(*({"apiVersion": "v1", **each} for each in (service, endpoints)))


def _is_apart(thing: Object) -> bool:
    """Whether it is a definition, or what `helm test` alone makes."""
    hooks = thing["metadata"].get("annotations", {})
    return thing["kind"] == "CustomResourceDefinition" or "helm.sh/hook" in hooks


def _endpoint() -> str:
    return f"http://{RELEASE}-s3.{SYSTEM}.svc:7070"


def helm(*words: str, values: Object, chart: Path = CHART) -> None:
    """helm upgrade, until everything is ready. Raises AssertionError with the pods that are there."""
    command = [
        "helm",
        "upgrade",
        RELEASE,
        str(chart),
        "--namespace",
        SYSTEM,
        "--values",
        "-",
        "--wait",
        "--timeout",
        "180s",
        *words,
    ]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pods = {pod["metadata"]["name"]: pod["status"] for pod in Kube(SYSTEM).list("Pod")}
        raise AssertionError(f"helm: {done.stderr[-2000:]}\n{json.dumps(pods)[-4000:]}")


def first_node() -> str:
    """The cluster's first by name."""
    return str(Kube("").list("Node")[0]["metadata"]["name"])


_ATTRIBUTES = "import os, sys; os.setxattr(sys.argv[1], b'user.flamestream', b'1')"


def _disks(node: str) -> str:
    """Claims for a cluster that has no storage class: folders of one node, made by a pod that may. Where S3's
    metadata can be in them."""
    kube = Kube("default")
    volumes: list[Object] = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"flamestream-e2e-{number}"},
            "spec": {
                "storageClassName": "flamestream-e2e",
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": f"{DISK}/disk-{number}"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
                                ]
                            }
                        ]
                    }
                },
            },
        }
        for number in range(2)
    ]
    folders = " ".join(f"{DISK}/{name}" for name in ("disk-0", "disk-1", "shared"))
    looks = f'python3 -c "{_ATTRIBUTES}" {DISK}/disk-0 2>/dev/null && echo attributes || echo files'
    maker = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "flamestream-e2e-disks"},
        "spec": {
            "restartPolicy": "Never", "nodeName": node,
            "containers": [{
                "name": "make", "image": IMAGE, "imagePullPolicy": "IfNotPresent",
                "securityContext": {"runAsUser": 0, "runAsGroup": 0},
                "command": ["/bin/sh", "-c", f"mkdir -p {folders} && chmod 777 {folders} && ({looks})"],
                "volumeMounts": [{"name": "disk", "mountPath": DISK}],
            }],
            "volumes": [{"name": "disk", "hostPath": {"path": DISK, "type": "DirectoryOrCreate"}}],
        },
    }  # fmt: skip
    kube.delete("Pod", "flamestream-e2e-disks")
    kube.apply(*volumes, maker)
    kube.wait("Pod", "flamestream-e2e-disks", lambda pod: pod["status"].get("phase") == "Succeeded", 60)
    # one whose claim is gone can be bound again; of one that is bound nothing can be taken
    for volume in volumes:
        name = volume["metadata"]["name"]
        if (kube.get("PersistentVolume", name) or {}).get("status", {}).get("phase") == "Released":
            kube.patch("PersistentVolume", name, {"spec": {"claimRef": None}})
    return kube.logs("flamestream-e2e-disks").strip()
