"""A job under test with its outside: an inverted index of real text, from socket to socket, and every
question a test has for it."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.support.installation import DISK
from e2e.support.job import ROOT, Job, config_map, is_running, restricted_pod
from e2e.support.kube import Kube, Object, condition_of, until

INTERVALS = ("1s", "50ms", "500ms", "10s")
"""Between checkpoints, at which latencies are measured."""

OUTSIDE = "outside"
JOBS = ROOT / "benchmarks" / "jobs"


@dataclass
class Stream(Job):
    """One job; `name` may be another's where a savepoint is restored."""

    application: str = "workload"
    """One of benchmarks/jobs, whose lines and results are those of workload.py."""
    keys: int = 0
    """Documents name so many, 20 each, behind some that name all; 0: they are real text."""
    high_availability: bool = False
    interval: str = "1s"
    words: int = 250
    """Of each document."""
    outside: str = OUTSIDE
    """Name of the pod that is its producer and its consumer."""

    def spec(self) -> Object:
        """The fields that such a job always has."""
        address = f"{self.outside}.{self.kube.namespace}.svc"
        return {
            "application": {"file": f"{self.application}.py", "graph": "graph", "configMap": "application"},
            "sources": {"docs": {"socket": {"address": f"{address}:7001"}}},
            "sinks": {"index": {"socket": {"address": f"{address}:7002"}}},
            "guarantee": "exactly-once",
            "workers": {"replicas": self.replicas, "standby": self.standby},
            "checkpoint": {"interval": self.interval, "store": self.installation.store, "secret": "s3-keys"},
            "journal": {
                "folder": f"/journal/{self.kube.namespace}-{self.name}",
                "fsync": False,
                "shared": True,
            },
            "highAvailability": self.high_availability,
            "pods": {
                "volumes": [{"name": "journal", "hostPath": {"path": f"{DISK}/shared"}}],
                "volumeMounts": [{"name": "journal", "mountPath": "/journal"}],
            },
        }

    def prepare(self) -> None:
        """Everything but the job: the application, the keys, the outside."""
        self.kube.apply(config_map("application", self.code()), self.installation.secret())
        app = {"app": ({"configMap": {"name": "application"}}, "/opt/flamestream/app")}
        variables = {"WORDS": str(self.words), "KEYS": str(self.keys), "APPLICATION": self.application}
        apply_outside(self.kube, self.outside, self.installation.node, variables, app)

    def code(self, more: str = "") -> dict[str, str]:
        """The application's files, with `more` lines behind it."""
        files = {f"{name}.py": (JOBS / f"{name}.py").read_text() for name in {"workload", self.application}}
        files[f"{self.application}.py"] += more
        return files

    def change_code(self, more: str) -> None:
        """Go on with the same application and `more` lines, from a ConfigMap of its own."""
        name, labels = f"{self.name}-changed", {"flamestream.dev/application-source": "true"}
        self.kube.apply(config_map(name, self.code(more), labels))
        self.extra["application"] = {**self.spec()["application"], "configMap": name}
        self.apply()

    def ask(self, path: str, within: float = 300) -> Any:
        """The outside."""
        return self.kube.ask(self.outside, path, within)

    def send(self, per_second: float, documents: int) -> None:
        """So many more documents."""
        self.ask(f"/rate?per_second={per_second}&documents={documents}")

    def state(self) -> Any:
        return self.ask("/state")

    def wait_flowing(self, within: float = 60) -> None:
        """Results come."""
        before = self.state()["deliveries"]
        until("results come", lambda: self.state()["deliveries"] > before, within)

    def wait_through(self, within: float = 180) -> Any:
        """All documents that were to be sent are through: the audit is complete and clean."""
        until("every document is sent", lambda: (s := self.state())["sent"] >= s["wanted"], within)
        deadline = time.monotonic() + within
        while True:
            verdict = self.ask("/audit")
            if verdict["complete"] or not verdict["clean"] or time.monotonic() > deadline:
                return verdict
            time.sleep(1)

    def workers(self) -> list[Object]:
        """Their pods, those that run."""
        return self.pods("worker")

    def drivers(self) -> list[Object]:
        """The same of driver pods."""
        return self.pods("driver")

    def wait_workers(self, count: int, within: float, *, beside: str = "") -> None:
        """Until so many run; where node `beside` was lost, on other nodes and known to the coordinator: a
        pod's readiness gate says so."""

        def is_there(pod: Object) -> bool:
            known = (
                condition_of(pod, "Ready").get("status") == "True" and pod["spec"].get("nodeName") != beside
            )
            return is_running(pod) and (known or not beside)

        self.kube.watch(
            "Pod",
            lambda there: sum(map(is_there, there.values())) >= count,
            within,
            selector=self.selector("worker"),
        )

    def wait_whole(self, within: float = 180) -> None:
        """Until all workers that it asks for run."""
        self.wait_workers(self.replicas + self.standby, within)

    def active_workers(self) -> list[str]:
        """The pods of workers that hold slots: those that have a connection to the consumer."""
        pods = [pod["metadata"]["name"] for pod in self.workers()]
        return [
            pod
            for pod in pods
            if self.kube.execute(pod, "grep", "-c", ":1B5A 01", "/proc/net/tcp", check=False).strip()
            not in ("", "0")
        ]

    def delete(self) -> None:
        """The job and its outside."""
        super().delete()
        self.kube.delete("Pod", self.outside, grace=0)


def apply_outside(kube: Kube, name: str, node: str, variables: dict[str, str], mounts: Object) -> None:
    """A new pod of outside.py with its Service, until it is ready. `variables`: of its environment."""
    harness = {f"harness/{name}.py": f"benchmarks/harness/{name}.py" for name in ("wire", "versions")}
    files = {"outside.py": "e2e/support/outside.py", **harness}
    code = {Path(place).name: (ROOT / place).read_text() for place in files.values()}
    laid = [{"key": Path(place).name, "path": path} for path, place in files.items()]
    mounts = {"code": ({"configMap": {"name": name, "items": laid}}, "/e2e"), **mounts}
    where = {"kubernetes.io/hostname": node}
    command = ("python3", "/e2e/outside.py")
    pod = restricted_pod(name, *command, labels={"app": name}, mounts=mounts, cpu="200m", nodeSelector=where)
    pod["spec"]["containers"][0] |= {
        "env": [{"name": each, "value": value} for each, value in variables.items()],
        "readinessProbe": {"tcpSocket": {"port": 7003}, "periodSeconds": 1},
    }
    kube.delete("Pod", name, grace=0)  # one that remembers another job
    kube.apply(config_map(name, code), service(name, {"app": name}, 7001, 7002, 7003), pod)
    kube.wait_condition("Pod", name, "Ready", 60)


def service(name: str, pods: Object, *ports: int) -> Object:
    """What leads to these ports of the pods with these labels."""
    spec = {"selector": pods, "ports": [{"name": f"p{port}", "port": port} for port in ports]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
