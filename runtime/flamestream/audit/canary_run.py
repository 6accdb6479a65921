"""A run of a canary: the code before and the new one, each in a process of its own, over the same records.

    start -> old process -> how far it came -> new process up to there -> comparison

Keeps: changes nothing anywhere, and calls nobody; an obstacle is a reason why nothing was tried, and no error.
Does not: decide whether the upgrade goes on (`Canary.refusal` says what it would be decided by).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from flamestream.audit.canary import Canary, Pace, compared
from flamestream.audit.canary_start import Start, start
from flamestream.audit.canary_steps import CanaryRequest
from flamestream.audit.code_span import SpanRequest
from flamestream.audit.span_process import tried
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.job import py_files
from flamestream.job.application import folders_of, located
from flamestream.job.application_code import code_of
from flamestream.job.manifest import STRONG, Job, Spec, changes_of_calls
from flamestream.job.manifest_cluster import Upgrade
from flamestream.job.py_files import PyFile
from flamestream.job.validation import CheckedJob
from flamestream.journal.places import JournalConfig
from flamestream.model.errors import FlameStreamError, UserError
from flamestream.model.time import END
from flamestream.node.kept_code import copy_of
from flamestream.node.run_folder import RunFolder
from flamestream.node.worker_process import WorkerProcessConfig

WITHIN: Final = 10.0
"""Seconds in which each code interprets records."""
AT_MOST: Final = 30.0
"""Seconds that its process has in all: a function that never ends is ended then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A version of the application, as a process loads it."""

    file: Path
    digest: str
    graph: str
    py_files: tuple[PyFile, ...]
    calls: Mapping[str, Mapping[str, int | float | str]]


def code_now(checked: CheckedJob) -> Code:
    """The application of a checked job."""
    spec = checked.job.spec
    return Code(
        file=checked.application, digest=checked.code, graph=spec.application.graph, py_files=checked.py_files,
        calls=changes_of_calls(spec),
    )  # fmt: skip


def code_before_here(folder: RunFolder, runs: WorkerProcessConfig) -> Code:
    """The application that a job of this machine runs. Raises UserError if no copy of it is kept."""
    status = folder.status()
    digest = runs.code or ("" if status is None else status.code)
    file = copy_of(folder.code, Path(runs.application), digest, runs.py_files) if digest else None
    if file is None:
        raise UserError(f"no copy of the code before ({digest[:12] or 'unknown'}) is in {folder.code}")
    return Code(
        file=file, digest=digest, graph=runs.graph, py_files=runs.py_files, calls=runs.settings.calls
    )  # fmt: skip


def code_before(its: Job, digest: str, now: CheckedJob) -> Code:
    """The application of another manifest, `its`, which has to have this digest. Raises UserError if it is not at
    hand, or if sources are read at other places."""
    moved = [
        name for name in its.spec.sources if name in now.sources and its.source(name) != now.job.source(name)
    ]
    if moved:
        raise UserError(f"source {moved[0]!r} is read at another place now")
    files = tuple(py_files.found(*py_files.split(written)) for written in its.py_files)
    application = its.spec.application
    file = located(its.path(application.file), folders_of(files))
    if not file.is_file() or code_of(file, files) != digest:
        raise UserError(f"the code before ({digest[:12]}) is not at hand: it was in an image")
    return Code(
        file=file, digest=digest, graph=application.graph, py_files=files, calls=changes_of_calls(its.spec)
    )  # fmt: skip


def most_of(spec: Spec) -> int:
    """How many records a canary has; 0: there is none."""
    return (spec.upgrade or Upgrade()).canary


def canary(
    checked: CheckedJob, before: Callable[[], Code], newest: Callable[[], SnapshotIndex | None],
    journal: JournalConfig | None, job: str = "", most: int | None = None,
) -> Canary:  # fmt: skip
    """The canary of the code of `checked`. Only from the main thread. `before` gives the code that runs, or
    raises UserError if it is not there; `newest`, the committed snapshot. `journal`: where it is reached;
    `job`: the job's identity in a cluster; `most`: records, if not as the manifest says."""
    most = most_of(checked.job.spec) if most is None else most
    if reason := why_not(checked.job.spec, most):
        return Canary(untried=reason)
    with TemporaryDirectory(prefix="flamestream-canary-") as place:
        try:
            old = before()
            begins = start(checked, job, journal, newest, most, Path(place) / "snapshot")
            first = tried(request_of(checked, begins, old, most), AT_MOST)
        except FlameStreamError as error:
            return Canary(untried=str(error))
        if not first.records:
            return Canary(untried="no record behind the committed cut can be read now", epoch=begins.epoch)
        request = request_of(checked, begins, code_now(checked), most)
        try:
            # (!) The same records, also where a source has got more since.
            span = msgspec.structs.replace(request.span, end=first.until)
            second = tried(msgspec.structs.replace(request, span=span), AT_MOST)
        except FlameStreamError as error:
            if error.category == "retryable":
                return Canary(untried=str(error), epoch=begins.epoch)
            return Canary(failed=str(error), epoch=begins.epoch)
    pace = Pace(_pace(begins, newest), checked.job.spec.workers.least)
    return compared(first, second, pace, begins.epoch)


def _pace(begins: Start, newest: Callable[[], SnapshotIndex | None]) -> float:
    try:
        return begins.pace(newest())
    except FlameStreamError:  # a note less, and no reason against the upgrade
        return begins.rate


def why_not(spec: Spec, most: int) -> str:
    """Why no records of such a job can be interpreted, `most` of them; "": they can."""
    if not most:
        return "upgrade.canary is 0"
    if spec.guarantee == STRONG:
        return "under strong-productions the journal has what the functions of the code before have made"
    if spec.guarantee == "none":
        return "under guarantee: none nothing is saved"
    return "a batch has no journal" if spec.batches else ""


def request_of(checked: CheckedJob, begins: Start, code: Code, most: int) -> CanaryRequest:
    """The request for one code: `most` records from there on."""
    fronts = tuple(each.source.front for each in begins.behind)
    span = SpanRequest(
        file=str(code.file), code=code.digest, graph=code.graph, py_files=code.py_files, productions=False,
        calls={name: dict(its) for name, its in code.calls.items()}, fronts=fronts,
        slots=checked.job.spec.workers.slots, dead_letter=None,
        begin=begins.savepoint.cut, end=END, savepoint=begins.savepoint,
    )  # fmt: skip
    return CanaryRequest(span=span, behind=begins.behind, most=most, within=WITHIN)
