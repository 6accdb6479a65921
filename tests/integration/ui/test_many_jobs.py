"""The list of a thousand jobs in a real Chromium, each of which changes every second: what is done for a change is what
has changed, and the page goes on to be used meanwhile."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flamestream.job.status import LatencyFigures
from flamestream.ui.server import STATIC
from support.browser import Browser
from support.operator.shown_cluster import ShownCluster, job
from support.operator.users import Users, looks
from support.runs.page import KEPT
from support.runs.shown_job import BEGAN, SECOND, status

JOBS = 1000
BEAT = 0.5
"""Seconds between two words of all coordinators."""
COUNT = "document.querySelectorAll('tbody tr').length"
SEEN = "[...document.querySelectorAll('tbody tr')].filter(each => !each.hidden).length"
WATCH = """
window.changes = { cells: 0, rows: 0 };
new MutationObserver(all => all.forEach(each => {
  window.changes.rows += each.target.tagName === 'TBODY' ? each.addedNodes.length : 0;
  window.changes.cells += each.target.tagName === 'TD' ? 1 : 0;
})).observe(document.querySelector('tbody'), { subtree: true, childList: true });
1"""


def name(number: int) -> str:
    return f"job-{number:04d}"


@contextmanager
def served() -> Iterator[ShownCluster]:
    """The page in a thread of its own."""
    made = ShownCluster(Users(*looks("root", "*")))
    for number in range(JOBS):
        made.runs(job(f"team-{number % 20}", name(number)))
    over, ready = threading.Event(), threading.Event()

    async def serve() -> None:
        async with made.served():
            ready.set()
            beat = 0
            while not over.is_set():
                beat += 1
                for number in range(JOBS):
                    made.said.jobs[f"team-{number % 20}.{name(number)}"] = status(
                        BEGAN + beat * SECOND, epoch=beat, cut_time=BEGAN,
                        latency=LatencyFigures(p50_ms=beat, p99_ms=number + beat, calls=1),
                    )  # fmt: skip
                await asyncio.sleep(BEAT)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(90)
        yield made
    finally:
        over.set()
        thread.join()


def test_a_thousand_jobs_change_and_only_what_changes_is_drawn(tmp_path: Path) -> None:
    if not (STATIC / "index.html").exists():
        pytest.skip("the page is not built: there is no Node 20 with npm")
    with served() as made, Browser(tmp_path / "profile") as browser:
        browser.wide(1280)
        browser.open(f"{made.address}/#token=root")
        browser.until(f"{COUNT} === {JOBS}")
        browser.value(WATCH)
        seen = browser.value("document.querySelectorAll('tbody tr')[999].children[5].textContent")
        browser.until(f"document.querySelectorAll('tbody tr')[999].children[5].textContent !== '{seen}'")
        browser.value("changes.cells = 0; 1")
        browser.until("changes.cells > 6000")
        assert browser.value("changes.rows") == 0, "no row was made anew"
        # Typed while all of them change: each letter is answered by the rows that have it.
        browser.value("document.querySelector('input[type=search]').focus(); 1")
        for letter in "0042":
            browser.call("Input.insertText", text=letter)
        browser.until(f"{SEEN} === 1")
        assert "team-2.job-0042" in browser.value(
            "document.querySelector('tbody tr:not([hidden])').textContent"
        )
        browser.screenshot(KEPT / "jobs-1000.png")
        browser.value(
            "const box = document.querySelector('input'); box.value = ''; box.dispatchEvent(new Event('input')); 1"
        )
        browser.until(f"{SEEN} === {JOBS}")
        made.cluster.jobs.forget(("team-2", name(42)))
        browser.until(f"{COUNT} === {JOBS - 1}")
        assert browser.faults == []
