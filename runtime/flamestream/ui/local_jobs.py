"""The jobs of this machine: run folders below a root, or one run folder.

Keeps: a job that nobody looks at costs a look at the times of two files a second. Does not: write anything, but what a
command that is started writes itself.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any, Final

from flamestream.job.exit_codes import ExitCode
from flamestream.job.manifest import read
from flamestream.job.status import JobStatus
from flamestream.model.errors import FlameStreamError
from flamestream.node.job_state import described
from flamestream.node.run_folder import RunFolder, RunInfo
from flamestream.node.samples import Sample
from flamestream.node.samples_file import SamplesTail
from flamestream.node.tail import Tail
from flamestream.node.verdicts import KINDS, Verdict, file_of, left
from flamestream.ui.asked import seconds_in, wanted, word_in
from flamestream.ui.commands import Commands
from flamestream.ui.log_files import merged
from flamestream.ui.marks import MOST, Mark, mark_of, mark_of_verdict, without_repeats
from flamestream.ui.source import Kind, Ran, Refused, Row, row_of

MOST_JOBS: Final = 5000
LIST_EVERY: Final = 1.0
"""Seconds between two looks at which jobs there are, and at their logs."""
NICE: Final = {"audit": 10}
"""An audit stands below the job's own processes, with which it shares the machine."""
VERDICTS: Final = {int(ExitCode.OK): "clean", int(ExitCode.DIFFERENCE): "differs"}
"""The verdict of an audit, by its exit code."""


@dataclass(slots=True)
class _Known:
    """A job, as it was seen last."""

    folder: RunFolder
    info: RunInfo | None = None
    status: JobStatus | None = None
    problem: str = ""
    guarantee: str = ""
    manifest: str = ""
    """The path whose guarantee it is."""
    version: int = 0
    seen: tuple[int, int] = (0, 0)
    """The times of its two files."""
    ran: bool = False
    """Whether its launcher was alive."""
    plan: tuple[str, Ran] | None = None
    """The answer of `plan`, with the digest of the application that it is of."""
    verdicts: dict[str, tuple[int, Verdict | None]] = field(default_factory=dict)
    """Those that commands have left, by kind, with the times of their files."""
    samples: SamplesTail = field(init=False)
    marks: list[Mark] = field(default_factory=list)
    tails: dict[Path, Tail] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.samples = SamplesTail(self.folder.path)


class LocalJobs:
    """`source.JobSource`."""

    kinds: Final[tuple[Kind, ...]] = ("graph", "snapshots", "audit", "item", "drill")
    namespaced = False
    victims: Final = ("worker", "coordinator", "driver", "standby")

    def __init__(self, root: Path, *, actions: bool) -> None:
        """`root`: a run folder, or the folder of several."""
        self._root, self.actions = root.absolute(), actions
        self._jobs: dict[str, _Known] = {}
        self._listed = -LIST_EVERY
        self._commands = Commands()

    def look(self) -> None:
        """Read what is new."""
        due = time.monotonic() - self._listed >= LIST_EVERY
        if due:
            self._listed = time.monotonic()
            self._list()
        for known in self._jobs.values():
            _look(known)
            if due:
                _judged(known)
            if due and (known.ran or not known.tails):
                _follow(known)

    def rows(self) -> Sequence[Row]:
        """All jobs, by name."""
        return [self._row(job, known) for job, known in sorted(self._jobs.items())]

    def status(self, job: str) -> dict[str, Any]:
        """All that `flamestream status --json` says."""
        known = self._known(job)
        if known.problem:
            raise Refused(500, known.problem)
        return described(known.folder, known.info, known.status)

    def version(self, job: str) -> int:
        """A number that is another when `status` is."""
        return self._known(job).version

    def samples(self, job: str, behind: int = 0) -> list[Sample]:
        """The last hour, as its coordinators have left it in the run folder."""
        return self._known(job).samples.behind(behind)

    def marks(self, job: str) -> list[Mark]:
        known = self._known(job)
        return sorted([*known.marks, *_verdict_marks(known)], key=lambda mark: mark.at)

    async def logs(self, job: str, asked: dict[str, str]) -> list[dict[str, Any]]:
        return await asyncio.to_thread(merged, self._known(job).folder.logs, wanted(asked))

    # --- commands -------------------------------------------------------------------------------------------

    async def answer(self, job: str, kind: Kind, asked: dict[str, str]) -> Ran:
        """The answer of a command that takes no time to speak of."""
        known, code = self._known(job), self._code(job)
        if kind == "graph" and known.plan is not None and known.plan[0] == code:
            return known.plan[1]
        ran = await self._commands.answer(self._arguments(job, kind, asked))
        if kind == "graph" and ran.code == ExitCode.OK:
            known.plan = code, ran
        return ran

    async def start(self, job: str, kind: Kind, asked: dict[str, str], *, by: str) -> Ran:
        """Start a command that takes its time."""
        if kind == "item":
            raise Refused(405, "an item is answered at once here: ask with GET")
        if kind == "drill" and not self.actions:
            raise Refused(403, "this page may only look: start it with --actions")
        if self.ran(job, kind).state == "running":
            raise Refused(409, f"one is under way: {kind}")
        if self._commands.busy:
            raise Refused(503, "too many commands wait already")
        return self._commands.start((job, kind), self._arguments(job, kind, asked), nice=NICE.get(kind, 0))

    def ran(self, job: str, kind: Kind) -> Ran:
        """The last one, whoever started it."""
        ran, (_, left) = self._commands.ran((job, kind)), self._known(job).verdicts.get(kind, (0, None))
        if left is None or ran.state == "running" or ran.ended > left.ended:
            return ran
        return Ran(state="done", began=left.began, ended=left.ended, code=left.code, answer=left.answer)

    async def close(self) -> None:
        """End what was started."""
        await self._commands.close()

    def _code(self, job: str) -> str:
        """The digest of the application that it runs; "": nobody has said."""
        status = self._known(job).status
        return "" if status is None else status.code

    def _arguments(self, job: str, kind: Kind, asked: dict[str, str]) -> list[str]:
        known = self._known(job)
        if known.info is None:
            raise Refused(409, f"job {job!r} was never run here")
        folder, manifest = str(known.folder.path), known.info.manifest
        match kind:
            case "graph":
                return ["plan", manifest, "--json"]
            case "snapshots":
                return ["snapshots", "list", manifest, "--json"]
            case "audit":
                formal = ["--definitions"] if asked.get("definitions") == "yes" else []
                return ["audit", folder, *formal, "--json"]
            case "drill":
                return [
                    "drill",
                    folder,
                    "--kill",
                    word_in(asked, "kill"),
                    "--after",
                    seconds_in(asked),
                    "--json",
                ]
            case "item":
                text, sink = asked.get("text", ""), asked.get("sink", "")
                return ["trace", folder, f"--sink={sink}", "--limit=20", "--json", "--", text]

    # --- what there is --------------------------------------------------------------------------------------

    def _known(self, job: str) -> _Known:
        if (known := self._jobs.get(job)) is None:
            raise Refused(404, f"there is no job {job!r} in {self._root}")
        return known

    def _list(self) -> None:
        names = {known.folder: name for name, known in self._jobs.items()}
        folders = list(self._folders())
        for folder in names.keys() - set(folders):
            del self._jobs[names[folder]]
        for folder in folders:
            if folder not in names:
                self._jobs[self._name(folder)] = _Known(folder)

    def _name(self, folder: RunFolder) -> str:
        """The name of a new job; of two with the same name the later one has its folder's, or a number."""
        try:
            info = folder.info()
        except FlameStreamError:  # its row says so
            info = None
        names = [folder.path.name if info is None else info.job, folder.path.name]
        numbered = (f"{folder.path.name}-{number}" for number in count(2))
        return next(name for name in chain(names, numbered) if name not in self._jobs)

    def _folders(self) -> Iterator[RunFolder]:
        if (self._root / "run.json").exists():
            yield RunFolder(self._root)
        elif self._root.is_dir():
            names = sorted(path for path in self._root.iterdir() if (path / "run.json").exists())
            yield from map(RunFolder, names[:MOST_JOBS])

    def _row(self, job: str, known: _Known) -> Row:
        status, info = known.status, known.info
        running = info is not None and info.running
        if status is None:
            phase = "damaged" if known.problem else "starting" if running else "never began"
            problems = 1 if known.problem else 0
            return Row(job=job, phase=phase, running=running, guarantee=known.guarantee, problems=problems)
        audit = self.ran(job, "audit")
        return row_of(
            job, status, running=running, guarantee=known.guarantee,
            phase=status.phase if running else status.outcome or "cut off",
            audit=VERDICTS.get(audit.code, "") if audit.state == "done" else "",
        )  # fmt: skip


def _look(known: _Known) -> None:
    """Read a job's two files if one of them is another."""
    folder = known.folder
    seen = _time(folder.path / "run.json"), _time(folder.status_file)
    runs = known.info is not None and known.info.running
    if seen == known.seen and runs == known.ran:
        return
    known.seen, known.version = seen, known.version + 1
    try:
        known.info, known.status, known.problem = folder.info(), folder.status(), ""
    except FlameStreamError as error:
        known.info, known.status, known.problem = None, None, str(error)
        return
    known.ran = known.info is not None and known.info.running
    if known.info is not None and known.info.manifest != known.manifest:
        known.manifest, known.guarantee = known.info.manifest, _guarantee(Path(known.info.manifest))


def _judged(known: _Known) -> None:
    """Read the verdicts that commands have left since."""
    for kind in KINDS:
        when = _time(known.folder.path / file_of(kind))
        if when != known.verdicts.get(kind, (0, None))[0]:
            known.verdicts[kind] = when, left(known.folder, kind)
            known.version += 1  # who looks is told


def _verdict_marks(known: _Known) -> list[Mark]:
    verdicts = ((kind, found) for kind, (_, found) in known.verdicts.items() if found is not None)
    marks = (mark_of_verdict(kind, found.ended, found.answer) for kind, found in verdicts)
    return [mark for mark in marks if mark is not None]


def _follow(known: _Known) -> None:
    """Read the logs of its coordinators on."""
    new = []
    for path in sorted(known.folder.logs.glob("coordinator-*.log")):
        tail = known.tails.setdefault(path, Tail(path))
        new += [mark for line in tail.new() if (mark := mark_of(line)) is not None]
    if new:
        known.marks = without_repeats(sorted([*known.marks, *new], key=lambda mark: mark.at))[-MOST:]


def _guarantee(manifest: Path) -> str:
    try:
        return read(manifest).spec.guarantee
    except FlameStreamError:  # moved or edited meanwhile; the job runs on
        return ""


def _time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
