"""The places of a fleet: an API server, S3 and ZooKeeper, all real, and the operator's processes beside them.

Keeps: each leader is a process of its own, as its image starts it, under an account of their own; ZooKeeper speaks TLS,
as the chart has it. Does not: run a scheduler or controllers: pods are bound to no node, and nothing counts them.
"""

import json
import os
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import yaml
from lightkube import Client, KubeConfig
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.models.rbac_v1 import RoleRef, Subject
from lightkube.resources.rbac_authorization_v1 import ClusterRoleBinding

from support.api_server import OPERATOR, ApiServer
from support.operator.real_cluster import VARIABLE, namespace
from support.ports import free_port
from support.versitygw import KEY, SECRET, S3Server
from support.zookeeper.authority import Authority
from support.zookeeper.pod import SharedZooKeeper

APPLICATION: Final = """
import flamestream as fs

graph = fs.Graph("texts")
graph.source("numbers").map(str).sink("texts")
"""
SERVICE: Final = "coordinators"
RBAC: Final = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Leader:
    """A process of the operator's; whether it leads, and which shard, its EndpointSlice says."""

    process: subprocess.Popen[bytes]
    port: int
    """Of its coordinators."""
    probes: int
    """The port that answers whether it is ready."""


class Places:
    """Started one after the other; `close` ends all."""

    def __init__(self, folder: Path, shards: int, lease: float) -> None:
        """`lease`: seconds."""
        self._folder, self._stack = folder, ExitStack()
        self._shards, self._lease, self._operators = shards, lease, 0
        self.api_server = ApiServer(folder / "api")
        (folder / "api").mkdir()
        self.s3 = S3Server(folder / "s3")
        authority = Authority(folder / "authority")
        (folder / "zk").mkdir()
        self.zookeeper = SharedZooKeeper(folder / "zk", authority.server(), authority.text)
        self.namespace = ""

    def start(self) -> None:
        """All but the operator."""
        self.api_server.start()
        self._stack.callback(self.api_server.stop)
        os.environ[VARIABLE] = str(self.api_server.kubeconfig)
        self.s3.start()
        self._stack.callback(self.s3.kill)
        self.s3.make_bucket("jobs")
        self._stack.enter_context(self.zookeeper)
        self.namespace = self._stack.enter_context(namespace())
        client = Client(config=KubeConfig.from_file(str(self.api_server.kubeconfig)), trust_env=False)
        # what the chart allows it is tests' to see (tests/integration/operator/test_rights.py)
        client.create(ClusterRoleBinding(
            metadata=ObjectMeta(name="fleet"),
            roleRef=RoleRef(apiGroup=RBAC, kind="ClusterRole", name="cluster-admin"),
            subjects=[Subject(kind="User", name=OPERATOR, apiGroup=RBAC)],
        ))  # fmt: skip

    def operator(self) -> Leader:
        """One more process of the operator's, started. It waits for a Lease if each shard is led."""
        self._operators += 1
        number, port, probes = self._operators, free_port(), free_port()
        config = yaml.safe_load(self.api_server.kubeconfig.read_text())
        (self._folder / "kubeconfig").write_text(yaml.safe_dump(config | {"current-context": "operator"}))
        access = self.zookeeper.access()
        (self._folder / "login").write_text(access.login)
        (self._folder / "authority.pem").write_text(access.authority)
        told = {
            "KUBECONFIG": str(self._folder / "kubeconfig"), "PYTHONPATH": os.pathsep.join(sys.path),
            "POD_NAME": f"operator-{number}", "POD_NAMESPACE": "default", "POD_IP": f"10.9.9.{number}",
            "FLAMESTREAM_SERVICE": SERVICE, "FLAMESTREAM_SHARDS": str(self._shards),
            "FLAMESTREAM_ZOOKEEPER": access.hosts, "FLAMESTREAM_IMAGE": "flamestream:1",
            "FLAMESTREAM_ZOOKEEPER_LOGIN": str(self._folder / "login"),
            "FLAMESTREAM_ZOOKEEPER_AUTHORITY": str(self._folder / "authority.pem"),
            "FLAMESTREAM_ZOOKEEPER_ALONE": "true", "FLAMESTREAM_IMAGE_PULL_POLICY": "Never",
            "FLAMESTREAM_PORT": str(port), "FLAMESTREAM_HTTP_PORT": str(probes),
            "FLAMESTREAM_LEASE_SECONDS": str(self._lease), "FLAMESTREAM_DRILLS": "false",
            "FLAMESTREAM_ALLOW": json.dumps({"storeEndpoints": [self.s3.endpoint]}),
        }  # fmt: skip
        with open(self._folder / "operator.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "flamestream_operator"], env=os.environ | told, stdout=log, stderr=log
            )
        self._stack.callback(_end, process)
        return Leader(process, port, probes)

    def said(self) -> str:
        """The operators' last words."""
        return (self._folder / "operator.log").read_text(errors="replace")[-3000:]

    def things(self) -> list[dict[str, Any]]:
        """What all jobs name: the keys of their store, their application."""
        keys = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
        return [
            self._thing("Secret", "store", type="Opaque", stringData=keys),
            self._thing("ConfigMap", "app", data={"j.py": APPLICATION}),
        ]

    def job(self, number: int, interval: str) -> dict[str, Any]:
        """Of four workers: three take part and one stands by."""
        name = f"job-{number}"
        store = f"s3://jobs/{name}?endpoint={self.s3.endpoint}&region=us-east-1"
        spec = {
            "application": {"file": "j.py", "graph": "graph", "configMap": "app"},
            "sources": {"numbers": {"generator": {"rate": 200}}},
            "sinks": {"texts": {"files": {"path": f"/out/{name}"}}},
            "workers": {"replicas": 3, "standby": 1, "slots": 16},
            "checkpoint": {"interval": interval, "store": store, "secret": "store"},
        }
        return self._thing("FlameStreamJob", name, spec=spec)

    def close(self) -> None:
        """End all that was started."""
        with suppress(httpx2.HTTPError):  # the namespace, which goes with its API server anyway
            self._stack.close()

    def _thing(self, kind: str, name: str, **content: Any) -> dict[str, Any]:
        version = "flamestream.dev/v1alpha1" if kind.startswith("FlameStream") else "v1"
        meta = {"name": name, "namespace": self.namespace}
        return {"apiVersion": version, "kind": kind, "metadata": meta, **content}


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
