"""A user with a job that runs, at a machine of his own: `kubectl flamestream`, typed, and the page, looked at by a
Chromium."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import flamestream as fs
from e2e.conftest import fresh
from e2e.support.folders import FolderJob
from e2e.support.installation import RELEASE, ROOT, SYSTEM, Installation
from e2e.support.kube import RBAC, Kube, Object, until
from e2e.support.page import VIEWER, asked, forwarded, proxied, token

sys.path.append(str(ROOT / "tests"))
from support.browser import Browser  # it is the tests'

KEPT = ROOT / "artifacts" / "page"
JOBS = {"apiGroups": ["flamestream.dev"], "resources": ["flamestreamjobs"], "verbs": ["get"]}
DRILLS = {"apiGroups": ["flamestream.dev"], "resources": ["flamestreamdrills"], "verbs": ["list", "create"]}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}


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
    found = json.loads(job.typed("audit", job.name, "--definitions", "--json"))
    assert found["clean"] and found["delivered"] > 0
    formal = [row["printed"] for row in found["definitions"]]
    assert "holds" in formal and "broken" not in formal, found["definitions"]
    lines = job.typed("cat", "index", job.name, "--limit", "5").splitlines()
    assert len(lines) == 5 and all(json.loads(line) for line in lines)
    job.typed("cat", "no-such-sink", job.name, code=2)


def test_suspend_says_at_which_epoch_and_resume_waits(job: FolderJob) -> None:
    assert "at epoch" in job.typed("suspend", job.name)
    shown = job.typed("status", job.name, code=5)
    assert "Suspended" in shown and "suspended  at epoch" in shown
    job.typed("resume", job.name, "--wait")
    assert job.condition("Ready")["status"] == "True"


def account_with(kube: Kube, name: str, *rules: Object) -> list[Object]:
    """An account, and its rights in the namespace."""
    meta, subject = {"name": name}, {"kind": "ServiceAccount", "name": name, "namespace": kube.namespace}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": RBAC, "kind": "Role", "metadata": meta, "rules": list(rules)},
        {
            "apiVersion": RBAC,
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": ref,
            "subjects": [subject],
        },
    ]


def words_of(job: FolderJob) -> str:
    """A text that is in an item, as `cat` prints it."""
    return job.typed("cat", "index", job.name, "--limit", "1").strip()[1:-1]


def test_trace_says_which_record_an_item_comes_from_and_when_it_left(job: FolderJob) -> None:
    text = words_of(job)
    (found,) = json.loads(job.typed("trace", job.name, text, "--limit", "1", "--json"))
    assert found["records"] > found["position"] and found["vertices"]
    assert found["time"] <= found["released_after"] <= found["released_before"]
    said = job.typed("trace", job.name, text, "--limit", "1")
    assert "  released " in said and "  from " in said
    job.typed("trace", job.name, text, "--sink", "no-such-sink", code=2)


def test_the_page_traces_audits_and_shows_what_a_terminal_has_audited(
    job: FolderJob, kube: Kube, tmp_path: Path
) -> None:
    """By an account that may make pods and drills; as in a browser."""
    name, text = f"{kube.namespace}.{job.name}", words_of(job)
    path = f"/jobs/{name}"
    kube.apply(*account_with(kube, "asker", JOBS, DRILLS, PODS))
    with forwarded(f"service/{RELEASE}-ui", 80) as address, Browser(tmp_path / "profile") as browser:
        mine = token("asker", kube.namespace)
        until("the right counts", lambda: asked(address, path, f"Bearer {mine}")[0] == 200, 90)
        assert asked(address, f"{path}/item?text=a", f"Bearer {token(VIEWER)}", "POST")[0] == 403
        browser.wide(1280)
        browser.open(f"{address}/#token={mine}&/jobs/{name}/item")
        browser.until("document.querySelector('input[name=text]')")
        browser.value(f"document.querySelector('input[name=text]').value = {json.dumps(text)}; 1")
        browser.value("document.querySelector('form').requestSubmit(); 1")
        browser.until("document.querySelector('.descent')", 120)
        assert "released" in browser.value("document.querySelector('.descent').innerText")
        browser.screenshot(KEPT / "cluster-item.png")
        pods = [pod["metadata"]["name"] for pod in kube.list("Pod", f"flamestream.dev/job={job.name}")]
        until("its pod is gone", lambda: not [each for each in pods if "-trace-" in each], 30)
        browser.value(f"location.hash = '#/jobs/{name}/audit'; 1")
        browser.until(
            "document.querySelector('button.main') && !document.querySelector('button.main').disabled"
        )
        browser.value("document.querySelector('button.main').click(); 1")
        browser.until("document.querySelector('.verdict')", 240)
        assert browser.value("document.querySelector('.verdict').innerText") == "Clean"
        assert "By drill" in browser.value("document.body.innerText")
        browser.screenshot(KEPT / "cluster-audit.png")
        assert browser.faults == []
        job.typed("audit", job.name)

        def shown() -> str:
            return str(asked(address, f"{path}/audit", f"Bearer {mine}")[1]["answer"]["said"][0])

        until("the terminal's is the last", lambda: "kubectl" in shown(), 30)


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
    account, *rights = account_with(kube, "driller", JOBS, DRILLS)
    with forwarded(f"service/{RELEASE}-ui", 80) as address:
        kube.apply(account)
        mine, viewers = f"Bearer {token('driller', kube.namespace)}", f"Bearer {token(VIEWER)}"
        assert asked(address, path, "Bearer made-up")[0] == 401
        assert asked(address, path, mine)[0] == 403
        assert asked(address, drill, viewers, "POST")[0] == 403, "who may look may not break"
        kube.apply(*rights)
        until("the right counts", lambda: asked(address, path, mine)[0] == 200, 90)
        assert asked(address, f"{path}/logs", mine)[0] == 403
        code, ran = asked(address, drill, mine, "POST")
        assert (code, ran["state"]) == (202, "running"), ran
        until("the drill is over", lambda: asked(address, f"{path}/drill", mine)[1]["state"] == "done", 300)
        assert asked(address, f"{path}/drill", mine)[1]["answer"]["phase"] == "Passed"
        code, found = asked(address, f"{path}/figures", viewers)
        assert {"lost", "recovery"} <= {mark["kind"] for mark in found["marks"]}
        assert found["samples"][0][0] < ran["began"], "the leader keeps the hour, whoever has looked before"
        with fs.connect(f"{address}/api/v1{path}", token=token(VIEWER)) as seen:
            rows, shown = seen.latency(), seen._repr_html_()
        assert rows["recovering"].any() and "latency by the second around the last recovery" in shown
        KEPT.mkdir(parents=True, exist_ok=True)
        (KEPT / "notebook-cluster.html").write_text(shown)
