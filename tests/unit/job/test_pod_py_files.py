"""`pyFiles` in a pod: what a driver finds in its folder, and tells its workers; the trial of new code reads
the same."""

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from flamestream.job import unpacked
from flamestream.job.application import load
from flamestream.job.validation import checked_job
from flamestream.node.worker_process import WorkerProcessConfig
from flamestream.spark.streaming.driver_config import DriverConfig, read_job
from flamestream.spark.streaming.driver_work import _told
from flamestream.store.zookeeper_access import ZooKeeperAccess
from flamestream_operator.tools.preflight_main import verdict
from support.runs.job_folder import JobFolder

APPLICATION = """\
import flamestream as fs
from pod_library import shout

graph = fs.Graph("upper")
graph.source("lines").map(shout).sink("shouts")
"""
CONFIG = DriverConfig(
    job="n.j", coordinator="c:1", tasks=1, image="i", image_pull_policy="Never", pod_name_prefix="p"
)


@pytest.fixture
def pod(job: JobFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A driver's folder. The application's file is in an archive on a volume."""
    monkeypatch.setattr(unpacked, "ROOM", tmp_path / "room" / "py-files")
    monkeypatch.setattr(unpacked, "_held", {})
    (tmp_path / "volume").mkdir()
    with zipfile.ZipFile(tmp_path / "volume" / "app.zip", "w") as made:
        made.writestr(f"{job.module}.py", APPLICATION)
        made.writestr("pod_library.py", "def shout(text):\n    return text.upper()\n")
    spec = {
        "application": {
            "file": f"{job.module}.py",
            "graph": "graph",
            "pyFiles": [str(tmp_path / "volume" / "app.zip")],
        },
        "sources": {"lines": {"files": {"path": "/in"}}},
        "sinks": {"shouts": {"files": {"path": "/out"}}},
        "workers": {"replicas": 1},
        "checkpoint": {"interval": "1s", "store": "s3://bucket/j"},
    }
    manifest = {
        "apiVersion": "flamestream.dev/v1alpha1",
        "kind": "FlameStreamJob",
        "metadata": {"name": "j"},
        "spec": spec,
    }
    config = tmp_path / "config"
    config.mkdir()
    (config / "job.json").write_text(json.dumps(manifest))
    (config / "driver-a.json").write_bytes(msgspec.json.encode(CONFIG))
    yield config
    sys.modules.pop("pod_library", None)


def test_a_worker_elsewhere_is_told_by_content_what_it_needs(
    pod: Path, tmp_path: Path, job: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = msgspec.json.decode(
        _told(CONFIG, checked_job(read_job(pod, tmp_path / "base")), "t", ZooKeeperAccess("z:1", "n.j:x")),
        type=WorkerProcessConfig,
    )
    monkeypatch.setattr(unpacked, "ROOM", tmp_path / "another pod" / "py-files")
    (tmp_path / "another pod").mkdir(mode=0o700)
    unpacked._held.clear()
    for name in (job.module, "pod_library"):
        del sys.modules[name]
    assert load(Path(told.application), told.graph, told.py_files).name == "upper"
    assert "another pod" in str(sys.modules["pod_library"].__file__)


def test_the_trial_of_new_code_says_which_file_is_missing(pod: Path, tmp_path: Path) -> None:
    (tmp_path / "volume" / "app.zip").unlink()
    said = verdict(pod)
    assert (said["ok"], said["passing"]) == (False, False)
    assert "spec.application.pyFiles.0: " in said["message"]
    assert "app.zip cannot be read" in said["message"]
