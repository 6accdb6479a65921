"""The page of a running job in a real Chromium: the job, a feeder of its input, the page's server and a browser.

The screenshots that tests make are kept in artifacts/page.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flamestream.ui.server import STATIC
from support.browser import Browser
from support.runs.cli_job import ENVIRONMENT, REPOSITORY, CliJob

KEPT = REPOSITORY / "artifacts" / "page"
AXE = REPOSITORY / "page" / "node_modules" / "axe-core" / "axe.min.js"
APPLICATION = """
import flamestream as fs
from dataclasses import dataclass


@fs.payload_type
@dataclass(frozen=True, slots=True)
class Sale:
    shop: str
    cents: int


def parsed(line: str) -> Sale:
    _, shop, cents = line.split(",")
    return Sale(shop, int(cents))


graph = fs.Graph("sales")
sales = graph.source("lines").map(parsed)
totals = sales.reduce(key=fs.field("shop"), combine=fs.total("cents"), emit=fs.record(Sale, "shop", cents=fs.state))
totals.sink("totals", key=fs.field("shop"))
sales.filter(lambda sale: sale.cents > 9000).sink("large", key=fs.field("shop"))
"""
SPEC: dict[str, Any] = {
    "sources": {"lines": {"files": {"path": "in", "records": "lines", "follow": True}}},
    "sinks": {
        "totals": {"files": {"path": "totals", "fsync": False}},
        "large": {"files": {"path": "large", "fsync": False}},
    },
    "journal": {"folder": "journal", "keep": True},
    "workers": {"replicas": 2, "standby": 1, "slots": 64},
    "checkpoint": {"interval": "1s", "store": "snapshots"},
}


class Feeder(threading.Thread):
    """Writes so many lines a second into the job's input, until it is stopped."""

    def __init__(self, folder: Path, rate: int = 200) -> None:
        super().__init__(daemon=True)
        folder.mkdir()
        self._file, self._rate, self._over = folder / "0.txt", rate, threading.Event()

    def run(self) -> None:
        number = 0
        with self._file.open("w") as file:
            while not self._over.wait(0.02):
                for number in range(number, number + self._rate // 50):  # noqa: B020  # it goes on
                    file.write(f"{number},shop{number * 7919 % 40},{number * 104_729 % 10_000}\n")
                number += 1
                file.flush()

    def stop(self) -> None:
        self._over.set()
        self.join()


def feeding_job(folder: Path, spec: dict[str, Any] | None = None) -> tuple[CliJob, Feeder]:
    """A job that runs, and what feeds it."""
    application = folder / "sales_of_the_page.py"
    application.write_text(APPLICATION)
    job = CliJob(folder, application, {**SPEC, **(spec or {})}, spark=False)
    feeder = Feeder(folder / "in")
    feeder.start()
    job.start()
    return job, feeder


@contextmanager
def ui(*arguments: str, cwd: Path) -> Iterator[str]:
    """The address that `flamestream ui` prints, while it serves."""
    command = [
        sys.executable,
        "-m",
        "flamestream.cli.main",
        "ui",
        *arguments,
        "--listen",
        "127.0.0.1:0",
        "--json",
    ]
    with subprocess.Popen(command, cwd=cwd, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["address"]
        finally:
            process.terminate()
            assert process.wait(30) == 0


@dataclass(slots=True)
class Page:
    """A browser that looks at a job."""

    job: CliJob
    browser: Browser
    address: str

    def view(self, path: str) -> None:
        """Go to a view, as who types its URL: it is not loaded anew."""
        self.browser.value(f"location.hash = {json.dumps(path)}; 1")

    def text(self) -> str:
        return str(self.browser.value("document.body.innerText"))

    def faults_of_axe(self) -> list[str]:
        """What axe-core finds wrong with what is shown."""
        if not self.browser.value("Boolean(window.axe)"):
            self.browser.value(f"{AXE.read_text()}; 1")
        found = self.browser.value("axe.run(document).then(told => JSON.stringify(told.violations))")
        return [
            f"{each['id']}: {each['help']}: {node['html']} {node.get('failureSummary', '')}"
            for each in json.loads(found)
            for node in each["nodes"]
        ]


@contextmanager
def looked_at(folder: Path) -> Iterator[Page]:
    """A page of a job that runs. Skips where it is not built."""
    if not (STATIC / "index.html").exists():
        pytest.skip("the page is not built: there is no Node 20 with npm")
    job, feeder = feeding_job(folder)
    try:
        job.running()
        with (
            ui(str(job.run_folder.path), "--actions", cwd=folder) as address,
            Browser(folder / "profile") as browser,
        ):
            browser.open(address)
            yield Page(job, browser, address)
    finally:
        feeder.stop()
        job.close()
