"""The canary of an upgrade on this machine: what the new code gives for the newest records, beside the code that
runs.

Does not: interpret anything (audit/canary_run.py), or refuse the upgrade (upgrade.py).
"""

from dataclasses import asdict
from typing import Any

import typer

from flamestream.audit.canary import Canary, in_words
from flamestream.audit.canary_run import canary, code_before_here, most_of
from flamestream.cli.output import answer, say
from flamestream.cli.snapshots import newest
from flamestream.job.exit_codes import ExitCode
from flamestream.job.manifest_cluster import Upgrade
from flamestream.job.validation import CheckedJob
from flamestream.model.quoted import plain
from flamestream.node.run_folder import RunFolder
from flamestream.node.worker_process import WorkerProcessConfig


def tried(job: CheckedJob, folder: RunFolder, runs: WorkerProcessConfig, most: int | None = None) -> Canary:
    """The canary of a job whose workers were told `runs`; `most`: records, if not as its manifest says."""
    return canary(
        job, lambda: code_before_here(folder, runs), lambda: newest(job.job), runs.journal, most=most
    )


def wanted(job: CheckedJob, folder: RunFolder, runs: WorkerProcessConfig) -> Canary:
    """The same for somebody who asks what differs, though the manifest says that an upgrade has none."""
    return tried(job, folder, runs, most_of(job.job.spec) or Upgrade().canary)


def say_diff(job: CheckedJob, folder: RunFolder, runs: WorkerProcessConfig, json: bool) -> None:
    """Say what differs, whether the job runs or not; then leave with what that means."""
    found = wanted(job, folder, runs)
    refused = plain(f"\nrefused: {found.refusal}") if found.refusal else ""
    answer(document(found), in_full(found) + refused, json)
    if found.refusal:
        raise typer.Exit(ExitCode.JOB_FAILED)
    if found.differs:
        raise typer.Exit(ExitCode.DIFFERENCE)


def say_summary(found: Canary) -> None:
    """In words, without the results that differ."""
    say(plain("\n".join(in_words(found))))


def in_full(found: Canary) -> str:
    """In words, with results that differ."""
    return plain("\n".join([*in_words(found), *(f"  {each}" for each in found.differences)]))


def document(found: Canary) -> dict[str, Any]:
    """For programs."""
    values = asdict(found) | {"refusal": found.refusal}
    return {name: plain(value) if isinstance(value, str) else value for name, value in values.items()}
