"""The page of a cluster in a real Chromium: all that is shown is text, and verdicts are drawn for who may see them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import pytest

from flamestream.job.status import LastRecovery, LatencyFigures, WorkerFigures
from flamestream.ui.server import STATIC
from support.browser import Browser
from support.operator.shown_cluster import ShownCluster, job, over, pod, record
from support.operator.users import Users, looks
from support.runs.shown_job import BEGAN, LOG_LINES, status

EVIL = "<img src=x onerror=alert(1)>"
NAME = f"sales{EVIL}"
VERTEX = {"id": 0, "kind": "source", "name": EVIL, "label": EVIL, "outputs": [], "keeps": "", "state": None}
DESCENT = {
    "sink": EVIL, "slot": 1, "bundle": 2, "meta": EVIL, "time": BEGAN, "payload": EVIL, "owner": EVIL, "saved": True,
    "vertices": [0], "source": EVIL, "position": 0, "released_after": BEGAN, "released_before": BEGAN, "written": 0,
    "partition": EVIL, "offset": 3, "records": 1, "record": {EVIL: EVIL},
}  # fmt: skip
DIFFERS = {
    "clean": False, "records": 90, "delivered": 89, "lost": 1, "epoch": 7, "firstDifference": EVIL, "input": EVIL,
    "bounds": EVIL,
}  # fmt: skip
FAULT = {
    "victim": EVIL,
    "time": "2026-11-27T10:00:05Z",
    "recoveredMs": 90,
    "recoveryMs": 80,
    "outputGapMs": 70,
}
SEEN = "document.body.innerText.split('onerror=alert').length - 1"
VIEWS = {
    "jobs": ("#/", 2),
    "job": (f"#/jobs/{quote('shop.' + NAME)}", 6),
    "time": ("time", 5),
    "audit": ("audit", 3),
    "item": (f"item?text={quote(EVIL)}", 6),
    "snapshots": ("snapshots", 1),
    "logs": ("logs", 2),
    "drill": ("drill", 2),
}
"""A URL of each view, or its part behind the job's; and in how many places at least it says a hostile text."""


def hostile() -> ShownCluster:
    """A job whose every text is markup that would run a script. `root` sees all of it, `ann` no drills."""
    rights = [each for each in looks("ann", "shop") if each[2] != "flamestreamdrills"]
    made = ShownCluster(Users(*looks("root", "*"), ("root", "create", "pods", "*"), *rights))
    told = status(
        message=EVIL, problems=[EVIL], workers=[WorkerFigures(worker=EVIL, connected=True, problem=EVIL)],
        standbys=[EVIL + "2"], last_recovery=LastRecovery(cause=EVIL, duration_ms=10, kind="lost", attempt=2),
        latency=LatencyFigures(p50_ms=1, p99_ms=2, calls=1),
    )  # fmt: skip
    made.runs(job("shop", NAME, message=EVIL), told=told)
    made.cluster.put_pod(pod("shop", "driver", NAME, "driver"))
    line = {
        "at": "2026-11-27T10:00:01.000+00:00",
        "level": "error",
        "event": EVIL,
        "traceback": EVIL,
        EVIL: EVIL,
    }
    plan = {
        "vertices": [VERTEX],
        "functions": [{"vertex": 0, "role": EVIL, "function": EVIL, "why_python": EVIL}],
    }
    made.users.logs["driver"] = [json.dumps(line), json.dumps({"event": "graph", "plan": plan})]
    for each in LOG_LINES:
        made.history.handle(record(f"shop.{NAME}", json.loads(each) | {"worker": EVIL, "reason": EVIL}))
    broke = over(
        "broke" + EVIL, "10:00", 1, NAME, phase="Failed", reason="NotClean", message=EVIL, faults=[FAULT]
    )
    made.cluster.drills.put({**broke, "status": {**broke["status"], "audit": DIFFERS}})
    kept = {"phase": "Completed", "epoch": 5, "time": "2026-11-27T10:00:00Z"}
    meta = {"namespace": "shop", "name": EVIL, "uid": "s"}
    made.cluster.snapshots.put({"metadata": meta, "spec": {"job": NAME}, "status": kept})
    made.readers.said = json.dumps({"traced": [DESCENT]})
    return made


@dataclass(frozen=True, slots=True)
class Page:
    """A browser that looks at the page of a cluster."""

    cluster: ShownCluster
    browser: Browser

    def enter(self, user: str) -> None:
        """Open it as this user."""
        self.browser.open("about:blank")
        self.browser.open(f"{self.cluster.address}/#token={user}")
        self.browser.until("document.querySelector('tbody tr')")

    def view(self, path: str) -> None:
        whole = path if path.startswith("#") else f"#/jobs/{quote('shop.' + NAME)}/{path}"
        self.browser.value(f"location.hash = {json.dumps(whole)}; 1")

    def rows(self) -> list[list[str]]:
        """Kind and text of each mark."""
        row = "[...row.children].slice(1, 3).map(each => each.innerText)"
        found: list[list[str]] = self.browser.value(
            f"[...document.querySelectorAll('tbody tr')].map(row => {row})"
        )
        return found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if not (STATIC / "index.html").exists():
        pytest.skip("the page is not built: there is no Node 20 with npm")
    made = hostile()
    with made.in_a_thread(), Browser(tmp_path_factory.mktemp("texts") / "profile") as browser:
        browser.wide(1280)
        page = Page(made, browser)
        page.enter("root")
        yield page


@pytest.mark.parametrize("view", VIEWS)
def test_markup_in_a_name_a_cause_a_line_or_a_payload_is_only_a_text(page: Page, view: str) -> None:
    path, places = VIEWS[view]
    page.view(path)
    if view == "item":
        page.browser.until("document.querySelector('form button.main')")
        page.browser.value("document.querySelector('form').requestSubmit(); 1")
    page.browser.until(f"{SEEN} >= {places}")
    assert page.browser.value("document.querySelectorAll('img').length") == 0
    assert page.browser.faults == []


def test_a_drill_its_faults_and_its_audit_are_marks_of_time(page: Page) -> None:
    page.view("time")
    page.browser.until("[...document.querySelectorAll('td')].some(each => each.textContent === 'audit')")
    told = page.rows()
    assert ["audit", "differs: 89 results, 1 lost, 0 doubled, 0 reordered"] in told
    assert ["drill", f"Failed: {EVIL}"] in told
    assert ["drill", f"{EVIL} was struck: whole again after 80.0 ms, without output for 70.0 ms"] in told


def test_who_may_not_see_drills_sees_no_verdict_in_time(page: Page) -> None:
    page.enter("ann")
    page.view("time")
    page.browser.until("document.querySelector('td')")
    page.browser.until("performance.getEntriesByType('resource').some(each => each.name.endsWith('/drill'))")
    assert {kind for kind, _ in page.rows()} == {"coordinator", "started", "worker lost", "recovery"}
