"""A job whose coordinator an operator hosts, with workers as processes of this machine and no Spark."""

import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from flamestream.core.coordinator.coordination import Settings
from flamestream.job.journal_of import journal_of
from flamestream.job.manifest import parse_job
from flamestream.job.settings import worker_settings
from flamestream.job.validation import checked_job
from flamestream.model.ids import WorkerId
from flamestream.node.worker_process import WorkerProcessConfig
from flamestream_operator.coordination.hosting import JobToCoordinate

APPLICATION = """
import flamestream as fs

graph = fs.Graph("numbers")
graph.source("numbers").map(str).sink("texts")
"""
SPEC: Mapping[str, Any] = {
    "sources": {"numbers": {"generator": {"rate": 200}}},
    "sinks": {"texts": {"files": {"path": "out", "fsync": False}}},
}
TOKEN = "t" * 64


class HostedJob:
    """Endless; two workers make it whole. `spec`: its sources and sinks, and what else is said in a
    manifest."""

    def __init__(
        self,
        name: str,
        folder: Path,
        port: int,
        identity: str = "",
        *,
        application: str = APPLICATION,
        spec: Mapping[str, Any] = SPEC,
    ) -> None:
        self.name, self._folder, self._port = name, folder, port
        (folder / "store").mkdir(parents=True)
        # this process loads it too, and a name can be loaded once
        self._file = f"application_{uuid.uuid4().hex}.py"
        (folder / self._file).write_text(application)
        manifest = {
            "apiVersion": "flamestream.dev/v1alpha1", "kind": "FlameStreamJob", "metadata": {"name": name},
            "spec": {
                "application": {"file": self._file, "graph": "graph"}, **spec,
                "workers": {"replicas": 2, "slots": 8},
                "checkpoint": {"interval": "50ms", "store": str(folder / "store")},
            },
        }  # fmt: skip
        self._checked = checked_job(
            parse_job(msgspec.json.encode(manifest).decode(), str(folder / "job.json"))
        )
        settings = Settings(
            job=identity or name, graph="", python="", workers=2, fronts=len(spec["sources"]), slots=8,
            interval_us=50_000, drain_us=20_000_000,
        )  # fmt: skip
        self.told = JobToCoordinate(settings=settings, token=TOKEN, store=str(folder / "store"))
        self.processes: list[subprocess.Popen[bytes]] = []

    def start_worker(self, host: str = "127.0.0.1") -> subprocess.Popen[bytes]:
        """One more."""
        number = len(self.processes)
        config = self._folder / f"worker-{number}.json"
        config.write_bytes(msgspec.json.encode(self._config(f"w{number}", host)))
        command = [sys.executable, "-m", "flamestream.node.worker_process", str(config)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with (self._folder / f"worker-{number}.log").open("wb") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))
        return self.processes[-1]

    def _config(self, worker: str, host: str) -> WorkerProcessConfig:
        job = self._checked.job
        return WorkerProcessConfig(
            worker=WorkerId(worker), coordinator=f"127.0.0.1:{self._port}", token=TOKEN,
            application=str(self._folder / self._file), graph="graph",
            settings=replace(worker_settings(self._checked), job=self.told.job),
            sources={name: job.source(name) for name in job.spec.sources},
            sinks={name: job.sink(name) for name in job.spec.sinks}, store=job.store, journal=journal_of(job),
            host=host, private=True,
        )  # fmt: skip

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
