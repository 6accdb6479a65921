"""Argo CD's word for a job through its life: its own reading of its ConfigMap, as the command of docs/how-to/gitops.md
leaves that, and its own health of a resource."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from e2e.conftest import fresh
from e2e.support.folders import FolderJob
from e2e.support.installation import Installation
from e2e.support.job import ROOT, config_map
from e2e.support.kube import Kube, Object, condition_of
from support.docs.doc_blocks import blocks
from support.operator.gitops import argo_cd


@pytest.fixture(scope="module")
def settings() -> Iterator[Object]:
    """The ConfigMap argocd-cm of a new Argo CD, once the command was typed."""
    if shutil.which("jq") is None:
        pytest.skip("no jq: the command needs it")
    (command,) = [each.text for each in blocks() if each.name.startswith("gitops.md: kubectl -n argocd")]
    argocd = Kube("argocd")
    argocd.make_namespace()
    try:
        argocd.apply(config_map("argocd-cm", {}, {"app.kubernetes.io/part-of": "argocd"}))
        subprocess.run(["bash", "-euc", command], cwd=ROOT, check=True, timeout=60)
        found = argocd.get("ConfigMap", "argocd-cm")
        assert found is not None
        yield found
    finally:
        argocd.unmake_namespace()


def test_argo_cd_says_of_a_job_what_it_does(installation: Installation, kube: Kube, settings: Object) -> None:
    job = FolderJob(kube, installation, fresh(), replicas=1, standby=0)

    def becomes(health: str, within: float = 180) -> list[str]:
        """Until Argo CD says so of it: what it says before."""
        said: list[str] = []

        def so(there: Object) -> bool:
            said.append(argo_cd(settings, there)[0])
            return said[-1] == health

        kube.wait("FlameStreamJob", job.name, so, within)
        return said[:-1]

    try:
        kube.apply(installation.secret(), job.application())
        job.write(10)
        job.apply()
        before = becomes("Healthy")
        assert before and set(before) == {"Progressing"}
        kube.apply(job.application("no_such_name"))
        assert set(becomes("Degraded")) <= {"Healthy", "Progressing"}, (
            "code that is refused: the stream goes on"
        )
        there = kube.get("FlameStreamJob", job.name) or {}
        assert argo_cd(settings, there)[1] == condition_of(there, "Stalled")["message"] != ""
        kube.apply(job.application())
        becomes("Healthy")
        job.apply(suspend=True)
        assert set(becomes("Suspended")) <= {"Progressing"}
        job.apply()
        assert set(becomes("Healthy")) <= {"Progressing"}
    finally:
        job.delete()
