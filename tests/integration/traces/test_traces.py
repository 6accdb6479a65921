"""Traces of a job that runs for real, as OpenTelemetry's collector takes them: one tree a run, over two workers,
whoever is killed."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from flamestream.job.application import load
from support.documents import Folder
from support.runs.cli_job import REPOSITORY, CliJob, canonical, explained
from support.traces.collector import Collector, Taken, orphans
from support.traces.collector import collector as collector

INDEX = REPOSITORY / "examples" / "inverted_index.py"
DOCUMENTS = 40


@pytest.fixture
def jobs() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def made(jobs: ExitStack, folder: Path, endpoint: str | None, **changes: Any) -> CliJob:
    """A job over a list of files; it traces every run, if it has an endpoint."""
    tracing = {} if endpoint is None else {"tracing": {"endpoint": endpoint, "sample": "1/1"}}
    sinks = {"index": {"files": {"path": "index", "fsync": False}}}
    spec = {"sources": {"docs": {"files": {"path": "docs"}}}, "sinks": sinks, **tracing, **changes}
    folder.mkdir(exist_ok=True)
    Folder(folder / "docs").add(range(DOCUMENTS))
    job = CliJob(folder, INDEX, spec, spark=False)
    jobs.callback(job.close)
    return job


def runs_of(spans: list[Taken]) -> dict[str, set[str]]:
    """Names of the spans of each trace of a run."""
    found: dict[str, set[str]] = {}
    for span in spans:
        found.setdefault(span.trace, set()).add(span.name)
    return {trace: names for trace, names in found.items() if "recovery" not in names}


def test_the_spans_of_two_workers_form_one_tree_a_run(
    jobs: ExitStack, tmp_path: Path, collector: Collector
) -> None:
    job = made(jobs, tmp_path / "traced", collector.endpoint)
    with explained(job):
        job.start()
        assert job.end()[1]["outcome"] == "completed"
    spans = collector.spans()
    assert orphans(spans) == []
    runs = runs_of(spans)
    assert len(runs) >= DOCUMENTS
    crossed = [names for names in runs.values() if any(name.startswith("link") for name in names)]
    assert crossed and all({"source docs", "process", "sink index"} <= names for names in crossed)
    roots = [span for span in spans if span.name == "source docs"]
    assert {span.trace for span in roots} == set(runs) and not any(span.parent for span in roots)


def test_nothing_that_is_delivered_changes(jobs: ExitStack, tmp_path: Path, collector: Collector) -> None:
    plain, traced = made(jobs, tmp_path / "plain", None), made(jobs, tmp_path / "traced", collector.endpoint)
    for job in (plain, traced):
        with explained(job):
            job.start()
            assert job.end()[1]["outcome"] == "completed"
    load(INDEX, "graph")  # its classes, to read them back
    assert canonical(plain.delivered("index")) == canonical(traced.delivered("index"))


def test_a_job_whose_collector_is_away_goes_on_and_counts_what_is_dropped(
    jobs: ExitStack, tmp_path: Path
) -> None:
    job = made(jobs, tmp_path / "traced", "http://127.0.0.1:9")
    with explained(job):
        job.start()
        assert job.end()[1]["outcome"] == "completed"
    assert job.audit()["clean"]
