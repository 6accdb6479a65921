"""A job in a folder that `flamestream run` runs for real, and what can be seen of it from outside: status,
processes, output.

The manifest is written from a mapping (JSON is YAML). What the test starts here it ends here: `close`.

Does not: kill anything but its own launcher (kills.py does, with care).
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flamestream.connectors import sinks
from flamestream.job.status import JobStatus
from flamestream.model import payload as codec
from flamestream.node.run_folder import RunFolder
from support.eventually import eventually
from support.processes import alive

REPOSITORY = Path(__file__).parents[3]
NAME = "job"
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(
        [str(REPOSITORY / "runtime"), *filter(None, [os.environ.get("PYTHONPATH")])]
    ),
}
DEFAULTS: Mapping[str, Any] = {
    "guarantee": "exactly-once",
    "workers": {"replicas": 2, "slots": 64},
    "checkpoint": {"interval": "100ms", "store": "snapshots"},
    "limits": {"runs": 8},
}


class CliJob:
    """One job in `folder`: the files of its manifest, and at most one launcher at a time."""

    def __init__(
        self,
        folder: Path,
        application: Path,
        spec: Mapping[str, Any],
        *,
        spark: bool = True,
        graph: str = "graph",
    ) -> None:
        self.path = folder
        self.run_folder = RunFolder(folder / "run")
        self.manifest = folder / "job.yaml"
        self.spec = {**DEFAULTS, "application": {"file": str(application), "graph": graph}, **spec}
        document = {
            "apiVersion": "flamestream.dev/v1alpha1",
            "kind": "FlameStreamJob",
            "metadata": {"name": NAME},
            "spec": self.spec,
        }
        self.manifest.write_text(json.dumps(document, indent=1))
        self.launcher: subprocess.Popen[str] | None = None
        self._options = ("--run-folder", str(self.run_folder.path), *(() if spark else ("--no-spark",)))

    # --- the launcher ---------------------------------------------------------------------------------------

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Run it; what it prints goes to files."""
        assert self.launcher is None or self.launcher.poll() is not None, "it runs already"
        with (self.path / "stdout").open("w") as out, (self.path / "stderr").open("a") as err:
            command = _command("run", self.manifest, "--json", *self._options, *options)
            self.launcher = subprocess.Popen(
                command, cwd=self.path, text=True, stdout=out, stderr=err, env=ENVIRONMENT
            )
        return self.launcher

    def signal(self, number: int = signal.SIGTERM) -> None:
        assert self.launcher is not None
        self.launcher.send_signal(number)

    @property
    def ended(self) -> bool:
        return self.launcher is not None and self.launcher.poll() is not None

    def end(self, within: float = 120.0) -> tuple[int, dict[str, Any]]:
        """Wait for the launcher's end: its exit code, and what it printed."""
        assert self.launcher is not None
        try:
            code = self.launcher.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the job has not ended within {within:g} s\n{self.told()}") from None
        out = (self.path / "stdout").read_text()
        assert out, self.told()
        answer: dict[str, Any] = json.loads(out)
        return code, answer

    def over(self, delivered: int, *, ends: bool, within: float = 120.0) -> str:
        """Its outcome, when so much is delivered; asked to end then, unless its sources do (`ends`)."""
        if not ends:
            eventually(
                lambda: self.output_bytes() >= delivered, f"{delivered} items are delivered", within=within
            )
            self.running()
            self.signal()
        return str(self.end(within)[1]["outcome"])

    def close(self) -> None:
        """End what still runs; everything that it started ends with it."""
        if self.launcher is not None and self.launcher.poll() is None:
            self.launcher.kill()
            self.launcher.wait()

    # --- what can be seen -----------------------------------------------------------------------------------

    def status(self) -> JobStatus | None:
        """What the coordinator wrote last."""
        return self.run_folder.status()

    def running(self, attempt: int = 1, within: float = 90.0) -> JobStatus:
        """Wait until all its workers and standbys run, in this attempt or a later one, as a coordinator says
        that lives."""
        wanted = self.spec["workers"]
        whole = (wanted["replicas"], wanted.get("standby", 0))

        def look() -> JobStatus | None:
            assert not self.ended, f"the job has ended\n{self.told()}"
            now = self.status()
            good = now is not None and now.phase == "running" and now.attempt >= attempt and alive(now.pid)
            return (
                now if good and now is not None and (len(now.workers), len(now.standbys)) == whole else None
            )

        return eventually(look, f"the job is whole and runs in attempt {attempt}", within=within) or _never()

    def output_bytes(self) -> int:
        """How much its files sinks hold: grows with everything that is delivered."""
        return sum(
            _size(file)
            for sink in self.spec["sinks"].values()
            for file in Path(self.path, sink["files"]["path"]).rglob("*.log")
        )

    def delivered(self, sink: str) -> list[Any]:
        """Every payload that a files sink holds, in the total order."""
        place = {"files": {"path": str(self.path / self.spec["sinks"][sink]["files"]["path"])}}
        return [payload for _, _, _, payload in sinks.read(place)]

    def ask(self, *arguments: str) -> tuple[int, Any]:
        """Another command, with --json: its exit code, and what it said."""
        command = _command(*arguments, "--json")
        done = subprocess.run(
            command, cwd=self.path, text=True, capture_output=True, timeout=300, check=False, env=ENVIRONMENT
        )
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def audit(self, *options: str) -> dict[str, Any]:
        """By the command, in a process of its own."""
        _, answer = self.ask("audit", str(self.run_folder.path), *options)
        assert isinstance(answer, dict) and "clean" in answer, f"no verdict: {answer}"
        return answer

    def told(self) -> str:
        """What its processes have said, for the message of a failed test."""
        files = [
            self.path / "stdout",
            self.path / "stderr",
            self.run_folder.status_file,
            *sorted(self.run_folder.logs.glob("*")),
        ]
        return "\n".join(
            f"--- {file.name}\n{file.read_text(errors='replace')[-2500:]}" for file in files if file.exists()
        )


@contextlib.contextmanager
def explained(job: CliJob, *more: object) -> Iterator[None]:
    """A test that fails inside says what the job's processes said."""
    try:
        yield
    except AssertionError as error:
        for note in (*more, job.told()):
            error.add_note(str(note))
        raise


def canonical(values: list[Any]) -> list[bytes]:
    """What is compared: payloads byte for byte."""
    return [codec.encode_many([value]) for value in values]


def _command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "flamestream.cli.main", *map(str, arguments)]


def _size(file: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return file.stat().st_size
    return 0


def _never() -> JobStatus:
    raise AssertionError("eventually gives a status or raises")
