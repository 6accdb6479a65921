"""The page beside a running job, in a real Chromium: each view, a kill that is watched, an audit and a drill that are
started from it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.eventually import eventually
from support.runs.page import KEPT, Page, looked_at

CHARTS = "document.querySelectorAll('canvas').length === 3 && document.querySelector('td')"
VIEWS = {
    "jobs": ("#/", "document.querySelector('tbody tr td')?.textContent === 'running'"),
    "job": ("#/jobs/job", "document.querySelectorAll('.vertex').length === 6"),
    "time": ("#/jobs/job/time?span=60", CHARTS),
    "audit": ("#/jobs/job/audit", "document.body.innerText.includes('No audit')"),
    "item": ("#/jobs/job/item?text=shop7", "document.querySelector('.descent')"),
    "snapshots": ("#/jobs/job/snapshots", "document.body.innerText.includes('committed')"),
    "logs": ("#/jobs/job/logs", "document.querySelectorAll('.log li').length > 3"),
    "drill": ("#/jobs/job/drill", "document.querySelector('button.danger')"),
}  # fmt: skip
"""A URL of each view, and what is true when it shows something."""
THEMES = ("light", "dark")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with looked_at(tmp_path_factory.mktemp("page")) as made:
        made.browser.wide(1280)
        yield made


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shows_the_job_and_nothing_is_wrong_with_it(page: Page, name: str) -> None:
    path, there = VIEWS[name]
    for theme in THEMES:
        page.browser.value(
            f"localStorage.setItem('theme', '{theme}'); document.documentElement.dataset.theme = '{theme}'"
        )
        page.view("#/jobs/job/nothing")
        page.view(path)
        page.browser.until(there)
        page.browser.screenshot(KEPT / f"{name}-{theme}.png")
        assert page.faults_of_axe() == []
    assert page.browser.faults == []


def test_each_worker_has_its_share_of_the_slots(page: Page) -> None:
    page.view("#/jobs/job")
    page.browser.until("document.querySelectorAll('.slots span').length === 2")
    parts = page.browser.value(
        "[...document.querySelectorAll('.slots span')].map(each => Number(each.textContent))"
    )
    assert sum(parts) == 64 and min(parts) == 32
    told = "document.querySelector('.standby')?.innerText.includes('standby, warm')"
    page.browser.until(told)


def test_each_edge_says_what_it_carries_and_each_state_how_much_it_keeps(page: Page) -> None:
    page.view("#/jobs/job")
    rates = "[...document.querySelectorAll('.along')].map(each => each.textContent)"
    page.browser.until(f"{rates}.length === 5 && {rates}.every(each => /^[0-9].* [/]s$/.test(each))")
    page.browser.until("document.querySelector('.vertex.reduce').textContent.includes('40 keys')")
    named = {each.operation.split()[-1]: each for each in page.job.running().operations}
    lines, parsed, large = named["lines"], named["parsed"], named["large"]
    assert lines.items_out == parsed.items_in == parsed.items_out, "a map makes one of one"
    assert 0 < large.items_in < parsed.items_out / 5, "a tenth of all sales are large"
    assert large.items_out == 0 and lines.item_us


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_fits_a_telephone(page: Page, name: str) -> None:
    path, there = VIEWS[name]
    page.browser.wide(375)
    try:
        page.view(path)
        page.browser.until(there)
        page.browser.screenshot(KEPT / f"{name}-375.png")
        assert page.browser.value("document.documentElement.scrollWidth") <= 375
    finally:
        page.browser.wide(1280)


def test_an_item_says_which_attempt_its_run_entered_in(page: Page) -> None:
    page.view("#/jobs/job/item?text=shop7")
    page.browser.until("document.querySelector('.descent')")
    attempt = page.job.running().attempt
    assert f"attempt\n{attempt} (" in page.text()
    assert "as its sink has written down" in page.text(), "when it was released"


def test_a_kill_is_watched(page: Page) -> None:
    page.view("#/jobs/job/time?span=60")
    status = page.job.running()
    victim = status.workers[0].worker
    identity = page.job.run_folder.worker(victim)
    assert identity is not None
    os.kill(identity.pid, signal.SIGKILL)
    page.browser.until(f"document.body.innerText.includes('attempt {status.attempt + 1}: lost {victim}')")
    told = page.text()
    assert f"{victim} is gone" in told
    assert f"attempt {status.attempt + 1}: lost {victim}" in told
    assert "record" in told and "seal" in told
    page.browser.screenshot(KEPT / "time-kill.png")
    page.view("#/jobs/job")
    page.browser.until(f"document.body.innerText.includes('Last recovery: lost {victim}')")
    assert page.browser.faults == []


def test_an_audit_is_started_and_its_verdict_is_the_headline(page: Page) -> None:
    page.view("#/jobs/job/audit")
    page.browser.until("document.querySelector('button.main')")
    page.browser.value("document.querySelector('button.main').click()")
    page.browser.until("document.querySelector('.verdict')")
    assert page.browser.value("document.querySelector('.verdict').textContent") == "Clean"
    assert "0 lost, 0 doubled, 0 reordered" in page.text()
    page.browser.screenshot(KEPT / "audit-clean.png")
    assert page.faults_of_axe() == []


def test_a_drill_is_started_and_its_verdict_is_shown(page: Page) -> None:
    page.job.running()
    page.view("#/jobs/job/drill")
    page.browser.until("document.querySelector('button.danger')?.disabled === false")
    page.browser.value("document.querySelector('button.danger').click()")
    page.browser.until("document.querySelector('.verdict')")
    assert "Passed" in page.browser.value("document.querySelector('.verdict').textContent")
    page.browser.screenshot(KEPT / "drill-passed.png")
    assert page.faults_of_axe() == []


def test_time_is_zoomed_by_keys_and_the_url_says_so(page: Page) -> None:
    page.view("#/jobs/job/time?span=60")
    page.browser.until(CHARTS)
    for key in ("+", "ArrowLeft"):
        page.browser.call(
            "Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else ""
        )
    page.browser.until("location.hash.includes('from=')")
    page.browser.call("Input.dispatchKeyEvent", type="keyDown", key="0", text="0")
    page.browser.until("location.hash.includes('span=60')")


def test_all_of_time_is_exported_as_one_picture(page: Page, tmp_path: Path) -> None:
    page.view("#/jobs/job/time?span=60")
    page.browser.until(CHARTS)
    page.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.browser.value(
        "[...document.querySelectorAll('button')].find(each => each.textContent === 'Export PNG').click()"
    )
    file = eventually(lambda: next(tmp_path.glob("*.png"), None), "a picture is there")
    assert file.read_bytes().startswith(b"\x89PNG")


def test_nothing_is_asked_of_another_server(page: Page) -> None:
    base = page.address.partition("#")[0]
    assert [url for url in page.browser.requested if not url.startswith((base, "blob:", "about:"))] == []
    assert page.browser.value("location.hash").startswith("#/")
    assert "token" not in page.browser.value("location.href")
