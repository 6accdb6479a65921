"""`flamestream snapshots`: what a job's store holds, and whether it is whole; and `flamestream ticks`, which
reads there what code the job has had.

A listing is for people: which snapshot counts is written in the job record and nowhere else, so these
commands never decide anything.
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any

import msgspec
import typer

from flamestream.cli.frame import JobPlace, ManifestFile, RunFolderOption
from flamestream.cli.output import Json, answer
from flamestream.core.coordinator.epochs import spans_of
from flamestream.core.protocol.snapshot import CodeSpan, SnapshotIndex
from flamestream.job.exit_codes import ExitCode
from flamestream.job.manifest import Job, read
from flamestream.job.moments import precise
from flamestream.job.py_files import found as py_file_at
from flamestream.job.py_files import split
from flamestream.model.errors import Corrupt, FlameStreamError, UserError
from flamestream.model.time import CLOCKS_BEGIN, END, START, timestamp_of
from flamestream.node.kept_code import copy_of
from flamestream.node.run_folder import RunFolder, find
from flamestream.ports import ObjectStore
from flamestream.store.places import store_from
from flamestream.store.snapshot_index import index_of, summary_of

app = typer.Typer(help="List, show and verify a job's snapshots.", no_args_is_help=True)
FOLDER = "indexes/"
EpochNumber = Annotated[
    int | None, typer.Argument(help="The epoch; the newest if left out.", show_default=False)
]


@app.command("list")
def list_command(manifest: ManifestFile, json: Json = False) -> None:
    """List the committed and pending snapshots in the job's store, oldest first.

    Example: [bold]flamestream snapshots list job.yaml[/bold]
    """
    found = [summary_of(name, snapshot) for name, snapshot in _all(read(manifest))]
    row = (
        "epoch {epoch:>8}  cut {cut}  attempt {attempt}  {segments} segments, {rows} rows, {bytes} bytes  "
        "{name}"
    )
    answer(
        found,
        "\n".join(row.format(**each) for each in found) or "no snapshots: none has been written yet",
        json,
    )


@app.command("show")
def show_command(manifest: ManifestFile, epoch: EpochNumber = None, json: Json = False) -> None:
    """Show one snapshot: its cut, fronts, outputs and segments.

    Example: [bold]flamestream snapshots show job.yaml 12[/bold]
    """
    _, snapshot = _one(read(manifest), epoch)
    answer(
        msgspec.to_builtins(snapshot),
        msgspec.json.format(msgspec.json.encode(snapshot), indent=2).decode(),
        json,
    )


@app.command("verify")
def verify_command(manifest: ManifestFile, epoch: EpochNumber = None, json: Json = False) -> None:
    """Read every part of a snapshot and compare its size and checksum. Exit code 6 if a part is missing or
    damaged.

    Example: [bold]flamestream snapshots verify job.yaml[/bold]
    """
    job = read(manifest)
    name, snapshot = _one(job, epoch)
    store = store_from(job.store)
    parts = snapshot.parts
    problems = [
        problem
        for segment in parts
        if (problem := _problem(store, segment.name, segment.size, segment.checksum))
    ]
    value = {"name": name, "epoch": snapshot.epoch, "segments": len(snapshot.segments), "problems": problems}
    answer(
        value,
        "\n".join(
            [*problems, f"{name}: {len(snapshot.segments)} segments, {len(problems)} damaged or missing"]
        ),
        json,
    )
    if problems:
        raise typer.Exit(ExitCode.CORRUPT)


def ticks(job: JobPlace, run_folder: RunFolderOption = None, json: Json = False) -> None:
    """List the versions of the code that a job has had, and the cut from which on each made the results.

    The first is the one that it began with; each other took over at a tick, or by a start with --changed.
    `kept` says whether `flamestream audit` can interpret what that code made.

    Example: [bold]flamestream ticks job.yaml[/bold]
    """
    found, folder = find(job, run_folder)
    index, status, info = _one(found, None)[1], folder.status(), folder.info()
    # other code may run, and have committed nothing yet
    spans = spans_of(index, "" if status is None or not index.code else status.code)
    running = spans[-1:] if info is not None and info.running else ()
    rows = [_tick(found, folder, span, runs=span in running) for span in spans]
    answer(rows, "\n".join(map(_row, rows)) or "an older release wrote down nothing of the job's code", json)


def _tick(job: Job, folder: RunFolder, span: CodeSpan, *, runs: bool) -> dict[str, Any]:
    application = job.path(job.spec.application.file)
    py_files = [py_file_at(*split(written)) for written in job.py_files]
    time = timestamp_of(span.since)
    return {
        "cut": span.since,
        # below it are no readings of a clock: a source that is read in an order of its own counts its runs
        "when": precise(time / 1e6) if CLOCKS_BEGIN <= time < timestamp_of(END) else None,
        "code": span.digest,
        "kept": copy_of(folder.code, application, span.digest, py_files) is not None,
        "runs": runs,
    }


def _row(row: dict[str, Any]) -> str:
    begins = "the beginning" if row["cut"] == START else f"cut {row['cut']}"
    notes = [row["when"], "kept" if row["kept"] else "no copy is kept", "runs now" if row["runs"] else None]
    return "  ".join([f"code {row['code'][:12]} from {begins} on", *filter(None, notes)])


def newest(job: Job) -> SnapshotIndex | None:
    """The newest snapshot, committed or about to be; None: there is none."""
    return next((snapshot for _, snapshot in reversed(list(_all(job)))), None)


def committed(job: Job, folder: RunFolder) -> SnapshotIndex | None:
    """The committed snapshot of a job of this machine, by its status; None where a newer one comes just now."""
    told = folder.status()
    if told is None:
        return None
    found = (snapshot for _, snapshot in _all(job))
    return next((each for each in found if (each.epoch, each.cut) == (told.epoch, told.cut)), None)


def know_classes(job: Job) -> None:
    """Payloads of classes that had other fields can be read from now on, as far as the store can be asked."""
    with suppress(FlameStreamError):
        for _ in _all(job):
            pass


def _all(job: Job) -> Iterator[tuple[str, SnapshotIndex]]:
    """Every snapshot index of this job in its store, by epoch. One that cannot be read is an error that names
    it."""
    store = store_from(job.store)
    for name in store.names(FOLDER):
        try:
            data = store.get(name)
        except Corrupt:
            if name in store.names(FOLDER):
                raise
            continue  # a newer commit has removed it since: the job may run
        try:
            snapshot = index_of(data)
        except msgspec.DecodeError as error:
            raise Corrupt(f"{name} in {job.store} is no snapshot index: {error}") from error
        if snapshot.job == job.identity:  # several jobs may share a store
            yield name, snapshot


def _one(job: Job, epoch: int | None) -> tuple[str, SnapshotIndex]:
    found = [(name, snapshot) for name, snapshot in _all(job) if epoch is None or snapshot.epoch == epoch]
    if not found:
        which = "no snapshot" if epoch is None else f"no snapshot of epoch {epoch}"
        raise UserError(
            f"{which} of job {job.name!r} in {job.store}: `flamestream snapshots list` shows what is there"
        )
    # Names begin with the epoch in twelve digits, and a listing is sorted.
    return found[-1]


def _problem(store: ObjectStore, name: str, size: int, checksum: str) -> str:
    try:
        data = store.get(name)
    except Corrupt as error:
        return str(error)
    if len(data) != size:
        return f"{name}: {len(data)} bytes, the index says {size}"
    found = hashlib.sha256(data).hexdigest()
    return "" if found == checksum else f"{name}: its SHA-256 is {found}, the index says {checksum}"
