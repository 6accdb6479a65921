"""A job in a folder of its own: a manifest, its application and its data."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

APPLICATION = """\
import flamestream as fs

graph = fs.Graph("upper")
graph.source("lines").map(str.upper).sink("shouts")
"""
MANIFEST = """\
apiVersion: flamestream.dev/v1alpha1
kind: FlameStreamJob
metadata: {name: upper}
spec:
  application: {file: APPLICATION.py, graph: graph}
  sources: {lines: {files: {path: lines.txt, records: lines}}}
  sinks: {shouts: {files: {path: out}}}
  guarantee: exactly-once
  workers: {replicas: 2}
  checkpoint: {interval: 1s, store: snapshots}
"""


@dataclass(frozen=True)
class JobFolder:
    """Every job has an application module of its own name, as modules stay loaded."""

    path: Path
    module: str

    @property
    def manifest(self) -> Path:
        return self.path / "job.yaml"

    def write(self, code: str = APPLICATION, **changes: str) -> Path:
        """The manifest's file; `changes` replace lines of the spec by name ("" leaves one out)."""
        (self.path / f"{self.module}.py").write_text(code)
        (self.path / "lines.txt").write_text("a\nb\nc\n")
        lines = []
        for line in MANIFEST.replace("APPLICATION", self.module).splitlines():
            name = line.strip().partition(":")[0]
            lines.append(
                f"  {name}: {changes.pop(name)}" if changes.get(name) else line if name not in changes else ""
            )
        lines += [f"  {name}: {value}" for name, value in changes.items() if value]
        self.manifest.write_text("\n".join(line for line in lines if line) + "\n")
        return self.manifest


@pytest.fixture
def job(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[JobFolder]:
    module = f"application_{abs(hash(request.node.nodeid))}"
    before = list(sys.path)
    yield JobFolder(tmp_path, module)
    sys.modules.pop(module, None)
    sys.path[:] = before
