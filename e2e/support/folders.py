"""A job from a followed folder of documents to a folder of results: what an audit in the cluster can read back, and what a user has.

A pod outside the job writes documents of real text for as long as it lives. The folder that stands for a shared volume is a hostPath.

Does not: audit (the product does: drills, and `kubectl flamestream audit`).
"""

import os
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e.support.installation import DISK, IMAGE, Installation
from e2e.support.kube import Kube, until

ROOT = Path(__file__).resolve().parents[2]
SECURITY = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
_VOLUME = {"name": "shared", "hostPath": {"path": f"{DISK}/shared"}}
_MOUNT = {"name": "shared", "mountPath": "/shared"}
_WRITER = """
import os, pathlib, sys, time
folder, pause = pathlib.Path(sys.argv[1]), float(sys.argv[2])
(folder / "docs").mkdir(parents=True, exist_ok=True)
texts = []
for file in sorted(pathlib.Path("/usr/lib/python3.11").glob("*.py")):
    words = file.read_text(errors="replace").split()
    texts += [" ".join(words[at:at + 60]) for at in range(0, len(words), 60)]
number = len(list((folder / "docs").iterdir()))
while True:
    fresh = folder / "fresh.txt"
    fresh.write_text(texts[number % len(texts)])
    os.rename(fresh, folder / "docs" / f"{number:07}.txt")
    number += 1
    time.sleep(pause)
"""


@dataclass
class FolderJob:
    """One job, and the pod that feeds it. Several may read the same documents: `docs` is then the other's name."""

    kube: Kube
    installation: Installation
    name: str
    replicas: int = 2
    standby: int = 1
    docs: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    def folder(self, name: str) -> str:
        """Below the shared volume."""
        return f"/shared/{self.kube.namespace}-{name}"

    def manifest(self, **changes: Any) -> dict[str, Any]:
        """The FlameStreamJob."""
        mine = self.folder(self.name)
        spec: dict[str, Any] = {
            "application": {"file": "inverted_index.py", "graph": "graph", "configMap": f"{self.name}-app"},
            "sources": {"docs": {"files": {"path": f"{self.folder(self.docs or self.name)}/docs", "follow": True}}},
            "sinks": {"index": {"files": {"path": f"{mine}/index"}}},
            "workers": {"replicas": self.replicas, "standby": self.standby},
            "checkpoint": {"interval": "1s", "store": self.installation.store, "secret": "s3-keys"},
            "journal": {"folder": "zookeeper://", "keep": True},
            "pods": {"volumes": [_VOLUME], "volumeMounts": [_MOUNT]},
            **self.extra, **changes,
        }  # fmt: skip
        spec = {name: value for name, value in spec.items() if value is not None}
        return {"apiVersion": "flamestream.dev/v1alpha1", "kind": "FlameStreamJob", "metadata": {"name": self.name}, "spec": spec}

    def application(self, text: str = "") -> dict[str, Any]:
        """Its ConfigMap; the label lets an edit be noticed at once."""
        text = text or (ROOT / "examples" / "inverted_index.py").read_text()
        meta = {"name": f"{self.name}-app", "labels": {"flamestream.dev/application-source": "true"}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"inverted_index.py": text}}

    def write(self, per_second: float) -> None:
        """Documents come from now on, until the pod `writer` is deleted."""
        command = ["python3", "-c", _WRITER, self.folder(self.docs or self.name), str(1 / per_second)]
        container = {
            "name": "writer", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "args": command, "securityContext": SECURITY,
            "volumeMounts": [_MOUNT],
        }  # fmt: skip
        spec = {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}, "containers": [container],
            "volumes": [_VOLUME], "terminationGracePeriodSeconds": 0,
        }  # fmt: skip
        self.kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{self.name}-writer"}, "spec": spec})
        self.kube.run("wait", "--for=condition=Ready", f"pod/{self.name}-writer", "--timeout=60s")

    def start(self, per_second: float = 10) -> None:
        """Everything, and wait until it is Ready."""
        self.kube.apply(self.installation.secret(), self.application())
        if not self.docs:
            self.write(per_second)
        self.kube.apply(self.manifest())
        self.wait_ready()

    def wait_ready(self, seconds: float = 120) -> None:
        """As a user waits."""
        self.kube.run("wait", "--for=condition=Ready", f"flamestreamjob/{self.name}", f"--timeout={seconds:g}s", within=seconds + 20)

    def status(self) -> dict[str, Any]:
        """The job's."""
        return dict((self.kube.get("flamestreamjob", self.name) or {}).get("status", {}))

    def condition(self, kind: str) -> dict[str, Any]:
        """One of its conditions."""
        return next((each for each in self.status().get("conditions", []) if each["type"] == kind), {})

    def wait_condition(self, kind: str, reason: str = "", within: float = 120) -> dict[str, Any]:
        """Until it holds, for that reason if one is named."""
        seen = lambda: (c := self.condition(kind)).get("status") == "True" and reason in ("", c["reason"]) and c  # noqa: E731
        return dict(until(f"{self.name} is {kind} {reason}", seen, within, 0.5))

    def drill(self, target: str, **fault: Any) -> dict[str, Any]:
        """Apply a FlameStreamDrill and wait for its verdict: its status. `times` and `audit` are the drill's, all else the fault's."""
        mine = {name: fault.pop(name) for name in ("times", "audit") if name in fault}
        name = f"{self.name}-{target}-{uuid.uuid4().hex[:4]}"
        spec = {"job": self.name, "fault": {"target": target, **fault}, **mine}
        self.kube.apply({"apiVersion": "flamestream.dev/v1alpha1", "kind": "FlameStreamDrill", "metadata": {"name": name}, "spec": spec})
        self.kube.run("wait", "--for=condition=Completed", f"flamestreamdrill/{name}", "--timeout=400s", within=420)
        return dict((self.kube.get("flamestreamdrill", name) or {})["status"])

    def typed(self, *words: str, code: int = 0) -> str:
        """`kubectl flamestream WORDS`, and what it prints."""
        command = [sys.executable, "-m", "flamestream.cli.kubectl.main", *words, "--namespace", self.kube.namespace]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "runtime")}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def delete(self) -> None:
        """The job and its writer."""
        self.kube.delete("flamestreamjob", self.name, "--timeout=90s")
        self.kube.delete("pod", f"{self.name}-writer", "--force", "--grace-period=0")
