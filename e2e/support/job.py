"""What every job under test has: its object, its status, its pods, and the words of a pod that runs the image
restricted as a job's do.

Does not: say what comes in and goes out (stream.py by sockets, folders.py by folders).
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.support.installation import IMAGE, Installation
from e2e.support.kube import OURS, Kube, Object, condition_of

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Job:
    """A FlameStreamJob by name; `extra` is what its spec has beside what such a job always has."""

    kube: Kube
    installation: Installation
    name: str
    replicas: int = 2
    standby: int = 1
    extra: dict[str, Any] = field(default_factory=dict)

    def manifest(self, **changes: Any) -> Object:
        """The FlameStreamJob; a field of None is left out."""
        spec = {**self.spec(), **self.extra, **changes}
        return ours(
            "FlameStreamJob", self.name, {name: value for name, value in spec.items() if value is not None}
        )

    def spec(self) -> Object:
        """The fields that such a job always has."""
        raise NotImplementedError

    def apply(self, **changes: Any) -> None:
        """Create or change the job."""
        self.kube.apply(self.manifest(**changes))

    def apply_and_wait(self, **changes: Any) -> None:
        """Change the job, until the operator has seen that and it is Ready."""
        self.apply(**changes)
        self.kube.wait("FlameStreamJob", self.name, is_observed, 60)
        self.wait_ready(180)

    def wait_ready(self, seconds: float = 120) -> None:
        """As a user waits."""
        self.wait_condition("Ready", within=seconds)

    def wait_condition(self, kind: str, reason: str = "", within: float = 120) -> Object:
        """Until it holds, for that reason if one is named."""
        return self.kube.wait_condition("FlameStreamJob", self.name, kind, within, reason)

    def wait_status(self, name: str, within: float = 60) -> Any:
        """The value of this name in its status, once there is one."""
        return self.kube.wait(
            "FlameStreamJob", self.name, lambda job: job.get("status", {}).get(name), within
        )

    def status(self) -> Object:
        """The job's status; empty while it has none."""
        return dict((self.kube.get("FlameStreamJob", self.name) or {}).get("status", {}))

    def condition(self, kind: str) -> Object:
        """One of its conditions; empty if it has none of this kind."""
        return condition_of(self.kube.get("FlameStreamJob", self.name), kind)

    def wait_event(self, reason: str) -> None:
        """Until an event about it gives this reason: it is sent behind the status that says the same."""

        def tells(there: dict[str, Object]) -> bool:
            return any(
                each["reason"] == reason and each["involvedObject"]["name"] == self.name
                for each in there.values()
            )

        self.kube.watch("Event", tells, 30)

    def pods(self, role: str) -> list[Object]:
        """Those of one role that run and are to stay."""
        return [pod for pod in self.kube.list("Pod", self.selector(role)) if is_running(pod)]

    def selector(self, role: str = "") -> str:
        """The labels of its objects, or of its pods of one role."""
        return f"flamestream.dev/job={self.name}" + (f",flamestream.dev/role={role}" if role else "")

    def delete(self) -> None:
        """The job, and what the operator made for it."""
        self.kube.delete("FlameStreamJob", self.name)


def ours(kind: str, name: str, spec: Object) -> Object:
    """An object of FlameStream's own."""
    return {"apiVersion": OURS, "kind": kind, "metadata": {"name": name}, "spec": spec}


def is_observed(job: Object) -> bool:
    """Whether the operator has looked at the newest spec."""
    return bool(job.get("status", {}).get("observedGeneration") == job["metadata"]["generation"])


def is_running(pod: Object) -> bool:
    """Whether its containers have begun and nobody wants it gone."""
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def is_over(pod: Object) -> bool:
    """Whether its containers have ended."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def restricted_pod(
    name: str,
    *command: str,
    labels: dict[str, str] | None = None,
    mounts: Object | None = None,
    cpu: str = "",
    **spec: Any,
) -> Object:
    """A pod of the image as a job's pods are: nobody in particular, on a read-only root. `mounts`: a volume
    and its path, by name; `cpu`: what it requests: without, it gets a processor last, and pauses of its own."""
    mounts = mounts or {}
    container = {
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": [*command],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": each, "mountPath": path} for each, (_, path) in mounts.items()],
        **({"resources": {"requests": {"cpu": cpu}}} if cpu else {}),
    }
    whole = {
        "containers": [container],
        "volumes": [{"name": each, **volume} for each, (volume, _) in mounts.items()],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "terminationGracePeriodSeconds": 0, **spec,
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": whole,
    }


def config_map(name: str, data: dict[str, str], labels: dict[str, str] | None = None) -> Object:
    """A ConfigMap of files."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels or {}},
        "data": data,
    }
