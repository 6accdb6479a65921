"""The first start of a job that goes on with another one of this machine: `takeOver` in its spec.

    shadowed   if its spec says so: compared with the other one, and nothing else
    looked     whether it could: the same places, a state that its code can read
    asked      the other's launcher, which ends at a cut that its job record tells
    moved      what only the other's run folder has: the cluster state with that record, and copies of its code

Until it is asked nothing has changed. What is moved goes behind the record's word, and the cluster state last:
a start that died on the way goes on here.

Does not: decide where the other one ends (core/coordinator/changes/hand_over.py), or begin (local/launcher.py).
"""

import os
import shutil
import signal
import time
from contextlib import suppress
from typing import Final, NoReturn

import typer

from flamestream.audit.shadow.session import why_not_own
from flamestream.cli.changes import canary, shadowing
from flamestream.cli.changes.upgrade import LOOK, refuse_misfit, refuse_other_places, told_to_workers
from flamestream.cli.output import say
from flamestream.cli.snapshots import newest
from flamestream.core.protocol.job_record import handed_over
from flamestream.job.exit_codes import ExitCode
from flamestream.job.manifest_cluster import TakeOver
from flamestream.job.validation import CheckedJob
from flamestream.local import lineage
from flamestream.model.errors import Retryable, StoreUnavailable, UserError
from flamestream.node import upgrade_request
from flamestream.node.run_folder import RunFolder, RunInfo
from flamestream.node.stored_samples import look
from flamestream.node.upgrade_request import HandOverRequest
from flamestream.node.worker_process import WorkerProcessConfig
from flamestream.store.places import store_from

PATIENCE: Final = 120.0
_FILES: Final = ("lineage.json", "bootstrap.json")


def take_over(job: CheckedJob, wanted: TakeOver, folder: RunFolder) -> None:
    """Have the job that `job` goes on with, the wanted one, end, and take what it leaves. Nothing where it has been
    taken. Raises UserError, ManifestError or Retryable: then the other one runs on."""
    if folder.zookeeper.exists():
        return
    theirs = RunFolder(folder.path.parent / wanted.job)
    info = theirs.info()
    if info is None:
        raise UserError(
            f"{job.job.document.file}: takeOver: job {wanted.job!r} never ran here: its run folder is looked for "
            f"beside this job's ({theirs.path})"
        )
    if not _is_ours(theirs, job):
        runs = _refuse(theirs, info, job)
        if wanted.shadow:
            _shadow(theirs, runs, job)
        _ask(theirs, info, job)
    _move(theirs, folder.made(), job)


def _is_ours(theirs: RunFolder, job: CheckedJob) -> bool:
    """Whether it has ended for this job."""
    return theirs.handed_over() == handed_over(job.job.name)


def _shadow(theirs: RunFolder, runs: WorkerProcessConfig, job: CheckedJob) -> NoReturn:
    """Compare until the other job has ended, or somebody ends this."""
    # beside each other, once: what is read from sinks says neither how long it took, nor by which keys
    first = canary.wanted(job, theirs, runs)
    say(canary.in_full(first))
    differs = first.differs or bool(first.refusal)
    with suppress(KeyboardInterrupt):
        if reason := why_not_own(job.job.spec):
            say(
                f"shadow: it has no state of its own, and compares the newest records again and again: {reason}"
            )
            differs |= shadowing.sampled(job, theirs, runs)
        else:
            differs |= shadowing.beside(job, theirs, runs)
    raise typer.Exit(ExitCode.DIFFERENCE if differs else ExitCode.OK)


def _refuse(theirs: RunFolder, info: RunInfo, job: CheckedJob) -> WorkerProcessConfig:
    """The configuration of the other one's workers. Raises UserError or ManifestError if this one could not go on
    where it ends."""
    name = info.job
    if told := theirs.handed_over():
        raise UserError(f"takeOver: job {name!r} was {told} already: name that one")
    if not info.running or not info.config:
        raise UserError(
            f"takeOver: job {name!r} does not run, so nobody can say where it ends: start it "
            f"(`flamestream run {info.manifest}`), then this one again"
        )
    runs = told_to_workers(theirs, info)
    refuse_other_places(runs, job)
    with suppress(StoreUnavailable):
        look(job.graph, store_from(job.job.store), lambda: newest(job.job))
        refuse_misfit(job, name)
    return runs


def _ask(theirs: RunFolder, info: RunInfo, job: CheckedJob) -> None:
    """Returns when the other one has ended, with all its processes."""
    until, made = time.monotonic() + PATIENCE, False
    _tell(theirs, info, job.job.name)
    try:
        while time.monotonic() < until and not made:
            time.sleep(LOOK)
            made = _is_ours(theirs, job) and not info.running
            if not made and not info.running:
                raise UserError(f"takeOver: job {info.job!r} has ended meanwhile, and handed over nothing")
    finally:
        if not made and info.running:
            _tell(theirs, info, "")
    if not made:
        raise Retryable(
            f"takeOver: job {info.job!r} was not handed over within {PATIENCE:g} s, and runs on: `flamestream status` "
            "shows what it waits for"
        )


def _tell(theirs: RunFolder, info: RunInfo, to: str) -> None:
    theirs.write(upgrade_request.FILE, HandOverRequest(to))
    os.kill(info.launcher.pid, signal.SIGUSR2)


def _move(theirs: RunFolder, folder: RunFolder, job: CheckedJob) -> None:
    shutil.copytree(theirs.code, folder.code, dirs_exist_ok=True)
    for name in _FILES:
        if (theirs.path / name).exists():
            os.replace(theirs.path / name, folder.path / name)
    with suppress(StoreUnavailable):  # its words alone name the folder of before
        lineage.renew(store_from(job.job.store), folder, job.job.name)
    # Last (!): whoever finds it here has all the rest.
    os.replace(theirs.zookeeper, folder.zookeeper)
