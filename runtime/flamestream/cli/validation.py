"""Whether a manifest, its graph and what the outside can do fit together. Opens nothing; reads the application's file only.

Keeps: what passes here starts. Does not: look into folders or servers (the run says so if they are missing).
"""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from flamestream.adapters import sinks, sources
from flamestream.adapters.sinks import SinkAbilities
from flamestream.adapters.sources import SourceAbilities
from flamestream.cli.application import load
from flamestream.cli.manifest import DeadLetter, Job, read
from flamestream.model.graph import Graph


@dataclass(frozen=True, slots=True)
class CheckedJob:
    """A job whose parts fit together."""

    job: Job
    graph: Graph
    sources: dict[str, SourceAbilities]
    sinks: dict[str, SinkAbilities]


def checked(manifest: Path) -> CheckedJob:
    """The job of `manifest`. Raises ManifestError, GraphError or UserError."""
    job = read(manifest)
    graph = load(job.path(job.spec.application.file), job.spec.application.graph)
    _same_names(job, "sources", {vertex.name for vertex in graph.sources}, set(job.spec.sources), graph)
    wanted = {vertex.name for vertex in graph.sinks} | dead_letter_of(job)
    _same_names(job, "sinks", wanted, set(job.spec.sinks), graph)
    of_sources = {
        name: sources.describe(job.source_spec(name), f"{job.document.where(('spec', 'sources', name))}") for name in job.spec.sources
    }
    of_sinks = {name: sinks.describe(job.sink_spec(name), f"{job.document.where(('spec', 'sinks', name))}") for name in job.spec.sinks}
    _guarantee_holds(job, of_sources, of_sinks)
    return CheckedJob(job, graph, of_sources, of_sinks)


def dead_letter_of(job: Job) -> set[str]:
    """The sink that error items go to, if any."""
    return {job.spec.on_error.dead_letter} if isinstance(job.spec.on_error, DeadLetter) else set()


def _same_names(job: Job, part: str, wanted: set[str], given: set[str], graph: Graph) -> None:
    for name in sorted(wanted - given):
        close = get_close_matches(name, given, n=1)
        hint = f"; is {close[0]!r} meant?" if close else f": add spec.{part}.{name}"
        raise job.error(("spec", part), f"graph {graph.name!r} has a {part[:-1]} {name!r} that the manifest does not have{hint}")
    for name in sorted(given - wanted):
        has = ", ".join(sorted(wanted))
        raise job.error(("spec", part, name), f"graph {graph.name!r} has no {part[:-1]} {name!r} (it has {has}): remove it, or rename it")


def _guarantee_holds(job: Job, of_sources: dict[str, SourceAbilities], of_sinks: dict[str, SinkAbilities]) -> None:
    guarantee = job.spec.guarantee
    for name, sink in of_sinks.items():
        if guarantee == "exactly-once" and not sink.fences:
            raise job.error(
                ("spec", "sinks", name),
                "this sink cannot fence: it would take output from a worker that has been replaced, so it cannot be exactly-once. "
                "Choose a sink that can (files, socket), or guarantee: at-least-once",
            )
    for name, source in of_sources.items():
        if guarantee != "none" and not source.timed and job.spec.journal is None:
            raise job.error(
                ("spec", "sources", name),
                f"this source needs a journal under {guarantee}: the order in which its records entered is known nowhere else. "
                "Add spec.journal, like journal: {folder: journal}, or choose guarantee: none",
            )
