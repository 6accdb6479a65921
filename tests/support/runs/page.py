"""The page of a running job in a real Chromium: the job, a feeder of its input, the page's server and a browser.

The screenshots that tests make are kept in artifacts/page.
"""

import json
import subprocess
import sys
import threading
import time
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


def added(total: int, sale: Sale) -> int:
    return total + (sale.cents if sale.cents >= 0 else sum(range(500_000)) % 2)


graph = fs.Graph("sales")
sales = graph.source("lines").map(parsed)
totals = sales.reduce(key=fs.field("shop"), initial=int, combine=added, emit=fs.record(Sale, "shop", cents=fs.state))
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

    costly = False
    """Whether half of the lines are such of one shop as take the job's `added` a bit more time than there is."""

    def __init__(self, folder: Path, rate: int = 200) -> None:
        super().__init__(daemon=True)
        folder.mkdir()
        self._file, self._rate, self._over = folder / "0.txt", rate, threading.Event()

    def run(self) -> None:
        number = 0
        with self._file.open("w") as file:
            while not self._over.wait(0.02):
                for number in range(number, number + self._rate // 50):  # noqa: B020  # it goes on
                    costly = self.costly and number % 2
                    shop, cents = (7, -1) if costly else (number * 7919 % 40, number * 104_729 % 10_000)
                    file.write(f"{number},shop{shop},{cents}\n")
                number += 1
                file.flush()

    def stop(self) -> None:
        self._over.set()
        self.join()


def feeding_job(folder: Path, spec: dict[str, Any] | None = None, rate: int = 200) -> tuple[CliJob, Feeder]:
    """A job that runs, and what feeds it."""
    application = folder / "sales_of_the_page.py"
    application.write_text(APPLICATION.replace("500_000", str(_numbers_of(seconds=2.4 / rate))))
    job = CliJob(folder, application, {**SPEC, **(spec or {})}, spark=False)
    feeder = Feeder(folder / "in", rate)
    feeder.start()
    job.start()
    return job, feeder


def _numbers_of(seconds: float) -> int:
    """How many of them are added up in so much of a processor's time."""
    tried = 200_000
    took = []
    for _ in range(5):
        began = time.process_time()
        sum(range(tried))
        took.append(time.process_time() - began)
    return int(tried * seconds / min(took))


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
            assert process.wait(90) == 0


@dataclass(slots=True)
class Page:
    """A browser that looks at a job."""

    job: CliJob
    feeder: Feeder
    browser: Browser
    address: str

    def view(self, path: str) -> None:
        """Go to a view, as who types its URL: it is not loaded anew."""
        self.browser.value(f"location.hash = {json.dumps(path)}; 1")

    def text(self) -> str:
        return str(self.browser.value("document.body.innerText"))

    def asked(self, path: str) -> Any:
        """The server's answer to the page's own session."""
        return self.browser.value(f"fetch('api/v1{path}').then(answer => answer.json())")

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
def looked_at(folder: Path, spec: dict[str, Any] | None = None) -> Iterator[Page]:
    """A page of a job that runs, with what of its spec is another. Skips where it is not built."""
    if not (STATIC / "index.html").exists():
        pytest.skip("the page is not built: there is no Node 20 with npm")
    job, feeder = feeding_job(folder, spec)
    try:
        job.running()
        with (
            ui(str(job.run_folder.path), "--actions", cwd=folder) as address,
            Browser(folder / "profile") as browser,
        ):
            browser.open(address)
            yield Page(job, feeder, browser, address)
    finally:
        feeder.stop()
        job.close()
