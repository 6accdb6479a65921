"""The page beside a running job, in a real Chromium: each view, a kill that is watched, an audit and a drill that are
started from it."""

import json
import os
import re
import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

import flamestream as fs
from flamestream.node.samples import Sample
from flamestream.ui.local_jobs import LocalJobs
from support.browser import KEYS
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
CLIPBOARD = ["clipboardReadWrite", "clipboardSanitizedWrite"]
"""The second one is asked for where a key or a mouse was pressed."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with looked_at(tmp_path_factory.mktemp("page")) as made:
        made.browser.wide(1280)
        yield made


def themed(page: Page, theme: str) -> None:
    page.browser.value(
        f"localStorage.setItem('theme', '{theme}'); document.documentElement.dataset.theme = '{theme}';"
        " window.dispatchEvent(new Event('themed'))"
    )


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shows_the_job_and_nothing_is_wrong_with_it(page: Page, name: str) -> None:
    path, there = VIEWS[name]
    page.view("#/jobs/job/nothing")
    page.view(path)
    page.browser.until(there)
    for theme in THEMES:
        themed(page, theme)
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
def test_a_view_fits_a_telephone_and_nothing_is_wrong_with_it_there(page: Page, name: str) -> None:
    path, there = VIEWS[name]
    page.browser.wide(375)
    try:
        page.view("#/jobs/job/nothing")
        page.view(path)
        page.browser.until(there)
        for theme in THEMES:
            themed(page, theme)
            page.browser.screenshot(KEPT / f"{name}-375-{theme}.png")
            assert page.browser.value("document.documentElement.scrollWidth") <= 375
            assert page.faults_of_axe() == []
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


@pytest.fixture(scope="module")
def watched(page: Page) -> tuple[str, str]:
    """A worker that was killed before the page's eyes, and what its recovery is called."""
    page.view("#/jobs/job/time?span=60")
    victim, cause = killed(page)
    page.browser.until(f"{row_of(cause)}?.innerText.includes('then replay')")
    return victim, cause


def row_of(cause: str) -> str:
    """What happened, as the time view lists it, in JavaScript."""
    return f"[...document.querySelectorAll('tbody tr')].find(each => each.innerText.includes('{cause}'))"


def test_a_kill_is_watched(page: Page, watched: tuple[str, str]) -> None:
    victim, cause = watched
    page.view("#/jobs/job/time?span=60")
    page.browser.until(row_of(cause))
    assert f"{victim} is gone" in page.text()
    page.browser.screenshot(KEPT / "time-kill.png")
    page.view("#/jobs/job")
    page.browser.until(f"document.body.innerText.includes('Last recovery: lost {victim}')")
    assert page.browser.faults == []


def test_who_looks_later_sees_the_kill_in_the_hour_before_and_a_notebook_draws_it(page: Page) -> None:
    """Another page's server, which begins now, and `fs.connect` read what the coordinator has kept."""
    path = page.job.run_folder.path
    last = page.job.running().last_recovery
    assert last is not None and last.kind == "lost" and last.ended, "the kill before"
    cause = last.ended - round(last.duration_ms * 1000)

    def later() -> list[Sample]:
        source = LocalJobs(path, actions=False)
        source.look()
        return source.samples("job")

    eventually(lambda: later()[-1].at > last.ended + 1_000_000, "the second behind the kill")
    assert later()[0].at < cause, "before the kill, and before this server"
    with fs.connect(path) as job:
        rows, shown = job.latency(), job._repr_html_()
    assert rows["recovering"].any() and not rows["recovering"].all()
    under_way = rows[rows["at"].between(cause, last.ended + 1_000_000)]
    assert under_way["gap_ms"].max() >= last.duration_ms * 0.9, "nothing came while it recovered"
    for there in (rows["at"] < cause, rows["at"] > last.ended):
        assert rows["p99_ms"][there].notna().any(), "results on either side"
    assert (
        "around the last recovery" in shown and f"recovery, {last.duration_ms:.0f} ms: {last.cause}" in shown
    )
    (KEPT / "notebook-kill.html").write_text(shown)


def drawn(name: str, alpha: int) -> str:
    """Whether a canvas has a colour of the styles, about as thick as that, in JavaScript."""
    return (
        "[...document.querySelectorAll('canvas')].some(canvas => {"
        " const all = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;"
        " const probe = document.createElement('canvas').getContext('2d');"
        f" probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('{name}').trim();"
        " probe.fillRect(0, 0, 1, 1); const wanted = probe.getImageData(0, 0, 1, 1).data;"
        f" const near = at => Math.abs(all[at + 3] - {alpha}) < 5"
        " && [0, 1, 2].every(each => Math.abs(all[at + each] - wanted[each]) < 5);"
        " for (let at = 0; at < all.length; at += 4) if (near(at)) return true; return false; })"
    )


def test_a_recovery_is_drawn_by_its_five_steps(page: Page, watched: tuple[str, str]) -> None:
    _, cause = watched
    (mark,) = [
        each
        for each in page.asked("/jobs/job/figures")["marks"]
        if f"attempt {each.get('attempt')}: {each['text']}" == cause
    ]
    steps, at = mark["steps_ms"], datetime.fromisoformat(mark["at"]).timestamp()
    assert list(steps) == ["decide", "record", "open", "seal", "replay"]
    assert mark["duration_ms"] == pytest.approx(sum(steps.values()) - steps["replay"])
    last = page.job.running().last_recovery
    assert last is not None and last.steps_ms == pytest.approx(steps)
    since, until = at - mark["duration_ms"] / 1000 - 0.01, at + steps["replay"] / 1000 + 0.01
    page.view(f"#/jobs/job/time?from={since:.3f}&to={until:.3f}")
    page.browser.until(CHARTS)
    legend = page.browser.value(
        "[...document.querySelectorAll('.legend .key')].map(each => each.textContent)"
    )
    assert legend == list(steps)
    wide = page.browser.value("document.querySelector('.u-over').clientWidth") / (until - since) / 1000
    page.browser.screenshot(KEPT / "time-steps.png")
    seen = [f"--step-{number}" for number, took in enumerate(steps.values(), 1) if took * wide > 4]
    assert seen[-1] == "--step-5"
    for name in seen:
        page.browser.until(drawn(name, 89))


@pytest.fixture(scope="module")
def audited(page: Page) -> None:
    """An audit that was started from the page, and is over."""
    page.view("#/jobs/job/audit")
    page.browser.until("document.querySelector('button.main')")
    reach(page, "button.main")
    page.browser.press("Enter")
    page.browser.until("document.querySelector('.verdict')")


def test_an_audit_is_started_and_its_verdict_is_the_headline(page: Page, audited: None) -> None:
    page.view("#/jobs/job/audit")
    page.browser.until("document.querySelector('.verdict')")
    assert page.browser.value("document.querySelector('.verdict').textContent") == "Clean"
    assert "0 lost, 0 doubled, 0 reordered" in page.text()
    page.browser.screenshot(KEPT / "audit-clean.png")
    assert page.faults_of_axe() == []


CELLS = "[...document.querySelectorAll('tbody tr')[0].children].map(each => each.innerText)"


def test_the_list_says_of_a_job_what_its_status_says(
    page: Page, watched: tuple[str, str], audited: None
) -> None:
    page.view("#/")
    page.browser.until("document.querySelector('tbody tr td')?.textContent === 'running'")
    names = page.browser.value("[...document.querySelectorAll('thead th')].map(each => each.innerText)")

    def said() -> dict[str, str] | None:
        told, cells, now = page.browser.value(
            f"fetch('api/v1/jobs/job').then(answer => answer.json()).then(told => [told.status, {CELLS}, Date.now()])"
        )
        row = dict(zip(names, cells, strict=True))
        last, latency, age = told["last_recovery"], told["latency"], now * 1000 - told["cut_time"]
        return row if row == {
            "job": told["job"], "phase": told["phase"], "guarantee": "exactly-once",
            "workers": f"{len(told['workers'])}/{told['wanted']} +{len(told['standbys'])}",
            "p50": close(row["p50"], latency["p50_ms"]), "p99": close(row["p99"], latency["p99_ms"]),
            "epoch age": close(row["epoch age"], age / 1e6, 1.0),
            "last recovery": close(row["last recovery"], last["duration_ms"], cause=f"lost {watched[0]} "),
            "audit": "clean",
        } else None  # fmt: skip

    # They go on meanwhile: at some moment both are of the same.
    row = eventually(said, "the list and the status are of one moment")
    assert row["workers"] == "2/2 +1", row


def close(shown: str, value: float, most: float = 0.06, cause: str = "") -> str:
    """What is shown, if it is this value as people read it; else the value."""
    words = re.fullmatch(re.escape(cause) + r"\(?([0-9.]+) m?s\)?", shown)
    near = words is not None and abs(float(words[1]) - value) <= max(most, value / 200)
    return shown if near else f"{cause}{value}"


def test_a_drill_kills_what_was_chosen_draws_the_gap_and_shows_its_verdict(page: Page) -> None:
    page.job.running()
    page.view("#/jobs/job/drill")
    page.browser.until("document.querySelector('button.danger')?.disabled === false")
    reach(page, "select[name=kill]")
    page.browser.press("ArrowDown")
    reach(page, "input[name=after]")
    page.browser.press("ArrowUp")
    page.browser.press("Enter")
    page.browser.until("document.body.innerText.includes('Under way')")
    page.browser.until(drawn("--line-3", 255))
    page.browser.until("document.querySelector('.verdict')")
    assert "Passed" in page.browser.value("document.querySelector('.verdict').textContent")
    assert [url for url in page.browser.requested if url.endswith("/drill?kill=coordinator&after=2")]
    (kill,) = page.browser.value(
        "[...document.querySelectorAll('[aria-label=Kills] tbody tr')].map(row => row.innerText.split('\\t'))"
    )
    (fault,) = page.asked("/jobs/job/drill")["answer"]["faults"]
    assert kill[0] == fault["victim"] and "coordinator" in kill[0]
    gap = close(kill[2], fault["outputGapMs"])
    assert gap == kill[2] and fault["outputGapMs"] > 0
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
    page.browser.call("Browser.grantPermissions", permissions=CLIPBOARD)
    button = "document.querySelector('[aria-label=\"Copy: flamestream run job.yaml\"]')"
    page.browser.value(f"{button}.click(); 1")
    page.browser.until(f"{button}.textContent === 'Copied'")
    assert page.browser.value("navigator.clipboard.readText()") == "flamestream run job.yaml"


OLD_STATUS = """
    const asked = window.fetch;
    window.fetch = async (...of) => {
        const answer = await asked(...of);
        if (!answer.url.endsWith('/jobs/job')) return answer;
        const told = await answer.json();
        told.status.epoch = 1;
        return new Response(JSON.stringify(told));
    };
    window.fresh = () => { window.fetch = asked; };
"""


def test_a_snapshot_is_committed_also_where_the_status_tells_only_of_one_that_is_gone(page: Page) -> None:
    eventually(lambda: page.job.running().epoch > 2, "the first epoch is gone")
    page.view("#/jobs/job/nothing")
    page.browser.value(f"{OLD_STATUS}; 1")
    try:
        page.view("#/jobs/job/snapshots")
        page.browser.until("document.querySelector('tbody tr')")
        assert "committed: a start goes on from here" in page.text()
    finally:
        page.browser.value("window.fresh(); 1")


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
    row = row_of(cause)
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
        page.browser.press(key)
    page.browser.until("location.hash.includes('from=')")
    page.browser.press("0")
    page.browser.until("location.hash.includes('span=60')")


def reach(page: Page, selector: str) -> None:
    """Press Tab until that is focused. Whatever is focused on the way must show that it is."""
    seen = (
        "(() => { const at = document.activeElement, style = getComputedStyle(at);"
        " const shown = at === document.body || (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2);"
        f" return [at.matches({json.dumps(selector)}), shown, at.outerHTML.slice(0, 100)]; }})()"
    )
    for _ in range(100):
        page.browser.press("Tab")
        there, shown, what = page.browser.value(seen)
        assert shown, f"nobody sees that it is focused: {what}"
        if there:
            return
    pytest.fail(f"no Tab leads to {selector}")


ACTIVE, HASH = "document.activeElement", "location.hash"
TWENTY = (
    "Math.abs([...location.hash.matchAll(/[0-9.]{9,}/g)].reduce((sum, each) => each - sum, 0) - 20) < 0.1"
)
"""The URL is of twenty seconds."""
WALK: tuple[tuple[str, str, str], ...] = (
    ("input[type=search]", "jo", "document.body.innerText.includes('1 of 1 jobs')"),
    ("tbody a", "Enter", f"{HASH} === '#/jobs/job' && {ACTIVE}.id === 'main' && document.querySelector('a.worker')"),
    (".picture", "", ""),
    ("a.worker", "Enter", f"{HASH}.includes('/logs?process=') && document.querySelector('.log li')"),
    ("select[name=level]", "ArrowDown", f"{HASH}.includes('level=warning')"),
    (".log", "", ""),
    ("time", "Enter", "document.querySelector('td button')"),
    ("[data-span='60']", " ", f"{HASH}.includes('span=60')"),
    (".plots", "+", f"{HASH}.includes('from=')"),
    ("td button", "Enter", TWENTY),
    ("audit", "Enter", "document.querySelector('button.main')?.disabled === false"),
    ("button.main", "", ""),
    ("input[name=definitions]", " ", f"{ACTIVE}.checked"),
    ("item", "Enter", "document.querySelector('input[name=text]')"),
    ("input[name=text]", "shop7", f"{ACTIVE}.value === 'shop7'"),
    ("button.main", "Enter", "document.querySelector('.descent')?.open"),
    (".descent summary", "Enter", "!document.querySelector('.descent').open"),
    ("snapshots", "Enter", "document.querySelector('.command button')"),
    (".command button", "Enter", f"{ACTIVE}.textContent === 'Copied'"),
    ("drill", "Enter", "document.querySelector('button.danger')"),
    ("button.danger", "", ""),
    (".brand", "Enter", f"{HASH} === '#/' && {ACTIVE}.matches('.brand')"),
)  # fmt: skip
"""What Tab leads to (of a view its link), the keys that are pressed there, and what is true then."""


def test_each_view_is_reached_and_used_without_a_mouse(page: Page) -> None:
    """An audit and a drill are begun so by tests of their own."""
    page.browser.call("Browser.grantPermissions", permissions=CLIPBOARD)
    page.view("#/")
    page.browser.until("document.querySelector('tbody tr a')")
    for place, keys, then in WALK:
        link = f"nav a[href='#/jobs/job/{place}']"
        reach(page, link if place in VIEWS else place)
        for key in [keys] if keys in KEYS else keys:
            page.browser.press(key)
        page.browser.until(then or "true")
        if place in VIEWS:
            assert page.browser.value(f"{ACTIVE}.matches('[aria-current]')"), "it goes on from the link"


def test_all_of_time_is_exported_as_one_picture(page: Page, tmp_path: Path) -> None:
    page.view("#/jobs/job/time?span=60")
    page.browser.until(CHARTS)
    page.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.browser.value(
        "[...document.querySelectorAll('button')].find(each => each.textContent === 'Export PNG').click()"
    )
    file = eventually(lambda: next(tmp_path.glob("*.png"), None), "a picture is there")
    assert file.read_bytes().startswith(b"\x89PNG")


def test_what_is_slowest_is_marked_and_said_why(page: Page) -> None:
    """Near the end: what is slow is slow for an audit, too."""
    marked = (
        "[...document.querySelectorAll('.vertex.slow')].map(each => each.querySelector('text').textContent)"
    )
    # A busy machine's may be marked before, for the microseconds that each takes.
    told = "(document.querySelector('.why')?.textContent ?? '')"
    slow = f"({marked}.join() === 'reduce added' && /reduce added, [0-9.]+ ms an item/.test({told}))"
    page.view("#/jobs/job")
    page.browser.until(f"{told}.includes('Slowest: ') && !{slow}")
    page.feeder.costly = True
    try:
        page.browser.until(slow)
        why, busy, wide = page.browser.value(
            "['.why', '.worker.slow .name', '.slots .slow'].map(each => document.querySelector(each))"
            ".map(each => each.title || each.textContent)"
        )
        page.browser.screenshot(KEPT / "job-slow.png")
    finally:
        page.feeder.costly = False
    said = re.fullmatch(
        r"Slowest: (\S+) does not wait: busy (\d+) % of the time; (\d+) % of what operations take is at"
        r" 2 reduce added, (\S+) ms an item\.",
        why,
    )
    assert said is not None, why
    assert int(said[2]) >= 80 and int(said[3]) > 50 and float(said[4]) > 1, why
    assert said[1] == busy == wide.partition(":")[0]


def test_nothing_is_asked_of_another_server(page: Page) -> None:
    base = page.address.partition("#")[0]
    assert [url for url in page.browser.requested if not url.startswith((base, "blob:", "about:"))] == []
    assert page.browser.value("location.hash").startswith("#/")
    assert "token" not in page.browser.value("location.href")
