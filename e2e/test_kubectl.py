"""A user with a job that runs, at a machine of his own: `kubectl flamestream`, typed, and the page, looked at by a
Chromium."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import fresh
from e2e.support.folders import FolderJob
from e2e.support.installation import RELEASE, ROOT, SYSTEM, Installation
from e2e.support.kube import RBAC, Kube, until
from e2e.support.page import VIEWER, asked, forwarded, proxied, token

sys.path.append(str(ROOT / "tests"))
from support.browser import Browser  # it is the tests'

KEPT = ROOT / "artifacts" / "page"


@pytest.fixture(scope="module")
def job(installation: Installation, kube: Kube) -> Iterator[FolderJob]:
    made = FolderJob(kube, installation, fresh())
    made.start()
    made.wait_status("epoch")
    yield made
    made.delete()


def test_list_and_status_show_a_job_that_is_ready(job: FolderJob) -> None:
    assert f" {job.name} " in job.typed("list")
    shown = job.typed("status", job.name)
    for word in (
        "ready",
        "inverted_index.py:graph",
        "workers    2/2, 1 standby",
        "latency ",
        "snapshot ",
        "driver ",
    ):
        assert word in shown, shown
    status = json.loads(job.typed("status", job.name, "--json"))["job"]["status"]
    assert status["phase"] == "Running" and status["snapshot"]["size"] > 0 and status["latency"]["p50Ms"] > 0


def test_logs_are_of_all_pods_in_the_order_of_time(job: FolderJob) -> None:
    lines = job.typed("logs", job.name, "--tail", "20").splitlines()
    pods, times = {line.split()[0] for line in lines}, [line.split()[1] for line in lines]
    assert len(pods) >= 4, pods
    assert times == sorted(times)


def test_a_savepoint_by_name_is_complete_when_the_command_ends(job: FolderJob) -> None:
    name = f"typed-{job.name}"
    assert f"{name}: Completed, epoch" in job.typed("savepoint", job.name, "--name", name)
    job.kube.delete("FlameStreamSnapshot", name)


def test_a_drill_says_each_fault_and_the_verdict(job: FolderJob) -> None:
    said = job.typed("drill", job.name, "--kill", "worker", "--times", "2")
    assert said.count("whole again after") == 2, said
    assert "Passed: " in said and "0 lost, 0 doubled, 0 reordered" in said


def test_audit_and_cat_read_what_was_delivered(job: FolderJob) -> None:
    assert "0 lost, 0 doubled, 0 reordered" in job.typed("audit", job.name)
    found = json.loads(job.typed("audit", job.name, "--json"))
    assert found["clean"] and found["delivered"] > 0
    lines = job.typed("cat", "index", job.name, "--limit", "5").splitlines()
    assert len(lines) == 5 and all(json.loads(line) for line in lines)
    job.typed("cat", "no-such-sink", job.name, code=2)


def test_suspend_says_at_which_epoch_and_resume_waits(job: FolderJob) -> None:
    assert "at epoch" in job.typed("suspend", job.name)
    shown = job.typed("status", job.name, code=5)
    assert "Suspended" in shown and "suspended  at epoch" in shown
    job.typed("resume", job.name, "--wait")
    assert job.condition("Ready")["status"] == "True"


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
