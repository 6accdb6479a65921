"""The page of all jobs, as a user comes to it: a port-forward, a token, and a Chromium that looks at a job."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import fresh
from e2e.support.folders import FolderJob
from e2e.support.installation import RELEASE, ROOT, SYSTEM, Installation
from e2e.support.kube import RBAC, Kube, until

sys.path.append(str(ROOT / "tests"))
from support.browser import Browser  # it is the tests'

KEPT = ROOT / "artifacts" / "page"
VIEWER = f"{RELEASE}-viewer"


@pytest.fixture(scope="module")
def job(installation: Installation, kube: Kube) -> Iterator[FolderJob]:
    made = FolderJob(kube, installation, fresh())
    made.start()
    made.wait_status("epoch")
    yield made
    made.delete()


def token(account: str, namespace: str = SYSTEM) -> str:
    command = ["kubectl", "-n", namespace, "create", "token", account]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@contextmanager
def forwarded(what: str, port: int) -> Iterator[str]:
    """The address that leads there."""
    command = ["kubectl", "-n", SYSTEM, "port-forward", what, f":{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://{process.stdout.readline().split()[2]}"
        finally:
            process.kill()


@contextmanager
def proxied() -> Iterator[str]:
    """The address of the page behind `kubectl proxy`."""
    command = ["kubectl", "proxy", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            yield f"http://{address}/api/v1/namespaces/{SYSTEM}/services/{RELEASE}-ui:http/proxy"
        finally:
            process.kill()


def asked(
    address: str, path: str, shown: str, method: str = "GET", header: str = "Authorization"
) -> tuple[int, Any]:
    """Status and answer of the API. `shown` is in the header."""
    request = urllib.request.Request(f"{address}/api/v1{path}", method=method, headers={header: shown})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_chromium_sees_the_list_and_one_job(job: FolderJob, kube: Kube, tmp_path: Path) -> None:
    name = f"{kube.namespace}.{job.name}"
    with forwarded(f"service/{RELEASE}-ui", 80) as address, Browser(tmp_path / "profile") as browser:
        browser.wide(1280)
        browser.open(f"{address}/#token={token(VIEWER)}")
        browser.until(f"document.body.innerText.includes('{name}')")
        assert "Running" in browser.value("document.body.innerText")
        browser.screenshot(KEPT / "cluster-jobs.png")
        for view, there in (
            (
                "",
                "document.querySelectorAll('.vertex').length > 3 && document.querySelectorAll('.worker').length === 3",
            ),
            (
                "/time?span=60",
                "document.querySelectorAll('canvas').length === 3 && document.querySelector('td')",
            ),
            ("/logs", "document.querySelectorAll('.log li').length > 5"),
            ("/snapshots", "document.body.innerText.includes('committed: a start goes on from here')"),
        ):
            browser.value(f"location.hash = '#/jobs/{name}{view}'; 1")
            browser.until(there)
            browser.screenshot(KEPT / f"cluster-{view.strip('/').partition('?')[0] or 'job'}.png")
        assert browser.faults == []
        assert [url for url in browser.requested if not url.startswith((address, "about:"))] == []


def test_each_replica_gives_the_same_list(job: FolderJob, kube: Kube) -> None:
    pods = Kube(SYSTEM).list("Pod", "app.kubernetes.io/component=operator")
    assert len(pods) == 2
    shows = f"Bearer {token(VIEWER)}"
    for pod in pods:
        with forwarded(f"pod/{pod['metadata']['name']}", 7878) as address:
            code, found = asked(address, "/jobs", shows)
            assert code == 200, found
            (row,) = [row for row in found["jobs"] if row["job"] == f"{kube.namespace}.{job.name}"]
            assert row["p99_ms"] > 0 and row["workers"] == 2, "the leader's own figures"


def test_kubectls_proxy_leads_to_it_too(job: FolderJob, kube: Kube, tmp_path: Path) -> None:
    """It takes the header away that has a token; the page's cookie passes."""
    with proxied() as address, Browser(tmp_path / "profile") as browser:
        browser.open(f"{address}/#token={token(VIEWER)}")
        browser.until(f"document.body.innerText.includes('{kube.namespace}.{job.name}')")
        assert browser.faults == []


def test_rights_are_the_callers_own_and_who_may_drills_from_the_page(job: FolderJob, kube: Kube) -> None:
    path = f"/jobs/{kube.namespace}.{job.name}"
    drill = f"{path}/drill?kill=worker&after=0.5"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "driller"}}
    rules = [
        {"apiGroups": ["flamestream.dev"], "resources": ["flamestreamjobs"], "verbs": ["get"]},
        {"apiGroups": ["flamestream.dev"], "resources": ["flamestreamdrills"], "verbs": ["list", "create"]},
    ]
    role = {"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "driller"}, "rules": rules}
    subject = {"kind": "ServiceAccount", "name": "driller", "namespace": kube.namespace}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "driller"}
    meta = {"name": "driller"}
    bound = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": ref,
        "subjects": [subject],
    }
    with forwarded(f"service/{RELEASE}-ui", 80) as address:
        kube.apply(account)
        mine, viewers = f"Bearer {token('driller', kube.namespace)}", f"Bearer {token(VIEWER)}"
        assert asked(address, path, "Bearer made-up")[0] == 401
        assert asked(address, path, mine)[0] == 403
        assert asked(address, drill, viewers, "POST")[0] == 403, "who may look may not break"
        kube.apply(role, bound)
        until("the right counts", lambda: asked(address, path, mine)[0] == 200, 90)
        assert asked(address, f"{path}/logs", mine)[0] == 403
        code, ran = asked(address, drill, mine, "POST")
        assert (code, ran["state"]) == (202, "running"), ran
        until("the drill is over", lambda: asked(address, f"{path}/drill", mine)[1]["state"] == "done", 300)
        assert asked(address, f"{path}/drill", mine)[1]["answer"]["phase"] == "Passed"
        code, found = asked(address, f"{path}/figures", viewers)
        assert {"lost", "recovery"} <= {mark["kind"] for mark in found["marks"]}
