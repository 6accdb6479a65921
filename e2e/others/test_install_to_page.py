"""From `helm install` to the page, by the three commands of docs/how-to/ui.md as they stand: they are typed, and the
address that they print shows the cluster's jobs."""

import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator

import pytest

from e2e.conftest import fresh
from e2e.support.external_metrics import thing
from e2e.support.folders import FolderJob
from e2e.support.installation import Installation, install, uninstall
from e2e.support.job import ROOT
from e2e.support.kube import Kube, until
from e2e.support.page import asked
from support.docs.doc_blocks import blocks

pytestmark = pytest.mark.skipif(
    "E2E_LOAD" not in os.environ,
    reason="the cluster has no image of the chart's own name: E2E_LOAD brings it",
)


@pytest.fixture
def nothing(installation: Installation, kube: Kube) -> Iterator[None]:
    """A cluster without the chart, whose claims get a volume without being asked for a class."""
    uninstall()
    usual = {"storageclass.kubernetes.io/is-default-class": "true"}
    kube.apply(
        {
            **thing("storage.k8s.io/v1", "StorageClass", "flamestream-e2e"),
            "metadata": {"name": "flamestream-e2e", "annotations": usual},
            "provisioner": "kubernetes.io/no-provisioner",
        }
    )
    yield
    uninstall()
    install(kube.namespace)  # for the modules behind this one


@pytest.fixture
def printed(nothing: None) -> Iterator[str]:
    """What the commands print, while what they began goes on."""
    (typed,) = [each.text for each in blocks() if each.name.startswith("ui.md: helm upgrade --install")]
    command = ["bash", "-euc", typed]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.wait(300) == 0
            assert process.stdout is not None
            yield next(line.strip() for line in process.stdout if line.startswith("http://"))
        finally:
            os.killpg(process.pid, signal.SIGTERM)


def test_three_commands_lead_from_nothing_to_a_page_that_shows_a_job(
    installation: Installation, kube: Kube, printed: str
) -> None:
    address, _, shown = printed.partition("/#token=")
    job = FolderJob(kube, installation, fresh())
    store = {"interval": "1s", "store": "s3://bucket/typed", "secret": "keys"}
    job.apply(checkpoint=store, pods=None)  # it waits for its ConfigMap, which nobody makes
    try:
        with urllib.request.urlopen(f"{address}/", timeout=60) as page:
            assert b"<html" in page.read()

        def listed() -> list[str]:
            status, answer = asked(address, "/jobs", f"Bearer {shown}")
            assert status == 200, answer
            return [each["job"] for each in answer["jobs"]]

        until("the page has the job", lambda: f"{kube.namespace}.{job.name}" in listed(), 60)
    finally:
        job.delete()
