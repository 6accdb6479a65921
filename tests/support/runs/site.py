"""`flamestream run` of a small job in a folder, and what its other commands say of it: a process each,
workers plain ones or Spark's."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.eventually import eventually

APPLICATION = """\
import flamestream as fs

def number(n):
    if n == FAILS_AT:
        raise ValueError(f"no {n}")
    return n

graph = fs.Graph("sums")
numbers = graph.source("numbers").map(number)
numbers.reduce(key=lambda n: n % 7, initial=int, combine=lambda total, n: total + n).sink("totals", key=lambda total: total % 5)
"""  # noqa: E501
MANIFEST = """\
apiVersion: flamestream.dev/v1alpha1
kind: FlameStreamJob
metadata: {name: sums}
spec:
  application: {file: sums.py, graph: graph}
  sources: {numbers: {generator: GENERATOR}}
  sinks: {totals: {files: {path: out, fsync: false}}}
  guarantee: GUARANTEE
  workers: {replicas: 2, standby: 1, slots: 16}
  checkpoint: {interval: 100ms, store: snapshots}
  limits: {runs: 16}
"""


class Site:
    """A job in a folder, and the processes that the test started for it."""

    def __init__(self, path: Path, spark: bool = False) -> None:
        self.path = path
        self.options = () if spark else ("--no-spark",)
        self.runs: list[subprocess.Popen[str]] = []

    def write(self, generator: str, fails_at: int = -1, guarantee: str = "exactly-once") -> None:
        (self.path / "sums.py").write_text(APPLICATION.replace("FAILS_AT", str(fails_at)))
        (self.path / "job.yaml").write_text(
            MANIFEST.replace("GENERATOR", generator).replace("GUARANTEE", guarantee)
        )

    def start(self, *options: str) -> subprocess.Popen[str]:
        command = self._command("run", "job.yaml", "--json", *self.options, *options)
        run = subprocess.Popen(
            command, cwd=self.path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.runs.append(run)
        return run

    def ask(self, *arguments: str) -> tuple[int, Any]:
        done = subprocess.run(
            self._command(*arguments, "--json"),
            cwd=self.path,
            text=True,
            capture_output=True,
            timeout=120,
            check=False,
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def status(self) -> dict[str, Any]:
        _, answer = self.ask("status", "job.yaml")
        assert isinstance(answer, dict), answer
        return answer

    def live_status(self) -> dict[str, Any] | None:
        """status.json itself: quicker than a process."""
        file = self.path / ".flamestream" / "sums" / "status.json"
        found: dict[str, Any] | None = json.loads(file.read_text()) if file.exists() else None
        return found

    def running(self, epoch: int = 1, attempt: int = 1) -> dict[str, Any]:
        """Wait until it runs (at least in this attempt) with both workers and its standby, and has
        committed."""

        def look() -> dict[str, Any] | None:
            now = self.live_status()
            whole = (
                now is not None
                and now["phase"] == "running"
                and len(now["workers"]) == 2
                and len(now["standbys"]) == 1
            )
            return (
                now
                if now is not None and whole and now["epoch"] >= epoch and now["attempt"] >= attempt
                else None
            )

        return eventually(look, f"the job runs and commits epoch {epoch}", within=60) or {}

    def audit(self) -> dict[str, Any]:
        _, answer = self.ask("audit", "job.yaml")
        assert isinstance(answer, dict), answer
        return answer

    def close(self) -> None:
        """End what the test has left."""
        for run in self.runs:
            if run.poll() is None:
                run.kill()
            run.communicate()

    @staticmethod
    def _command(*arguments: str) -> list[str]:
        return [sys.executable, "-m", "flamestream.cli.main", *arguments]


def ended(run: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    out, err = run.communicate(timeout=120)
    assert out, err
    answer: dict[str, Any] = json.loads(out)
    return run.returncode, answer
