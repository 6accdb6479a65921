"""`flamestream upgrade`: a job that runs on this machine goes on with other code, at one cut.

It checks the manifest as `run` does, compares it with what runs, hands it to the launcher, and waits until
the job runs the new code or says why it does not. Until then the job runs on as it did.

Does not: start workers (local/launcher.py), or decide (core/coordinator/changes/upgrade.py).
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from flamestream.audit.canary import Canary
from flamestream.audit.canary_run import most_of
from flamestream.cli.changes import canary
from flamestream.cli.changes.drops import warn_of_drops
from flamestream.cli.frame import ManifestFile, RunFolderOption
from flamestream.cli.output import Json, answer
from flamestream.cli.snapshots import newest
from flamestream.core.coordinator.coordination import Settings
from flamestream.core.protocol.changes import changes, way_back
from flamestream.core.protocol.inventory import leaving, misfit
from flamestream.job.exit_codes import ExitCode
from flamestream.job.manifest_cluster import Upgrade
from flamestream.job.settings import changed, dropped, inventory, local_coordinator
from flamestream.job.status import JobStatus
from flamestream.job.validation import CheckedJob, checked
from flamestream.machine.process_shell import keep_private, read_config
from flamestream.model.errors import ManifestError, Retryable, StoreUnavailable, UserError
from flamestream.model.quoted import plain
from flamestream.node import upgrade_request
from flamestream.node.kept_code import keep
from flamestream.node.run_folder import RunFolder, RunInfo
from flamestream.node.stored_samples import look
from flamestream.node.upgrade_request import UpgradeRequest
from flamestream.node.worker_config import as_told, worker_config
from flamestream.node.worker_process import WorkerProcessConfig
from flamestream.store.places import store_from

LOOK: Final = 0.05
"""Seconds between two looks at the job's status."""
PATIENCE: Final = 120.0


def command(
    manifest: ManifestFile,
    run_folder: RunFolderOption = None,
    timeout: Annotated[
        float, typer.Option("--timeout", help="Seconds to wait for it; then it is called off.", min=1.0)
    ] = PATIENCE,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Say what would become of state, sources, sinks and calls, and end."),
    ] = False,
    diff: Annotated[
        bool,
        typer.Option(
            "--diff",
            help="Say what the new code gives for the newest records, beside the code before, and end.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Have a job that runs go on with the code that its manifest names now. Its workers start beside those
    that run, and take over between two results.

    Every result is of the old code or of the new one, by its place in the order: none is lost or made twice.
    Before, both codes interpret the newest records (spec.upgrade.canary): an error that the old code does not give
    refuses it.

    Example: [bold]flamestream upgrade job.yaml[/bold]. Exit codes: 1 it is refused, 2 the manifest is wrong, 3
    results differ (--diff), 5 it was not made in time, or the job does not run.
    """
    keep_private()
    job = checked(manifest)
    if plan:
        _say_plan(job, json)
    elif diff:
        _say_diff(job, RunFolder.of(job.job.name, run_folder), json)
    else:
        _upgrade(job, RunFolder.of(job.job.name, run_folder), timeout, json)


def _upgrade(job: CheckedJob, folder: RunFolder, timeout: float, json: bool) -> None:
    info, settings = _running(folder, job.job.name), local_coordinator(job)
    if (before := folder.status()) is not None and before.code == job.code:
        told = f"job {job.job.name!r} runs this code already"
        answer({"job": job.job.name, "code": job.code, "made": False}, told, json)
        return
    warn_of_drops(job.job)
    store = store_from(job.job.store)
    with suppress(StoreUnavailable):  # workers look again, at all that they load
        look(job.graph, store, lambda: newest(job.job))
        refuse_misfit(job, info.job)
    found = _tried(job, folder, info, json)
    keep(folder.code, job.application, job.code, job.py_files)
    _ask(folder, info, job, settings)
    made = _made(folder, job, time.monotonic() + timeout)
    if made is None:
        _call_off(folder, info, job)
        raise Retryable(
            f"job {job.job.name!r} has not gone on with the new code within {timeout:g} s, and runs on with the "
            f"old one: {_state(folder)}. Its workers' words are in {folder.logs}"
        )
    recovery = made.last_recovery
    gap = recovery.duration_ms if recovery is not None and recovery.kind == "tick" else None
    watch = (job.job.spec.upgrade or Upgrade()).watch
    value = {
        "job": job.job.name,
        "code": job.code,
        "made": True,
        "cut": made.cut,
        "epoch": made.epoch,
        "gap_ms": gap,
        "watch_s": watch,
        "canary": canary.document(found),
    }
    took = f", {gap:.0f} ms after it had stopped releasing results" if gap else ""
    watched = (
        f"; it is watched for {watch:g} s, and taken back if it fails (`flamestream status`)" if watch else ""
    )
    told = f"job {job.job.name!r} runs code {job.code[:12]} from epoch {made.epoch} on{took}{watched}"
    answer(value, told, json)


def _tried(job: CheckedJob, folder: RunFolder, info: RunInfo, json: bool) -> Canary:
    """The canary, which is said. Raises UserError if it refuses the upgrade."""
    runs = told_to_workers(folder, info)
    refuse_other_places(runs, job)
    found = canary.tried(job, folder, runs)
    if not json and most_of(job.job.spec):
        canary.say_summary(found)
    if found.refusal:
        raise UserError(plain(f"job {job.job.name!r} runs on with the old code: {found.refusal}"))
    return found


def _say_plan(job: CheckedJob, json: bool) -> None:
    """From the newest snapshot, whether the job runs or not. Raises UserError if the new code cannot go on
    from it."""
    index = newest(job.job)
    if index is None:
        raise UserError(f"job {job.job.name!r} has saved nothing yet: any code may go on")
    ours, drop = inventory(job), dropped(job.job.spec)
    found = list(changes(index, ours, drop))
    refusal = misfit(index, job.graph.identity, ours, drop)
    back = way_back(index, job.graph.identity, ours)
    rows = [f"{each.what:<7} {each.name:<32} {each.fate}" for each in found]
    rows.append(f"no way back: {back}" if back else "the code before could go on from what this one saves")
    value = {
        "epoch": index.epoch, "changes": [each._asdict() for each in found], "refused": refusal, "no_way_back": back,
    }  # fmt: skip
    answer(value, "\n".join([*rows, *([f"refused: {refusal}"] if refusal else [])]), json)
    if refusal:
        raise typer.Exit(ExitCode.JOB_FAILED)


def _say_diff(job: CheckedJob, folder: RunFolder, json: bool) -> None:
    """From the newest snapshot, whether the job runs or not."""
    name, info = job.job.name, folder.info()
    if info is not None and not info.address and not info.config:
        raise UserError(
            f"job {name!r} ran in batches of Spark, and --diff compares code with that of a stream: --plan says what "
            "becomes of its state; `flamestream run --changed` goes on with the code of now"
        )
    if info is None or not info.config:
        raise UserError(f"job {name!r} was never run here (run folder {folder.path}): nothing is to compare")
    runs = told_to_workers(folder, info)
    refuse_other_places(runs, job)
    refuse_misfit(job, name)
    canary.say_diff(job, folder, runs, json)


def told_to_workers(folder: RunFolder, info: RunInfo) -> WorkerProcessConfig:
    """The configuration of the workers that run, or ran last."""
    status = folder.status()
    # (!) The newest that was written is that of the newest upgrade, which may have been refused or taken back.
    asked = read_config(WorkerProcessConfig, str(folder.path / info.config))
    if status is None or asked.code == status.code:
        return asked
    files = sorted(folder.path.glob("worker*.json"))
    others = (read_config(WorkerProcessConfig, str(file)) for file in files)
    return next((each for each in others if each.code == status.code), asked)


def _running(folder: RunFolder, job: str) -> RunInfo:
    info = folder.info()
    if info is None or not info.running:
        raise Retryable(
            f"job {job!r} does not run here: `flamestream run --changed` starts it with the code of now "
            f"(run folder {folder.path})"
        )
    if not info.address:
        raise UserError(
            f"job {job!r} runs in batches of Spark, and those take no other code meanwhile: stop it behind a batch "
            "(of a run with --drain by Ctrl-C), and start it by `flamestream run --changed`"
        )
    if not info.config:
        raise UserError(
            f"job {job!r} was started by an older release, whose launcher takes no upgrades: stop it, and start "
            "it by `flamestream run --changed`"
        )
    return info


def refuse_misfit(job: CheckedJob, runs: str) -> None:
    """Raises UserError if the code could not go on from what the job `runs` has saved last."""
    if (index := newest(job.job)) is None:
        return
    ours = inventory(job)
    if gone := leaving(index.inventory, ours):
        raise UserError(
            f"the graph has no source {gone[0]!r}, and job {runs!r} may have read of it what is in no state yet: stop "
            "the job with a drain, and start it without the source; or let it go later"
        )
    if refusal := misfit(index, job.graph.identity, ours, dropped(job.job.spec)):
        raise UserError(f"job {runs!r} runs on with the old code: {refusal}")


def refuse_other_places(runs: WorkerProcessConfig, job: CheckedJob) -> None:
    """Raises ManifestError if more than code is other, of which a running stream cannot let go."""
    if field := changed(as_told(runs), as_told(worker_config(job))):
        raise ManifestError(
            f"{field}: it is another than that of the job that runs, and cannot be changed while its "
            "stream goes on: put it back, or give what is new a name of its own; else stop that job with a drain, "
            "and start it by `flamestream run --changed`"
        )


def _ask(folder: RunFolder, info: RunInfo, job: CheckedJob, settings: Settings | None) -> None:
    spec = job.job.spec
    folder.write(
        upgrade_request.FILE,
        UpgradeRequest(
            manifest=str(Path(job.job.document.file).absolute()), settings=settings,
            worker=worker_config(job, kept=str(folder.code)),
            count=spec.workers.least + spec.workers.standby,
        ),
    )  # fmt: skip
    os.kill(info.launcher.pid, signal.SIGUSR2)


def _call_off(folder: RunFolder, info: RunInfo, job: CheckedJob) -> None:
    if info.running:
        _ask(folder, info, job, None)


def _made(folder: RunFolder, job: CheckedJob, until: float) -> JobStatus | None:
    """The status in which the job runs the new code; None if it does not in time. Raises UserError if it will
    not."""
    while time.monotonic() < until:
        status, info = folder.status(), folder.info()
        if status is not None and status.code == job.code and status.phase == "running":
            return status
        if status is not None and status.refusal and status.refused == job.code:
            raise UserError(f"job {job.job.name!r} runs on with the old code: {status.refusal}")
        if info is None or not info.running:
            raise UserError(f"job {job.job.name!r} has ended meanwhile: {_state(folder)}")
        if info.refused:
            raise UserError(f"job {job.job.name!r} runs on with the old code: {info.refused}")
        time.sleep(LOOK)
    return None


def _state(folder: RunFolder) -> str:
    status = folder.status()
    if status is None:
        return "nothing is known of it"
    if status.outcome:
        return f"it {status.outcome}{f': {status.message}' if status.message else ''}"
    here: Any = ", ".join(status.successors) or "none"
    problems = "; ".join(status.problems)
    return f"it is {status.phase}, workers of the new code that are there: {here}{f'; {problems}' if problems else ''}"
