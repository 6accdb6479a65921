"""`flamestream validate`: is this a job that can run?"""

from pathlib import Path
from typing import Annotated

import typer

from flamestream.cli.output import Json, as_json, say
from flamestream.cli.validation import CheckedJob, checked

NEEDS_ARGUMENTS = True
ManifestFile = Annotated[Path, typer.Argument(help="The job's manifest, a YAML file.", show_default=False)]


def command(manifest: ManifestFile, json: Json = False) -> None:
    """Check a manifest and its graph, without starting anything.

    Example: [bold]flamestream validate job.yaml[/bold]. Exit code 2 if it cannot run.
    """
    job = checked(manifest)
    if json:
        as_json({"valid": True, **summary_of(job)})
    else:
        say(f"{manifest}: job {job.job.name!r} can run: {_sentence(job)}")


def summary_of(job: CheckedJob) -> dict[str, object]:
    """What `--json` says of a job that can run."""
    spec = job.job.spec
    return {
        "job": job.job.name,
        "graph": job.graph.name,
        "guarantee": spec.guarantee,
        "sources": sorted(spec.sources),
        "sinks": sorted(spec.sinks),
        "workers": spec.workers.replicas,
        "standby": spec.workers.standby,
        "labels": job.job.labels,
        "pyFiles": [str(file) for file in job.py_files],
    }


def _sentence(job: CheckedJob) -> str:
    spec = job.job.spec
    standby = f" and {spec.workers.standby} standby" if spec.workers.standby else ""
    return (
        f"{', '.join(sorted(spec.sources))} -> {job.graph.name} ({len(job.graph.vertices)} operations) -> {', '.join(sorted(spec.sinks))}, "
        f"{spec.guarantee}, {spec.workers.replicas} workers{standby}"
    )
