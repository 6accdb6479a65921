"""`flamestream validate`: is this a job that can run?"""

from flamestream.cli.frame import ManifestFile
from flamestream.cli.output import Json, answer
from flamestream.connectors import clients
from flamestream.job.validation import CheckedJob, checked


def command(manifest: ManifestFile, json: Json = False) -> None:
    """Check a manifest, its graph and its input, without starting anything.

    The first 20 records of files and generators go through the graph, and each function is called twice: one
    that depends on clock or chance, or changes its input, is named.

    Example: [bold]flamestream validate job.yaml[/bold]. Exit code 2 if it cannot run.
    """
    from flamestream.node.trial import tried  # here: it brings the interpreter

    job = checked(manifest)
    trial = tried(job)
    warnings = [*job.warnings, *(text for text in trial.warnings if text not in job.warnings)]
    lines = [f"{manifest}: job {job.job.name!r} can run: {_sentence(job)}"]
    for name in job.sources:
        if name in job.graph.calls:
            lines.append(f"call {name}: not made, so what follows from its answers was not tried")
            continue
        said = (
            f"{trial.tried[name]} records went through"
            if name in trial.tried
            else "not asked, since it is a server or a class"
        )
        lines.append(f"source {name!r}: {said}")
    lines += [f"client {name!r}: {said}" for name, said in clients_of(job).items()]
    lines += [f"warning: {warning}" for warning in warnings]
    answer(
        {"valid": True, **summary_of(job), "warnings": warnings, "tried": trial.tried}, "\n".join(lines), json
    )


def summary_of(job: CheckedJob) -> dict[str, object]:
    """The summary of a job that can run, for `--json`."""
    spec = job.job.spec
    return {
        "job": job.job.name,
        "graph": job.graph.name,
        "guarantee": spec.guarantee,
        "sources": sorted(spec.sources),
        "sinks": sorted(spec.sinks),
        "clients": clients_of(job),
        "workers": spec.workers.least,
        "mostWorkers": spec.workers.most,
        "standby": spec.workers.standby,
        "labels": job.job.labels,
        "pyFiles": [str(file) for file in job.py_files],
    }


def clients_of(job: CheckedJob) -> dict[str, str]:
    """Clients that functions of calls ask with, by name: each server, without secrets."""
    spec = job.job.spec.clients
    return {name: clients.settings_of(job.job.client(name)).described() for name in sorted(spec)}


def _sentence(job: CheckedJob) -> str:
    spec = job.job.spec
    standby = f" and {spec.workers.standby} standby" if spec.workers.standby else ""
    workers = f"{spec.workers.least}" + (f" to {spec.workers.most}" if spec.workers.max else "")
    reads = sorted(spec.sources.keys() - job.graph.calls.keys())
    return (
        f"{', '.join(reads)} -> {job.graph.name} ({len(job.graph.vertices)} operations) -> "
        f"{', '.join(sorted(spec.sinks))}, {spec.guarantee}, {workers} workers{standby}"
    )
