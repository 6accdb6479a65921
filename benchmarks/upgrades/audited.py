"""Ten upgrades in a row whose results `flamestream audit` judges: each by the code that had to make it.

The job counts a generator's numbers into files. Each version of its code says its own number in every result,
so a result of another one's code is seen. Two versions fail their watch (one raises, one kills its workers), and
while each upgrade is under way, or a moment behind it, a worker is killed with SIGKILL.

Keeps: what is wrong is in the row, not an error. Does not: look at how long the output stands still (figure.py).
"""

import os
import random
import signal
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from harness.drive import where
from harness.job import noise

from support.eventually import eventually
from support.runs.cli_job import CliJob, explained

APPLICATION: Final = """\
import flamestream as fs
from edition import EDITION, tried

def said(number):
    return tried(number) * 100 + EDITION

graph = fs.Graph("editions")
numbers = graph.source("numbers").map(said)
numbers.sink("numbers")
numbers.reduce(
    name="sums", key=lambda each: each // 100 % 997, initial=int, combine=lambda total, each: total + each
).sink("sums")
"""
GOOD: Final = "return number"
FAILS: Final = {3: "raise ValueError('mistaken')", 7: "os._exit(7)"}
"""The versions that fail, and how."""
UPGRADES: Final = 10
LATEST: Final = 12.0
"""Seconds behind the request of an upgrade by which its kill has come."""


def measure(rate: float, seed: int = 1) -> dict[str, Any]:
    """The row."""
    before, rng = noise(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="flamestream-audited-") as name:
        job = job_in(Path(name), rate)
        try:
            with explained(job):
                job.start("--drain")
                job.running()
                for number in range(1, UPGRADES + 1):
                    upgrade(job, number, rng)
                job.signal(signal.SIGINT)
                outcome = job.end()[1]["outcome"]
                codes = job.ask("ticks", str(job.manifest), "--run-folder", str(job.run_folder.path))[1]
                found = job.audit()
        finally:
            job.close()
    verdict = found["verdict"]
    row = {
        "figure": "audited",
        "n": UPGRADES,
        "taken_back": len(FAILS),
        "kills": UPGRADES,
        "outcome": outcome,
    }
    row |= {"codes": len(codes), "records": found["records"], "clean": found["clean"]}
    row |= {name: verdict[name] for name in ("delivered", "lost", "doubled", "foreign", "reordered")}
    return row | before | where()


def job_in(folder: Path, rate: float) -> CliJob:
    """The job in its first version."""
    application = folder / "app.py"
    application.write_text(APPLICATION)
    write(folder, 0)
    files = {name: {"files": {"path": name}} for name in ("numbers", "sums")}
    spec = {
        "sources": {"numbers": {"generator": {"count": 10_000_000, "rate": rate}}}, "sinks": files,
        "checkpoint": {"interval": "1s", "store": "snapshots"}, "upgrade": {"canary": 0},
    }  # fmt: skip
    return CliJob(folder, application, spec)


def write(folder: Path, number: int) -> None:
    """A version of the code."""
    tried = f"def tried(number):\n    {FAILS.get(number, GOOD)}\n"
    (folder / "edition.py").write_text(f"import os\n\nEDITION = {number}\n\n\n{tried}")


def upgrade(job: CliJob, number: int, rng: random.Random) -> None:
    """One, with its kill, until the job runs as it should."""
    before = job.running()
    write(job.path, number)
    killing = threading.Timer(rng.uniform(0.5, LATEST), kill, (job, random.Random(number)))
    killing.start()
    code, answer = job.ask("upgrade", str(job.manifest), "--run-folder", str(job.run_folder.path))
    if number in FAILS:
        eventually(lambda: taken_back(job), f"upgrade {number} is taken back", within=120)
    else:
        assert code == 0 and answer["made"], f"upgrade {number}: {answer}"
    killing.join()
    after = job.running(before.attempt + 1)
    eventually(lambda: goes_on(job, after.epoch), "it commits")


def kill(job: CliJob, rng: random.Random) -> None:
    """A worker that takes part now."""

    def done() -> bool:
        status = job.status()
        names = [worker.worker for worker in status.workers if worker.connected] if status is not None else []
        found = job.run_folder.worker(rng.choice(names)) if names else None
        if found is None or not found.alive:
            return False
        os.kill(found.pid, signal.SIGKILL)
        return True

    eventually(done, "a worker to kill", within=60)


def taken_back(job: CliJob) -> bool:
    status = job.status()
    return status is not None and "taken back" in status.refusal and status.phase == "running"


def goes_on(job: CliJob, epoch: int) -> bool:
    status = job.status()
    return status is not None and status.phase == "running" and status.epoch >= epoch + 2
