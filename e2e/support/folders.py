"""A job from a followed folder of documents to a folder of results: what an audit in the cluster can read
back, and what a user has.

A pod outside the job writes documents of real text for as long as it lives. The folder that stands for a
shared volume is a hostPath.

Does not: audit (the product does: drills, and `kubectl flamestream audit`).
"""

import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from typing import Any

from e2e.support.installation import DISK
from e2e.support.job import ROOT, Job, config_map, ours, restricted_pod
from e2e.support.kube import Object

SHARED = {"hostPath": {"path": f"{DISK}/shared"}}
_WRITER = """
import os, pathlib, sys, time
folder, pause, form = pathlib.Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
(folder / "docs").mkdir(parents=True, exist_ok=True)
texts = []
for file in sorted(pathlib.Path("/usr/lib/python3.11").glob("*.py")):
    words = file.read_text(errors="replace").split()
    texts += [" ".join(words[at:at + 60]) for at in range(0, len(words), 60)]
number = len(list((folder / "docs").iterdir()))
while True:
    fresh = folder / "fresh.txt"
    fresh.write_text(form.format(number=number, text=texts[number % len(texts)]))
    os.rename(fresh, folder / "docs" / f"{number:07}.txt")
    number += 1
    time.sleep(pause)
"""


@dataclass
class FolderJob(Job):
    """One job, and the pod that feeds it. Several may read the same documents: `docs` is then the other's
    name."""

    docs: str = ""
    form: str = "{text}"
    """A document, from its number and some real text."""

    def folder(self, name: str) -> str:
        """Below the shared volume."""
        return f"/shared/{self.kube.namespace}-{name}"

    def spec(self) -> Object:
        """The fields that such a job always has."""
        return {
            "application": {"file": "inverted_index.py", "graph": "graph", "configMap": f"{self.name}-app"},
            "sources": {
                "docs": {"files": {"path": f"{self.folder(self.docs or self.name)}/docs", "follow": True}}
            },
            "sinks": {"index": {"files": {"path": f"{self.folder(self.name)}/index"}}},
            "workers": {"replicas": self.replicas, "standby": self.standby},
            "checkpoint": {"interval": "1s", "store": self.installation.store, "secret": "s3-keys"},
            "journal": {"folder": "zookeeper://", "keep": True},
            "pods": {
                "volumes": [{"name": "shared", **SHARED}],
                "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
            },
        }

    def application(self, text: str = "") -> Object:
        """Its ConfigMap; the label lets an edit be noticed at once."""
        text = text or (ROOT / "examples" / "inverted_index.py").read_text()
        return config_map(
            f"{self.name}-app", {"inverted_index.py": text}, {"flamestream.dev/application-source": "true"}
        )

    def runs(self, graph: str, code: str, *sinks: str) -> None:
        """Another application than the index: `code` has `graph`, and each sink a folder of its own. What is
        more in `extra` stays."""
        name = f"{self.name}-{graph}"
        self.extra |= {
            "application": {"file": f"{graph}.py", "graph": "graph", "configMap": name},
            "sinks": {sink: {"files": {"path": f"{self.folder(self.name)}/{sink}"}} for sink in sinks},
        }
        self.kube.apply(config_map(name, {f"{graph}.py": code}))

    def write(self, per_second: float) -> None:
        """Documents come from now on, until the pod `writer` is deleted."""
        command = [
            "python3",
            "-c",
            _WRITER,
            self.folder(self.docs or self.name),
            str(1 / per_second),
            self.form,
        ]
        self.kube.apply(
            restricted_pod(f"{self.name}-writer", *command, mounts={"shared": (SHARED, "/shared")}, cpu="50m")
        )
        self.kube.wait_condition("Pod", f"{self.name}-writer", "Ready", 60)

    def start(self, per_second: float = 10) -> None:
        """Everything, and wait until it is Ready."""
        self.kube.apply(self.installation.secret(), self.application())
        if not self.docs:
            self.write(per_second)
        self.apply()
        self.wait_ready()

    def drill(self, target: str, **fault: Any) -> Object:
        """Apply a FlameStreamDrill and wait for its verdict: its status. `times` and `audit` are the drill's,
        all else the fault's."""
        mine: Object = {name: fault.pop(name) for name in ("times", "audit") if name in fault}
        name = f"{self.name}-{target}-{uuid.uuid4().hex[:4]}"
        self.kube.apply(
            ours("FlameStreamDrill", name, {"job": self.name, "fault": {"target": target, **fault}, **mine})
        )
        self.kube.wait_condition("FlameStreamDrill", name, "Completed", 400)
        return dict((self.kube.get("FlameStreamDrill", name) or {})["status"])

    def typed(self, *words: str, code: int = 0) -> str:
        """`kubectl flamestream WORDS`, and what it prints."""
        process = self.begun(*words)
        out, error = process.communicate(timeout=300)
        assert process.returncode == code, f"{words}: {process.returncode}\n{out}\n{error}"
        return out

    def begun(self, *words: str) -> "subprocess.Popen[str]":
        """The same, going on."""
        place = ["--namespace", self.kube.namespace]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "runtime")}
        if self.kube.config:
            environment["KUBECONFIG"] = self.kube.config
        return subprocess.Popen(
            [sys.executable, "-m", "flamestream.cli.kubectl.main", *words, *place],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def delete(self) -> None:
        """The job and its writer."""
        super().delete()
        self.kube.delete("Pod", f"{self.name}-writer", grace=0)
