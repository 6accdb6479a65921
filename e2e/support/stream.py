"""A job under test with its outside: an inverted index of real text, from socket to socket, and every question a test has for it."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.support.installation import DISK, IMAGE, Installation
from e2e.support.kube import Kube, until

INTERVALS = ("1s", "50ms", "500ms", "10s")
"""Between checkpoints, at which latencies are measured."""

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = "outside"
NAME = "inverted-index"
_SECURITY = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


@dataclass
class Stream:
    """One job; `name` may be another's where a savepoint is restored."""

    kube: Kube
    installation: Installation
    replicas: int = 2
    standby: int = 1
    high_availability: bool = False
    interval: str = "1s"
    extra: dict[str, Any] = field(default_factory=dict)
    name: str = NAME
    words: int = 250
    """Of each document."""
    outside: str = OUTSIDE
    """Name of the pod that is its producer and its consumer."""

    def manifest(self, **changes: Any) -> dict[str, Any]:
        """The FlameStreamJob."""
        address = f"{self.outside}.{self.kube.namespace}.svc"
        spec: dict[str, Any] = {
            "application": {"file": "workload.py", "graph": "graph", "configMap": "application"},
            "sources": {"docs": {"socket": {"address": f"{address}:7001"}}},
            "sinks": {"index": {"socket": {"address": f"{address}:7002"}}},
            "guarantee": "exactly-once",
            "workers": {"replicas": self.replicas, "standby": self.standby},
            "checkpoint": {"interval": self.interval, "store": self.installation.store, "secret": "s3-keys"},
            "journal": {"folder": f"/journal/{self.kube.namespace}-{self.name}", "fsync": False, "shared": True},
            "highAvailability": self.high_availability,
            "pods": {
                "volumes": [{"name": "journal", "hostPath": {"path": f"{DISK}/shared"}}],
                "volumeMounts": [{"name": "journal", "mountPath": "/journal"}],
            },
            **self.extra, **changes,
        }  # fmt: skip
        return {"apiVersion": "flamestream.dev/v1alpha1", "kind": "FlameStreamJob", "metadata": {"name": self.name}, "spec": spec}

    def prepare(self) -> None:
        """Everything but the job: the application, the keys, the outside."""
        workload = (ROOT / "benchmarks" / "jobs" / "workload.py").read_text()
        outside = {name: (ROOT / "e2e" / "support" / name).read_text() for name in ("outside.py", "verdict.py")}
        pod = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": self.outside, "labels": {"app": self.outside}},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": self.installation.node},
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": self.outside, "image": IMAGE, "imagePullPolicy": "IfNotPresent", "args": ["python3", "/e2e/outside.py"],
                    "env": [{"name": "WORDS", "value": str(self.words)}],
                    "resources": {"requests": {"cpu": "200m"}},  # without, it gets a processor last, and gaps of its own
                    "securityContext": _SECURITY,
                    "volumeMounts": [{"name": "code", "mountPath": "/e2e"}, {"name": "app", "mountPath": "/opt/flamestream/app"}],
                    "readinessProbe": {"tcpSocket": {"port": 7003}, "periodSeconds": 1},
                }],
                "volumes": [{"name": "code", "configMap": {"name": self.outside}}, {"name": "app", "configMap": {"name": "application"}}],
            },
        }  # fmt: skip
        ports = [{"name": f"p{port}", "port": port} for port in (7001, 7002, 7003)]
        service = {"selector": {"app": self.outside}, "ports": ports}
        self.kube.delete("pod", self.outside, "--force", "--grace-period=0")  # one that remembers another job
        self.kube.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "application"}, "data": {"workload.py": workload}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.outside}, "data": outside},
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": self.outside},
                "spec": service,
            },
            self.installation.secret(),
            pod,
        )
        self.kube.run("wait", "--for=condition=Ready", f"pod/{self.outside}", "--timeout=60s")

    def apply(self, **changes: Any) -> None:
        """Create or change the job."""
        self.kube.apply(self.manifest(**changes))

    def wait_ready(self, seconds: float = 120) -> None:
        """As a user waits."""
        self.kube.run("wait", "--for=condition=Ready", f"flamestreamjob/{self.name}", f"--timeout={seconds:g}s", within=seconds + 20)

    def ask(self, path: str, within: float = 300) -> Any:
        """The outside."""
        return self.kube.ask(self.outside, path, within)

    def send(self, per_second: float, documents: int) -> None:
        """So many more documents."""
        self.ask(f"/rate?per_second={per_second}&documents={documents}")

    def state(self) -> Any:
        return self.ask("/state")

    def status(self) -> dict[str, Any]:
        """The job's."""
        job = self.kube.get("flamestreamjob", self.name)
        return dict((job or {}).get("status", {}))

    def wait_flowing(self, within: float = 60) -> None:
        """Results come."""
        before = self.state()["deliveries"]
        until("results come", lambda: self.state()["deliveries"] > before, within, poll=0.5)

    def wait_through(self, within: float = 180) -> Any:
        """All documents that were to be sent are through: the audit is complete and clean."""
        until("every document is sent", lambda: (s := self.state())["sent"] >= s["wanted"], within, poll=0.5)
        deadline = time.monotonic() + within
        while True:
            verdict = self.ask("/audit")
            if verdict["complete"] or not verdict["clean"] or time.monotonic() > deadline:
                return verdict
            time.sleep(1)

    def workers(self) -> list[dict[str, Any]]:
        """Their pods, those that run."""
        pods = self.kube.list("pods", f"flamestream.dev/job={self.name},flamestream.dev/role=worker")
        return [pod for pod in pods if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]]

    def wait_workers(self, count: int, lost: str, within: float) -> None:
        """Until so many are there that the coordinator knows: a pod's readiness gate says so. Not on node `lost`."""
        ready = '.status.conditions[?(@.type=="Ready")].status'
        columns = {"NODE": ".spec.nodeName", "PHASE": ".status.phase", "GOING": ".metadata.deletionTimestamp", "READY": ready}

        def enough(there: dict[str, dict[str, str]]) -> bool:
            whole = {"PHASE": "Running", "GOING": "<none>", "READY": "True"}
            return sum(pod["NODE"] != lost and pod.items() >= whole.items() for pod in there.values()) >= count

        self.kube.watch("pods", f"flamestream.dev/job={self.name},flamestream.dev/role=worker", columns, enough, within)

    def drivers(self) -> list[dict[str, Any]]:
        """The same of driver pods."""
        pods = self.kube.list("pods", f"flamestream.dev/job={self.name},flamestream.dev/role=driver")
        return [pod for pod in pods if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]]

    def active_workers(self) -> list[str]:
        """The pods of workers that hold slots: those that have a connection to the consumer."""
        pods = [pod["metadata"]["name"] for pod in self.workers()]
        return [
            pod for pod in pods if self.kube.execute(pod, "grep", "-c", ":1B5A 01", "/proc/net/tcp", check=False).strip() not in ("", "0")
        ]
