"""`make demo`: indexes the Python source and documentation of the interpreter that runs it, kills a worker
half-way, and audits the result.

A real job on a real local Spark: two workers, a coordinator and ZooKeeper, each in a process of its own. When
half of the documents are through, one worker gets SIGKILL. At the end every change record that was delivered
is compared with what the sequential reference interpreter makes of the same files.

Its page tells the same in a browser, and stays until Ctrl-C where somebody is at the terminal.

Does not: need anything that `make` has not set up, or leave anything but the folder demo-run.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Final

import typer
import yaml

from flamestream.audit.job_audit import audited_here
from flamestream.audit.report import sentence
from flamestream.cli.drill import BACK_WITHIN
from flamestream.cli.drill_report import fault_told, verdict_told
from flamestream.cli.local_drill import LocalPlace, Role, drilled
from flamestream.cli.output import errors, say, say_error
from flamestream.cli.run import run
from flamestream.connectors import sinks
from flamestream.job.drills.observed import DrillObserved, DrillPlan
from flamestream.job.drills.status import DrillStatus
from flamestream.job.exit_codes import ExitCode, code_of
from flamestream.job.manifest import API_VERSION
from flamestream.job.validation import CheckedJob, checked
from flamestream.machine.process_shell import keep_private
from flamestream.model.decoding import from_json
from flamestream.model.errors import FlameStreamError, UserError
from flamestream.node.run_folder import RunFolder
from flamestream.node.verdicts import leave, now

KINDS: Final = (".py", ".txt", ".rst", ".md", ".html")
LARGEST: Final = 200_000
"""Bytes. A few generated tables are larger, and say nothing."""
HALF: Final = 2
"""Quarters."""
POLL: Final = 0.02
SHOWN: Final = 8
"""Postings."""
LISTEN: Final = "127.0.0.1:7878"
ANY_PORT: Final = "127.0.0.1:0"
VIEW: Final = "/jobs/demo/time?span=60"
"""The view that the page opens with: the job's last minute, with the kill in it."""


def main(
    word: Annotated[str, typer.Option(help="Show the postings of this word at the end.")] = "yield",
    documents: Annotated[
        int, typer.Option(min=10, max=100_000, help="Index so many documents at most.")
    ] = 1500,
    folder: Annotated[Path, typer.Option(help="Where to work; emptied at the start.")] = Path("demo-run"),
    stay: Annotated[
        bool | None,
        typer.Option(
            help="Serve the page on until Ctrl-C. Default: where somebody is at the terminal.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Index real files with two Spark workers, kill one half-way with SIGKILL, and audit every byte of the
    result."""
    try:
        stays = sys.stdin.isatty() if stay is None else stay
        raise typer.Exit(demo(word.lower(), documents, folder.absolute(), stays=stays))
    except FlameStreamError as error:
        say_error(error, json=False)
        raise typer.Exit(code_of(error)) from error


def demo(word: str, count: int, folder: Path, *, stays: bool) -> ExitCode:
    """The demo, step by step. `stays`: its page is there until Ctrl-C."""
    found = _documents(count)
    _prepare(folder, found)
    say(
        f"{len(found):,} source and documentation files of Python {sys.version.split()[0]} in "
        f"{folder / 'docs'}"
    )
    with _page(folder) as page:
        code = _played(word, found, folder)
        if page is not None and stays:
            say("the page shows it until Ctrl-C")
            with suppress(KeyboardInterrupt):
                page.wait()
    return code


@contextmanager
def _page(folder: Path) -> Iterator[subprocess.Popen[str] | None]:
    """The page's server, whose address is told; None: there is no page here."""
    # Another page may have the port that is easy to remember.
    for listen in (LISTEN, ANY_PORT):
        where = [str(folder / "job.yaml"), "--run-folder", str(folder / "run"), "--listen", listen, "--json"]
        command = [sys.executable, "-m", "flamestream.cli.main", "ui", *where]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
        ) as server:
            try:
                assert server.stdout is not None, "it is a pipe"
                told = from_json(server.stdout.readline() or "{}")
                if "address" in told:
                    say(f"the story in a browser: {told['address']}&{VIEW}")
                    yield server
                    return
            finally:
                server.terminate()
    say(f"no page: {told.get('error', {}).get('message', 'its server has ended')}")
    yield None


def _played(word: str, found: list[Path], folder: Path) -> ExitCode:
    """The job, its kill and its verdict."""
    job = checked(folder / "job.yaml")
    say(
        "starting ZooKeeper, the coordinator and Spark with 2 workers and 1 standby; "
        "killing a worker half-way"
    )
    started, run_folder = time.monotonic(), RunFolder(folder / "run")
    killer = _Killer(job, run_folder, len(found))
    killer.start()
    keep_private()
    code = run(job, run_folder)
    killer.join()
    if code != ExitCode.OK:
        return code
    say(f"ran for {time.monotonic() - started:.1f} s; auditing against the reference interpreter")
    return _concluded(job, run_folder, killer.status, word)


def _concluded(job: CheckedJob, folder: RunFolder, drill: DrillStatus, word: str) -> ExitCode:
    """The drill's own audit would be of a part: all of it counts here."""
    began = now()
    report = audited_here(job, folder)
    leave(folder, "audit", began, ExitCode.OK if report.kept else ExitCode.DIFFERENCE, asdict(report))
    gap = drill.faults[0].output_gap_ms if drill.faults else None
    say(sentence(report, "documents", "change records"))
    if gap is not None:
        say(f"output gap around the kill: {gap:.0f} ms")
    _show(job, word)
    if not (report.clean and report.complete) or drill.phase == "Failed":
        say(verdict_told(drill))
        return ExitCode.DIFFERENCE
    if not drill.done:
        say(f"no worker was killed: {drill.message}. Ask for more --documents")
        return ExitCode.UNPROVEN
    return ExitCode.OK


class _Killer(threading.Thread):
    """Kills a worker once, when half of the documents have been read. Says what happens meanwhile."""

    def __init__(self, job: CheckedJob, folder: RunFolder, documents: int) -> None:
        super().__init__(name="killer", daemon=True)
        self._job, self._folder, self._documents = job, folder, documents
        self.status = DrillStatus()

    def run(self) -> None:
        # A job that does not begin writes no status: then the main thread ends. Its coordinator may write that before
        # its launcher says who runs.
        while not self._begun() and threading.main_thread().is_alive():
            time.sleep(POLL)
        plan = DrillPlan(
            job=self._job.job.name,
            target=Role.WORKER.value,
            after=0,
            seed=os.getpid(),
            timeout=BACK_WITHIN,
            audit=False,
        )
        with _HalfWay(self._job, self._folder, self._documents) as place:
            self.status = drilled(place, plan, lambda fault: say(f"  {fault_told(fault)}"))

    def _begun(self) -> bool:
        return self._folder.info() is not None and self._folder.status() is not None


class _HalfWay(LocalPlace):
    """Nobody is killed before half of the documents are read."""

    def __init__(self, job: CheckedJob, folder: RunFolder, documents: int) -> None:
        super().__init__(job, folder, Role.WORKER)
        self._documents, self._quarters = documents, 0

    def look(self, plan: DrillPlan, status: DrillStatus) -> DrillObserved:
        """Says each quarter."""
        seen = super().look(plan, status)
        if seen.told is not None:
            told, quarters = seen.told, seen.told.items_in * 4 // self._documents
            if quarters > self._quarters and not status.done:
                self._quarters, read = quarters, f"{told.items_in:,} of {self._documents:,} documents read"
                say(f"  {read}, {told.items_out:,} change records, epoch {told.epoch}")
        return replace(seen, hold=self._quarters < HALF)


def _documents(count: int) -> list[Path]:
    """Files of the standard library and of installed packages, the library first."""
    roots = [
        Path(sysconfig.get_path("stdlib")),
        *(Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")),
    ]
    found: dict[Path, None] = {}
    for root in roots:
        for file in _below(root):
            if len(found) >= count:
                return list(found)
            found[file] = None
    if len(found) < 10:
        raise UserError(
            f"only {len(found)} files with {', '.join(KINDS)} below {', '.join(map(str, roots))}: "
            "nothing to show here"
        )
    return list(found)


def _below(root: Path) -> Iterable[Path]:
    for folder, folders, names in os.walk(root):
        # In place: os.walk goes on into what is left in the list, and in its order.
        folders[:] = sorted(
            name for name in folders if name not in ("__pycache__", "site-packages", "dist-packages")
        )
        for name in sorted(names):
            file = Path(folder, name)
            if file.suffix in KINDS and file.is_file() and 0 < file.stat().st_size <= LARGEST:
                yield file


def _prepare(folder: Path, found: list[Path]) -> None:
    """A fresh folder with a manifest, the application, and a link to every document."""
    if folder.exists() and not (folder / "job.yaml").exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty and not of an earlier demo: choose another --folder")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "docs").mkdir(parents=True)
    for number, file in enumerate(found):
        (folder / "docs" / f"{number:05d}-{file.parent.name}-{file.name}").symlink_to(file)
    (folder / "inverted_index.py").write_text(APPLICATION.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "job.yaml").write_text(yaml.safe_dump(_manifest(), sort_keys=False), encoding="utf-8")


APPLICATION: Final = Path(__file__).parents[3] / "examples" / "inverted_index.py"


def _manifest() -> dict[str, object]:
    return {
        "apiVersion": API_VERSION,
        "kind": "FlameStreamJob",
        "metadata": {"name": "demo"},
        "spec": {
            "application": {"file": "inverted_index.py", "graph": "graph"},
            "sources": {"docs": {"files": {"path": "docs", "followLinks": True}}},  # all of them are links
            "sinks": {"index": {"files": {"path": "index"}}, "unreadable": {"files": {"path": "unreadable"}}},
            "onError": {"deadLetter": "unreadable"},
            "guarantee": "exactly-once",
            "workers": {"replicas": 2, "standby": 1},
            "checkpoint": {"interval": "200ms", "store": "snapshots"},
            "limits": {"runs": 8},
        },
    }


def _show(job: CheckedJob, word: str) -> None:
    """The postings of a word, from what was delivered."""
    changes = [payload for _, _, _, payload in sinks.read(job.job.sink("index")) if payload.word == word]
    say(f"{word!r} is in {len(changes):,} documents" + (":" if changes else "; try --word with another"))
    for change in changes[:SHOWN]:
        where = ", ".join(map(str, change.positions[:6])) + (", ..." if len(change.positions) > 6 else "")
        say(f"  {change.document}: {len(change.positions)} times, at word {where}")
    if len(changes) > SHOWN:
        say(f"  and {len(changes) - SHOWN:,} more")


if __name__ == "__main__":
    errors.soft_wrap = True
    typer.run(main)
