"""What a job brings along for its pods: packages of its own, and a device that only some nodes have."""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator

import pytest

from e2e.conftest import fresh
from e2e.support.folders import ROOT, FolderJob
from e2e.support.installation import Installation
from e2e.support.kube import Kube, until

DEVICE = "flamestream.test/device"
CODE = (ROOT / "examples" / "inverted_index.py").read_text()
OWN = CODE.replace("import re\n", "import re\nfrom folded import folded\n").replace("document.text.lower()", "folded(document.text)")


def package() -> bytes:
    """An archive with the one module that the application imports."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(zipfile.ZipInfo("folded.py"), "def folded(text: str) -> str:\n    return text.casefold()\n")
    return held.getvalue()


def test_a_package_on_a_volume_is_there_in_workers_audits_and_drills(installation: Installation, kube: Kube) -> None:
    assert OWN != CODE
    held, name = package(), fresh()
    job = FolderJob(kube, installation, name)
    pinned = f"{job.folder(name)}/folded.zip#sha256={hashlib.sha256(held).hexdigest()}"
    application = {**job.manifest()["spec"]["application"], "pyFiles": [pinned]}
    job.extra = {"application": application}
    kube.apply(installation.secret(), job.application(OWN))
    job.write(10)
    code = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_bytes(bytes.fromhex(sys.argv[2]))"
    kube.execute(f"{name}-writer", "python3", "-c", code, f"{job.folder(name)}/folded.zip", held.hex())
    kube.apply(job.manifest())
    job.wait_ready()
    status = job.drill("worker")
    assert (status["phase"], status["reason"]) == ("Passed", "Clean"), status
    assert json.loads(job.typed("audit", name, "--json"))["clean"]
    job.delete()


@pytest.fixture
def devices(kube: Kube) -> Iterator[None]:
    """Each node has two, as a device plugin would say."""
    nodes = [node["metadata"]["name"] for node in kube.list("nodes")]
    key = DEVICE.replace("/", "~1")
    for node in nodes:
        _patch(kube, node, {"op": "add", "path": f"/status/capacity/{key}", "value": "2"})
    yield
    for node in nodes:
        _patch(kube, node, {"op": "remove", "path": f"/status/capacity/{key}"})


def _patch(kube: Kube, node: str, change: dict[str, str]) -> None:
    kube.run("patch", "node", node, "--subresource=status", "--type=json", "--patch", json.dumps([change]))


def test_workers_get_the_device_they_ask_for_and_a_job_says_when_there_is_none(
    installation: Installation, kube: Kube, devices: None
) -> None:
    job = FolderJob(kube, installation, fresh(), replicas=2, standby=0)
    job.extra = {"workers": {"replicas": 2, "standby": 0, "resources": {"limits": {DEVICE: "1", "memory": "1Gi"}}}}
    job.start()
    selector = f"flamestream.dev/job={job.name},flamestream.dev/role=worker"
    limits = [pod["spec"]["containers"][0]["resources"]["limits"] for pod in kube.list("pods", selector)]
    assert [each[DEVICE] for each in limits] == ["1", "1"]
    job.extra["workers"] = {**job.extra["workers"], "resources": {"limits": {DEVICE: "9", "memory": "1Gi"}}}
    kube.apply(job.manifest())
    try:
        until("its conditions name it", lambda: DEVICE in json.dumps(job.status().get("conditions", [])), 180, 1.0)
    finally:
        job.delete()
