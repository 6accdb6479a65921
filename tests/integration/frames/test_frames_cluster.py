"""The DataFrame runners where Spark's tasks run in other JVMs than the driver: whatever is needed there must
get there.

Two workers of Spark with an executor each, every process with a folder of its own to work in. The manifest's
paths are relative, so a path that is not made absolute before it travels is found out.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flamestream.connectors import sinks, sources
from flamestream.connectors.recorded import RecordedSource
from flamestream.core.protocol.settings import FrontSettings
from flamestream.job.application import load
from flamestream.job.exit_codes import ExitCode
from flamestream.model import payload as codec
from flamestream.model.ids import SourceName
from flamestream.model.time import END, FrontId
from flamestream.reference import interpret
from support.docs.examples import EXAMPLES
from support.documents import texts
from support.eventually import eventually
from support.processes import descendants
from support.runs.cli_job import ENVIRONMENT

pytestmark = [pytest.mark.spark, pytest.mark.frames, pytest.mark.slow]
EXECUTOR = "CoarseGrainedExecutorBackend"
MASTER = "local-cluster[2,1,1024]"


class ClusterJob:
    """The inverted index over a folder of documents."""

    def __init__(self, folder: Path, guarantee: str) -> None:
        self._folder = folder
        (folder / "docs").mkdir()
        for number, text in enumerate(texts(30)):
            (folder / "docs" / f"{number:02d}.txt").write_text(text)
        (folder / "inverted_index.py").write_text((EXAMPLES / "inverted_index.py").read_text())
        spec = {
            "application": {"file": "inverted_index.py", "graph": "graph"},
            "sources": {"docs": {"files": {"path": "docs"}}},
            "sinks": {"index": {"files": {"path": "index", "fsync": False}}},
            "guarantee": guarantee,
            "workers": {"replicas": 2, "slots": 16},
            "checkpoint": {"interval": "200ms", "store": "store"},
            "spark": {
                "master": MASTER,
                "conf": {"spark.executor.memory": "512m", "spark.executor.cores": "1"},
            },
        }
        document = {
            "apiVersion": "flamestream.dev/v1alpha1",
            "kind": "FlameStreamJob",
            "metadata": {"name": "index"},
            "spec": spec,
        }
        (folder / "job.yaml").write_text(json.dumps(document))

    def answer(self, *arguments: str) -> Any:
        """What a command says that ran on two executors."""
        line = [sys.executable, "-m", "flamestream.cli.main", *arguments, "job.yaml", "--json"]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = subprocess.Popen(line, cwd=self._folder, text=True, env=ENVIRONMENT, **pipes)
        try:
            eventually(
                lambda: self._executors(command.pid) == 2 or command.poll() is not None,
                "two executors",
                within=60,
            )
            assert command.poll() is None, command.communicate()
            said, errors = command.communicate(timeout=120)
        finally:
            command.kill()
        assert command.returncode == ExitCode.OK, said + errors
        return json.loads(said)

    @staticmethod
    def _executors(launcher: int) -> int:
        return sum(EXECUTOR in _command_line(pid) for pid in descendants(launcher))

    def check(self) -> int:
        """Every byte is the reference's. How many items there are."""
        spec = {"files": {"path": str(self._folder / "docs")}}
        traits = sources.describe(spec)
        front = FrontSettings(
            FrontId(0), SourceName("docs"), traits.timed, traits.run_length, traits.replayable
        )
        results = interpret(
            load(EXAMPLES / "inverted_index.py", "graph"), RecordedSource("index", front, spec).below(END)
        )
        expected = [(bytes(meta), codec.encode(payload)) for meta, payload in results["index"]]
        delivered = sinks.read({"files": {"path": str(self._folder / "index")}})
        assert [(bytes(meta), codec.encode(payload)) for meta, _, _, payload in delivered] == expected
        return len(expected)


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_batch_and_its_audit_in_several_jvms(tmp_path: Path) -> None:
    job = ClusterJob(tmp_path, "exactly-once")
    assert job.answer("run", "--runner", "batch")["delivered"] == job.check() > 0
    audit = job.answer("audit", "--spark")
    assert audit["clean"] and audit["verdict"]["delivered"] == job.check()


def test_micro_batches_in_several_jvms(tmp_path: Path) -> None:
    job = ClusterJob(tmp_path, "micro-batch")
    assert job.answer("run", "--runner", "micro-batch")["outcome"] == "completed"
    assert job.check() > 0
