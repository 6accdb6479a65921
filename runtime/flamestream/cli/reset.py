"""`flamestream reset`: makes a job of this machine one that never ran.

    sinks' files -> journal -> snapshots -> run folder

The run folder goes last: it holds the lineage that says whose the store is, so a reset that was interrupted
is done again to its end.

Keeps: only what says itself that it is this job's is removed, by name; everything else is named and left.
Does not: touch input, or what was delivered to a server.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from flamestream.cli.frame import JobPlace, RunFolderOption
from flamestream.cli.output import Json, answer, say
from flamestream.connectors import sinks, sources
from flamestream.connectors.kit.ownership import remove_files
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.job.exit_codes import AlreadyRunning
from flamestream.job.manifest import Job
from flamestream.local import lineage
from flamestream.model.decoding import from_json
from flamestream.model.errors import Corrupt, FlameStreamError, ManifestError
from flamestream.node import samples_file
from flamestream.node.run_folder import RunFolder, find
from flamestream.ports import ObjectStore
from flamestream.store.object_names import plain
from flamestream.store.places import store_from

_FILES: Final = (
    "run.json", "status.json", "lineage.json", "bootstrap.json", "coordinator.json", "worker.json",
    "executor.json", "upgrade.json", "worker-*.json", "micro-batch-base.json",
    samples_file.NEW, samples_file.OLD,
)  # fmt: skip
_FOLDERS: Final = ("workers", "logs", "zookeeper", "spark", "micro-batch", "code")
"""Folders of a run folder that are removed with it. Earlier builds have left one for micro-batches, and a file
beside it."""


@dataclass(frozen=True, slots=True)
class Part:
    """Something of the job's. `remove` None: it stays."""

    what: str
    where: str
    remove: Callable[[], None] | None = None


def command(
    job: JobPlace,
    run_folder: RunFolderOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Remove what a job of this machine has left: output files, journal, snapshots, record and run folder. It
    lists them and asks.

    Input, what was delivered to servers, and whatever is not this job's stays, and is named.

    Example: [bold]flamestream reset job.yaml[/bold]. The next run begins anew.
    """
    if json and not yes:
        raise ManifestError("--json asks nothing: say --yes too")
    found, folder = find(job, run_folder)
    _refuse_running(folder)
    parts = list(parts_of(found, folder))
    if not json:
        for part in parts:
            say(f"{'goes' if part.remove else 'stays'}: {part.what}: {part.where}")
        if not yes:
            typer.confirm(f"remove this of job {found.name!r}?", abort=True)
    for part in parts:
        if part.remove is not None:
            part.remove()
    gone, left = (
        [f"{part.what}: {part.where}" for part in parts if bool(part.remove) is goes]
        for goes in (True, False)
    )
    nothing = "" if gone else f"; it had left nothing (run folder {folder.path})"
    answer(
        {"job": found.name, "removed": gone, "left": left},
        f"job {found.name!r} is reset, as if it had never run{nothing}",
        json,
    )


def parts_of(job: Job, folder: RunFolder) -> Iterator[Part]:
    """All that there is of it, in the order in which it goes."""
    if told := folder.handed_over():
        yield Part(f"all but the run folder was {told}", str(folder.path.parent))
        yield Part("the run folder", str(folder.path), lambda: _remove_run_folder(folder.path))
        return
    for name in job.spec.sinks:
        yield from _sink(job, name)
    yield from _journal(job)
    yield from _own_files(job)
    yield from _store(job, folder)
    if folder.path.is_dir():  # last (!): its lineage says whose the store is
        yield Part(
            "the job record and the run folder", str(folder.path), lambda: _remove_run_folder(folder.path)
        )


def _refuse_running(folder: RunFolder) -> None:
    info = folder.info()
    if info is not None and info.running:
        raise AlreadyRunning(f"job {info.job!r} runs (launcher {info.launcher.pid}): stop it first")


def _sink(job: Job, name: str) -> Iterator[Part]:
    spec = job.sink(name)
    ((kind, settings),) = spec.items()
    what, place = f"output of sink {name!r}", _place(kind, settings)
    owned, known = sinks.owned(spec), sinks.kind_of(spec)
    if owned is not None and (owned.job, owned.sink) == (job.identity, name):
        yield Part(what, place, sinks.settings_of(spec).remove)
    elif owned is not None:
        yield Part(f"output of job {owned.job!r}, sink {owned.sink!r}", place)
    elif known is None or known.holder == "server":
        yield Part(
            f"{what}, and what the sink remembers there",
            f"{place}: a new run needs another place, or an empty one",
        )


def _place(kind: str, settings: Any) -> str:
    """Without secrets: manifests hold none."""
    told = settings if isinstance(settings, dict) else {}
    shown = [
        str(told[name])
        for name in ("path", "dsn", "url", "address", "brokers", "table", "topic", "key", "listen")
        if told.get(name)
    ]
    return " ".join([kind, *shown])


def _journal(job: Job) -> Iterator[Part]:
    journal = job.spec.journal
    if journal is None:
        return
    if journal.kafka is not None:
        yield Part("the journal's topic", f"{journal.kafka.topic}: remove it, or name another")
    # a folder with :// is ZooKeeper's, which goes with the run folder
    elif journal.folder is not None and "://" not in journal.folder:
        root = job.path(journal.folder)
        if fronts := [front for front in sorted(root.glob("front-*")) if front.is_dir()]:
            yield Part("the journal", str(root), lambda: _remove_journal(root, fronts))


def _remove_journal(root: Path, fronts: list[Path]) -> None:
    for front in fronts:
        remove_files(front, ("attempt-*.log", "seal-*", "fences/*"))
    remove_files(root, ())


def _own_files(job: Job) -> Iterator[Part]:
    """Files that sources have made for themselves, like idempotency keys."""
    for name in job.spec.sources:
        spec = job.source(name)
        (settings,) = spec.values()
        known = sources.kind_of(spec)
        for setting, patterns in known.own_files.items() if known is not None else ():
            folder = Path(settings[setting])
            if any(found for pattern in patterns for found in folder.glob(pattern)):
                yield Part(
                    f"the {setting} of source {name!r}", str(folder), partial(remove_files, folder, patterns)
                )


def _store(job: Job, folder: RunFolder) -> Iterator[Part]:
    try:
        store = store_from(job.store)
        theirs = lineage.of_store(store, job.store)
    except FlameStreamError as problem:
        yield Part("the checkpoint store", f"{job.store}: {problem}")
        return
    if theirs is None:
        return
    if theirs.id != lineage.of_folder(folder):
        yield Part(f"snapshots of the job whose run folder is {theirs.run_folder}", job.store)
        return
    # The lineage last: a reset that was cut off finds by it whose the rest is.
    names = [*_indexes(store, job.identity), *store.names(f"{plain(job.identity)}/segments/"), lineage.NAME]
    yield Part(f"{len(names) - 1} objects of snapshots", job.store, lambda: store.delete(*names))
    if savepoints := store.names("savepoints/"):
        yield Part(f"{len(savepoints)} objects of savepoints", job.store)


def _indexes(store: ObjectStore, job: str) -> Iterator[str]:
    for name in store.names("indexes/"):
        try:
            if from_json(store.get(name), SnapshotIndex).job == job:
                yield name
        except (msgspec.DecodeError, Corrupt):
            continue  # not one of ours, or gone


def _remove_run_folder(path: Path) -> None:
    # folders of ours alone; a file that somebody else has put here stays, and with it the run folder
    for name in _FOLDERS:
        shutil.rmtree(path / name, ignore_errors=True)
    remove_files(path, _FILES)
