"""What a job brings along for its pods: packages of its own, and a device that only some nodes have."""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator

import pytest

from e2e.conftest import fresh
from e2e.support.folders import FolderJob
from e2e.support.installation import Installation
from e2e.support.job import ROOT
from e2e.support.kube import Kube

DEVICE = "flamestream.test/device"
CODE = (ROOT / "examples" / "inverted_index.py").read_text()
OWN = CODE.replace("import re\n", "import re\nfrom folded import folded\n").replace(
    "document.text.lower()", "folded(document.text)"
)


def package() -> bytes:
    """An archive with the one module that the application imports."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(
            zipfile.ZipInfo("folded.py"), "def folded(text: str) -> str:\n    return text.casefold()\n"
        )
    return held.getvalue()


def test_a_package_on_a_volume_is_there_in_workers_audits_and_drills(
    installation: Installation, kube: Kube
) -> None:
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
    job.apply()
    job.wait_ready()
    status = job.drill("worker")
    assert (status["phase"], status["reason"]) == ("Passed", "Clean"), status
    assert json.loads(job.typed("audit", name, "--json"))["clean"]
    job.delete()


@pytest.fixture
def devices(kube: Kube) -> Iterator[None]:
    """Each node has two, as a device plugin would say."""
    nodes = [node["metadata"]["name"] for node in kube.list("Node")]
    for node in nodes:
        kube.patch("Node", node, {"status": {"capacity": {DEVICE: "2"}}}, part="status")
    yield
    for node in nodes:
        kube.patch("Node", node, {"status": {"capacity": {DEVICE: None}}}, part="status")


def test_workers_get_the_device_they_ask_for_and_a_job_says_when_there_is_none(
    installation: Installation, kube: Kube, devices: None
) -> None:
    job = FolderJob(kube, installation, fresh(), replicas=2, standby=0)
    job.extra = {
        "workers": {"replicas": 2, "standby": 0, "resources": {"limits": {DEVICE: "1", "memory": "1Gi"}}}
    }
    job.start()
    limits = [
        pod["spec"]["containers"][0]["resources"]["limits"]
        for pod in kube.list("Pod", job.selector("worker"))
    ]
    assert [each[DEVICE] for each in limits] == ["1", "1"]
    job.extra["workers"] = {**job.extra["workers"], "resources": {"limits": {DEVICE: "9", "memory": "1Gi"}}}
    job.apply()
    try:
        kube.wait(
            "FlameStreamJob", job.name, lambda it: DEVICE in json.dumps(it["status"]["conditions"]), 180
        )
    finally:
        job.delete()
