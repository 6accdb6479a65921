"""`make demo` in a real Chromium: its page tells the story of the kill, without the terminal."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flamestream.ui.server import STATIC
from support.browser import Browser
from support.runs.cli_job import ENVIRONMENT
from support.runs.page import KEPT


@pytest.mark.slow
def test_the_page_of_the_demo_tells_the_kill_and_the_verdict(tmp_path: Path) -> None:
    if not (STATIC / "index.html").exists():
        pytest.skip("the page is not built: there is no Node 20 with npm")
    command = [sys.executable, "-m", "flamestream.cli.demo", "--documents", "600", "--stay"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=ENVIRONMENT | {"COLUMNS": "500"}, text=True, stdout=subprocess.PIPE
    ) as demo:
        try:
            assert demo.stdout is not None
            address = next(line.split()[-1] for line in demo.stdout if "in a browser" in line)
            with Browser(tmp_path / "profile") as browser:
                browser.wide(1280)
                browser.open(address)
                browser.until("location.hash === '#/jobs/demo/time?span=60'")
                browser.until(
                    "[...document.querySelectorAll('td')].some(each => each.textContent === 'audit')"
                )
                told = browser.value("document.body.innerText")
                assert "worker lost" in told and "recovery" in told and "seal" in told and "completed" in told
                assert "clean: " in told and "0 lost, 0 doubled, 0 reordered" in told
                browser.value("scrollTo(0, document.body.scrollHeight); 1")
                browser.screenshot(KEPT / "demo-time.png")
                browser.value("location.hash = '#/jobs/demo/audit'; 1")
                browser.until("document.querySelector('.verdict')?.textContent === 'Clean'")
                browser.screenshot(KEPT / "demo-audit.png")
                # Until the job has begun there is none: what was asked of it was answered with 404.
                assert [each for each in browser.faults if "404" not in str(each)] == []
        finally:
            demo.send_signal(signal.SIGINT)
            demo.communicate()
