"""A manifest, its graph and what the outside can do fit together, or the error says which part does not and what to do."""

import pytest

from flamestream.cli.settings_of import coordinator_settings, worker_settings
from flamestream.cli.validation import checked
from flamestream.model.errors import FlameStreamError, UserError

from .conftest import JobFolder


def refused(job: JobFolder, **changes: str) -> str:
    with pytest.raises(UserError) as caught:
        checked(job.write(**changes))
    return str(caught.value).replace(str(job.path), "")


def test_a_job_whose_parts_fit_is_accepted(job: JobFolder) -> None:
    accepted = checked(job.write())
    assert accepted.graph.name == "upper"
    assert accepted.job.source("lines")["files"]["path"] == str(job.path / "lines.txt")


NO_LINES = "/job.yaml:6: spec.sources: graph 'upper' has a source 'lines', which is missing here: is 'line'"
NO_BAD = "/job.yaml:7: spec.sinks: graph 'upper' has a sink 'bad', which is missing here: add spec.sinks.bad"
FOLLOWED = "{lines: {files: {path: x, follow: true}}}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"sources": "{line: {files: {path: x}}}"},
            "/job.yaml:6: spec.sources: graph 'upper' has a source 'lines', which is missing here: is 'line'",
        ),
        (
            {"sinks": "{shouts: {discard: {}}, more: {discard: {}}}"},
            "/job.yaml:7: spec.sinks.more: graph 'upper' has no sink 'more' (it has shouts)",
        ),
        ({"sinks": "{shouts: {discard: {}}}"}, "/job.yaml:7: spec.sinks.shouts: a discard sink cannot fence"),
        ({"sinks": "{shouts: {files: {paht: out}}}"}, "/job.yaml:7: spec.sinks.shouts.files: Object contains unknown field `paht`"),
        ({"sinks": "{shouts: {kafca: {}}}"}, "/job.yaml:7: spec.sinks.shouts.kafca: there is no such kind; choose one of files, socket"),
        (
            {"sources": "{lines: {files: {path: x, follow: true}}}"},
            "/job.yaml:6: spec.sources.lines: this source needs a journal under exactly-once",
        ),
        ({"onError": "{deadLetter: shouts}"}, "/job.yaml:11: spec.onError.deadLetter: sink 'shouts' gets results of the graph already"),
        (
            {"onError": "{deadLetter: bad}"},
            "/job.yaml:7: spec.sinks: graph 'upper' has a sink 'bad', which is missing here: add spec.sinks.bad",
        ),
        ({"application": "{file: none.py, graph: graph}"}, "/none.py: the application file is not there"),
        ({"application": "{file: job.yaml, graph: graph}"}, "/job.yaml: the application must be a .py file"),
    ],
)
def test_a_job_whose_parts_do_not_fit_is_refused_with_place_and_way_out(job: JobFolder, changes: dict[str, str], message: str) -> None:
    assert refused(job, **changes).startswith(message)


def test_a_journal_makes_a_source_that_needs_one_acceptable(job: JobFolder) -> None:
    checked(job.write(sources=FOLLOWED, journal="{folder: journal}"))


def test_without_a_guarantee_nothing_needs_a_fence_or_a_journal(job: JobFolder) -> None:
    given = {"sources": FOLLOWED, "sinks": "{shouts: {discard: {}}}"}
    accepted = checked(job.write(**given, guarantee="none"))
    assert not worker_settings(accepted).durable
    assert coordinator_settings(accepted).interval_us is None


@pytest.mark.parametrize(
    ("application", "message"),
    [
        ("import flamestream as fs\n", ".py: there is no graph named 'graph'; it has none: create one"),
        ("import flamestream as fs\nother = fs.Graph('o')\n", ".py: there is no graph named 'graph'; it has other"),
        ("x = (\n", ".py:1: the application does not load: "),
        ("import nothing_of_this_name\n", ".py:1: the application does not load: "),
        ("\n\nraise ValueError('no')\n", ".py:3: the application does not load: "),
        ("import flamestream as fs\ngraph = fs.Graph('g')\ngraph.source('lines')\n", "graph 'g' has no sink"),
    ],
)
def test_an_application_that_does_not_load_is_named_with_the_line(job: JobFolder, application: str, message: str) -> None:
    manifest = job.write(application)
    with pytest.raises(FlameStreamError) as caught:
        checked(manifest)
    assert message in str(caught.value)
    assert caught.value.category == "user"


def test_the_settings_are_those_of_the_manifest(job: JobFolder) -> None:
    accepted = checked(job.write(workers="{replicas: 3, slots: 16}", checkpoint="{interval: 50ms, store: s}"))
    worker, coordinator = worker_settings(accepted), coordinator_settings(accepted)
    assert (worker.slots, worker.exactly_once, worker.durable, worker.dead_letter) == (16, True, True, None)
    assert [(front.front, front.source, front.timed) for front in worker.fronts] == [(0, "lines", True)]
    assert (coordinator.workers, coordinator.slots, coordinator.interval_us, coordinator.fronts) == (3, 16, 50_000, 1)
    assert (coordinator.graph, coordinator.python) == (accepted.graph.identity, worker.python)
