"""The page beside a running job, in a real Chromium: each view, a kill that is watched, an audit and a drill that are
started from it."""

import json
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


def killed(page: Page) -> tuple[str, str]:
    """A worker that is gone now, and what the recovery from that will be called."""
    status = page.job.running()
    victim = status.workers[0].worker
    identity = page.job.run_folder.worker(victim)
    assert identity is not None
    os.kill(identity.pid, signal.SIGKILL)
    return victim, f"attempt {status.attempt + 1}: lost {victim}"


def test_a_kill_is_watched(page: Page) -> None:
    page.view("#/jobs/job/time?span=60")
    victim, cause = killed(page)
    page.browser.until(f"document.body.innerText.includes('{cause}')")
    told = page.text()
    assert f"{victim} is gone" in told
    assert cause in told
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


def test_snapshots_say_their_size_why_they_are_kept_and_the_command_that_goes_on_from_them(
    page: Page,
) -> None:
    page.view("#/jobs/job/snapshots")
    page.browser.until("document.body.innerText.includes('committed: a start goes on from here')")
    (row,) = [
        each
        for each in page.browser.value(
            "[...document.querySelectorAll('tbody tr')].map(row => [...row.children].map(cell => cell.innerText))"
        )
        if each[2].startswith("committed")
    ]
    assert row[0].isdecimal() and " ago)" in row[1] and row[6].split()[-1] in ("B", "kB", "MB")
    page.browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite"])
    button = "document.querySelector('[aria-label=\"Copy: flamestream run job.yaml\"]')"
    page.browser.value(f"{button}.click(); 1")
    page.browser.until(f"{button}.textContent === 'Copied'")
    assert page.browser.value("navigator.clipboard.readText()") == "flamestream run job.yaml"


def test_a_kill_that_is_a_drill_is_seen_in_the_line_of_gaps(page: Page) -> None:
    page.view("#/jobs/job/drill")
    page.browser.until("document.querySelectorAll('canvas').length === 1")
    told = "document.querySelector('.gap .u-over')"
    page.browser.until(f"{told}?.clientWidth > 200")
    # The line is drawn in its own colour: the figure of a job that runs is never empty.
    page.browser.until(
        "(() => { const canvas = document.querySelector('canvas');"
        " const all = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;"
        " const colours = new Set(); for (let at = 0; at < all.length; at += 4)"
        " if (all[at + 3] === 255) colours.add(`${all[at]},${all[at + 1]},${all[at + 2]}`);"
        " const probe = document.createElement('canvas').getContext('2d');"
        " probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--line-3').trim();"
        " probe.fillRect(0, 0, 1, 1); const line = [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3).join(',');"
        " return colours.has(line); })()"
    )
    page.browser.screenshot(KEPT / "drill-gap.png")


def test_a_formal_verdict_is_made_and_shown_where_it_is_asked_for(page: Page) -> None:
    page.view("#/jobs/job/nothing")
    page.view("#/jobs/job/audit")
    page.browser.until("document.querySelector('input[name=definitions]')")
    page.browser.value(
        "document.querySelector('input[name=definitions]').click(); document.querySelector('button.main').click(); 1"
    )
    page.browser.until("document.querySelector('[aria-label=\"Formal verdict\"] tbody tr')")
    found = page.browser.value(
        "[...document.querySelectorAll('[aria-label=\"Formal verdict\"] tbody tr')].map(row => row.innerText)"
    )
    assert any(each.split("\t")[:3] == ["6", "exactly-once", "holds"] for each in found), found
    page.browser.screenshot(KEPT / "audit-formal.png")
    assert page.faults_of_axe() == []


def moved(page: Page, kind: str, x: float, y: float) -> None:
    pressed = {"button": "left", "buttons": 1} if kind != "mouseMoved" else {"buttons": 1}
    page.browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, clickCount=1, **pressed)


def test_a_moment_of_time_says_cause_and_numbers_is_zoomed_by_dragging_and_leads_to_its_logs(
    page: Page,
) -> None:
    page.view("#/jobs/job/time?span=300")
    _, cause = killed(page)
    row = f"[...document.querySelectorAll('tbody tr')].find(each => each.innerText.includes('{cause}'))"
    page.browser.until(row)
    page.browser.value(f"{row}.querySelector('button').click(); 1")
    page.browser.until("location.hash.includes('from=')")
    left, top, width, height = page.browser.value(
        "(() => { const at = document.querySelector('.u-over').getBoundingClientRect();"
        " return [at.left, at.top, at.width, at.height]; })()"
    )
    middle, line = left + width / 2, top + height / 2
    page.browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=middle - 3, y=line)
    hover = "document.querySelector('.hover').innerText"

    def read() -> bool:
        page.browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=middle, y=line)
        page.browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=middle + 2, y=line)
        return cause in page.browser.value(hover)

    eventually(read, "the moment is read")
    told = page.browser.value(hover)
    assert "p99" in told and "gap" in told and "seal" in told
    before = page.browser.value("location.hash")
    moved(page, "mousePressed", left + width * 0.25, line)
    moved(page, "mouseMoved", middle, line)
    moved(page, "mouseMoved", left + width * 0.75, line)
    moved(page, "mouseReleased", left + width * 0.75, line)
    page.browser.until(f"location.hash !== {json.dumps(before)}")
    ends = dict(each.split("=") for each in page.browser.value("location.hash").partition("?")[2].split("&"))
    assert 8 < float(ends["to"]) - float(ends["from"]) < 12, "half of the twenty seconds"
    page.browser.value(f"{row}.querySelector('a').click(); 1")
    page.browser.until(
        "[...document.querySelectorAll('.log li')].some(each => each.innerText.includes('worker disconnected'))"
    )


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
