"""A scratch folder in which a new user types commands: files are written, `flamestream ...` is run, what it
says is read.

Keeps: one command at a time; all end before the test does. Does not: look inside anything that a user cannot
see.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.eventually import eventually

RUNTIME = Path(__file__).parents[3] / "runtime"
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, [str(RUNTIME), os.environ.get("PYTHONPATH", "")])),
}


@dataclass(frozen=True)
class Said:
    """What a command said: its exit code, and stdout and stderr together."""

    code: int
    text: str


class Scratch:
    """One folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begun: list[subprocess.Popen[str]] = []

    def close(self) -> None:
        """End what a test has left."""
        for process in self._begun:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def job(self, application: str, *lines: str, name: str = "job", file: str = "job.yaml") -> None:
        """`app.py`, and the manifest of a job over its `graph`; `lines` stand in its spec."""
        self.write("app.py", application)
        spec = "".join(f"  {line}\n" for line in ("application: {file: app.py, graph: graph}", *lines))
        self.write(
            file,
            f"apiVersion: flamestream.dev/v1alpha1\nkind: FlameStreamJob\nmetadata: {{name: "
            f"{name}}}\nspec:\n{spec}",
        )

    def type(self, *command: str, within: float = 180.0) -> Said:
        """`flamestream COMMAND`, to its end."""
        done = subprocess.run(
            arguments(*command),
            cwd=self.path,
            text=True,
            capture_output=True,
            timeout=within,
            check=False,
            env=ENVIRONMENT,
        )
        return Said(done.returncode, done.stdout + done.stderr)

    def begin(self, *command: str) -> "subprocess.Popen[str]":
        """The same, going on."""
        process = subprocess.Popen(
            arguments(*command),
            cwd=self.path,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=ENVIRONMENT,
        )
        self._begun.append(process)
        return process

    def status(self, job: str = "job") -> dict[str, Any]:
        """status.json itself: quicker than a process. Of a job that has not written it, one that has done nothing."""
        file = self.path / ".flamestream" / job / "status.json"
        nothing = {"phase": "", "epoch": 0, "items_out": 0}
        found: dict[str, Any] = json.loads(file.read_text()) if file.exists() else nothing
        return found

    def goes_on(self, job: str = "job", within: float = 120.0) -> None:
        """Wait until the job runs, two epochs further than now."""
        before = self.status(job)["epoch"]
        eventually(
            lambda: (now := self.status(job))["phase"] == "running" and now["epoch"] >= before + 2,
            f"{job} commits",
            within=within,
        )


def arguments(*command: str) -> list[str]:
    """The same program as `flamestream`, whatever is on the PATH."""
    return [sys.executable, "-m", "flamestream.cli.main", *command]


SMALL = (
    "workers: {replicas: 2, slots: 16}",
    "checkpoint: {interval: 100ms, store: snapshots}",
    "limits: {runs: 16}",
)
"""Lines of a spec that most tests do not care about."""
