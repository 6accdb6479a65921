"""A job of Flink's on the cluster, with the steps that its Kubernetes operator takes for an upgrade.

A cluster is what the operator makes in its standalone mode: a Deployment with the job manager, which runs
the one job, and a Deployment with a task manager of two slots, so one process less than with two. An upgrade
stops the job with a savepoint, deletes both and waits until their pods are gone (the operator deletes in the
foreground), and makes others, which begin from the savepoint.

Does not: run the operator. Nobody waits for its intervals here, nor for an image.
"""

import json
import os
import time
from dataclasses import dataclass
from typing import Any, Final

from harness.flink_parts import JOB_MANAGER, OPENED, PARTS, SLOTS, TASK_MANAGER

from e2e.support.installation import DISK
from e2e.support.job import config_map, restricted_pod
from e2e.support.kube import ApiException, Kube, Object, until
from e2e.support.stream import apply_outside, service

IMAGE: Final = os.environ.get("E2E_FLINK_IMAGE", "")
OUTSIDE: Final = "flink-outside"
REQUESTS: Final = {"cpu": "300m", "memory": "512Mi"}
SOON: Final = 0.02
"""Seconds between two questions for a savepoint: an operator asks less often."""
TOLD: Final = "/tmp/told"
"""The file of FromTold.java."""
SETTINGS: Final = {
    **PARTS,
    "jobmanager.rpc.port": 6123, "blob.server.port": 6124, "rest.port": 8081,
    "jobmanager.bind-host": "0.0.0.0", "rest.bind-address": "0.0.0.0", "taskmanager.bind-host": "0.0.0.0",
    "taskmanager.memory.task.heap.size": "768m", "restart-strategy.fixed-delay.delay": "0 s",
    "execution.checkpointing.interval": "1 s", "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.min-pause": "0 ms", "execution.buffer-timeout.interval": "0 ms",
    "pipeline.object-reuse": "true",
    # As the operator has it: the job manager of a job that was stopped answers until it is deleted.
    "execution.shutdown-on-application-finish": "false",
    # A task manager that is there before its job manager would wait for 10 s.
    "cluster.registration.error-delay": "100 ms", "cluster.registration.refused-registration-delay": "100 ms",
}  # fmt: skip


@dataclass
class Cluster:
    """One of the two names that a job's clusters have in turn."""

    kube: Kube
    name: str

    def prepare(self) -> None:
        """What outlives its pods."""
        folder = f"file:///shared/{self.kube.namespace}-flink"
        settings = {
            **SETTINGS, "jobmanager.rpc.address": self.name, "rest.address": self.name,
            "execution.checkpointing.dir": f"{folder}/checkpoints",
            "execution.checkpointing.savepoint-dir": f"{folder}/savepoints",
        }  # fmt: skip
        text = "".join(f'{name}: "{value}"\n' for name, value in settings.items())
        self.kube.apply(
            config_map(self.name, {"config.yaml": text}),
            service(self.name, self._labels("jobs"), 6123, 6124, 8081),
        )

    def start(
        self, outside: str, job: tuple[str, ...] = ("peer.InvertedIndex",), savepoint: str = ""
    ) -> None:
        """Its pods, with a job of that class and what that is given first; they come on their own."""
        begun = ("--fromSavepoint", savepoint) if savepoint else ()
        more = (f"{outside}:7001", f"{outside}:7002", "at-least-once", str(SLOTS), "0", "/tmp")
        jobs = (JOB_MANAGER, "--configDir", "/conf", "--job-classname", job[0], *begun, *job[1:], *more)
        tasks = (TASK_MANAGER, "--configDir", "/conf", "-D", "taskmanager.host=$(ADDRESS)")
        self.kube.apply(self._deployment("jobs", "512m", *jobs), self._deployment("tasks", "1g", *tasks))

    def wait_slots(self) -> None:
        """Until a job could begin."""
        until("slots are free", lambda: self._asked("/overview").get("slots-available") == SLOTS, 120)

    def stop(self) -> str:
        """With a savepoint: where it is."""
        job = self._asked("/jobs")["jobs"][0]["id"]
        trigger = json.loads(self.kube.raw(self._path(f"/jobs/{job}/stop"), {"drain": False}))["request-id"]

        def done() -> Any:
            answer = self._asked(f"/jobs/{job}/savepoints/{trigger}")
            return answer.get("status", {}).get("id") == "COMPLETED" and answer["operation"]

        operation = until("the savepoint is there", done, 120, SOON)
        assert "location" in operation, operation
        return str(operation["location"])

    def begin(self, savepoint: str) -> None:
        """Tell the job that waits (FromTold.java) where it begins."""
        (pod,) = self.kube.list("Pod", f"app={self.name},part=jobs")
        write = 'echo "$0" > "$1.part" && mv "$1.part" "$1"'
        self.kube.execute(pod["metadata"]["name"], "sh", "-c", write, savepoint, TOLD)

    def delete(self) -> None:
        """Both Deployments, until no pod of theirs is left."""
        for part in ("tasks", "jobs"):
            self.kube.delete("Deployment", f"{self.name}-{part}", within=0)
        self.kube.watch("Pod", lambda there: not there, 120, selector=f"app={self.name}")

    def _asked(self, path: str) -> Any:
        try:
            return json.loads(self.kube.raw(self._path(path)))
        except ApiException:  # nobody listens yet
            return {}

    def _path(self, path: str) -> str:
        return f"/api/v1/namespaces/{self.kube.namespace}/services/{self.name}:8081/proxy{path}"

    def _labels(self, part: str) -> dict[str, str]:
        return {"app": self.name, "part": part}

    def _deployment(self, part: str, memory: str, *words: str) -> Object:
        mounts = {
            "conf": ({"configMap": {"name": self.name}}, "/conf"),
            "shared": ({"hostPath": {"path": f"{DISK}/shared"}}, "/shared"),
            "tmp": ({"emptyDir": {}}, "/tmp"),
        }
        # the grace is Kubernetes' default
        pod = restricted_pod(part, labels=self._labels(part), mounts=mounts, terminationGracePeriodSeconds=30)
        pod["spec"]["containers"][0] |= {
            "image": IMAGE,
            "command": ["java", f"-Xms{memory}", f"-Xmx{memory}", *OPENED, "-cp", "/opt/flink/lib/*"],
            "args": list(words),
            "env": [{"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "resources": {"requests": REQUESTS},
        }
        template = {"metadata": {"labels": self._labels(part)}, "spec": pod["spec"]}
        spec = {"replicas": 1, "selector": {"matchLabels": self._labels(part)}, "template": template}
        metadata = {"name": f"{self.name}-{part}"}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


@dataclass
class FlinkStream:
    """The stream of stream.py with Flink instead of ours: the same documents, the same outside, in lines."""

    kube: Kube
    node: str
    words: int

    def __post_init__(self) -> None:
        self._now, self._next = (Cluster(self.kube, name) for name in ("flink-blue", "flink-green"))
        self._address = f"{OUTSIDE}.{self.kube.namespace}.svc"

    def start(self) -> None:
        """The outside, the job, and results."""
        apply_outside(self.kube, OUTSIDE, self.node, {"WORDS": str(self.words), "SPEAKS": "lines"}, {})
        for cluster in (self._now, self._next):
            cluster.prepare()
        self._now.start(self._address)
        self.ask("/rate?per_second=50&documents=1000000")
        self.wait_flowing()

    def upgrade(self) -> dict[str, float]:
        """Savepoint, deletion, other pods. What each of the first two took, in milliseconds."""
        begun = time.monotonic()
        savepoint = self._now.stop()
        stopped = time.monotonic()
        self._now.delete()
        gone = time.monotonic()
        self._next.start(self._address, savepoint=savepoint)
        self._turn()
        return {"stop_ms": round((stopped - begun) * 1e3, 1), "gone_ms": round((gone - stopped) * 1e3, 1)}

    def stand_by(self) -> None:
        """The pods of the next cluster, until their job waits for its savepoint alone."""
        self._next.start(self._address, ("peer.FromTold", TOLD))
        self._next.wait_slots()

    def upgrade_to_standby(self) -> dict[str, float]:
        """The same where the other pods are there. The first ones go behind the gap (`tidy`)."""
        begun = time.monotonic()
        savepoint = self._now.stop()
        stopped = time.monotonic()
        self._next.begin(savepoint)
        self._turn()
        return {"stop_ms": round((stopped - begun) * 1e3, 1)}

    def tidy(self) -> None:
        """The pods of the cluster before."""
        self._next.delete()

    def delete(self) -> None:
        """All of it."""
        for cluster in (self._now, self._next):
            cluster.delete()
        self.kube.delete("Pod", OUTSIDE, grace=0)

    def ask(self, path: str) -> Any:
        """The outside."""
        return self.kube.ask(OUTSIDE, path, 300)

    def wait_flowing(self, within: float = 120) -> None:
        """Results come."""
        before = self.ask("/state")["deliveries"]
        until("results come", lambda: self.ask("/state")["deliveries"] > before, within)

    def _turn(self) -> None:
        self._now, self._next = self._next, self._now
