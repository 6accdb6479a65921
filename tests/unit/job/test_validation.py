"""A manifest, its graph and what the outside can do fit together, or the error says which part does not and
what to do."""

import re

import pytest

from flamestream.job.journal_of import journal_of
from flamestream.job.settings import local_coordinator, worker_settings
from flamestream.job.validation import checked
from flamestream.model.calls.call import calls_of
from flamestream.model.errors import FlameStreamError, ManifestError, UserError
from support.runs.job_folder import JobFolder


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
        (
            {"sinks": "{shouts: {files: {paht: out}}}"},
            "/job.yaml:7: spec.sinks.shouts.files: Object contains unknown field `paht`",
        ),
        (
            {"sinks": "{shouts: {pigeon: {}}}"},
            "/job.yaml:7: spec.sinks.shouts.pigeon: there is no such kind; choose one of files",
        ),
        (
            {"sources": "{lines: {files: {path: x, format: jsonl, type: Absent}}}"},
            "/job.yaml:6: spec.sources.lines.files.type: 'Absent': no class of the application has this name",
        ),
        (
            {"sinks": "{shouts: {rolling: {path: s3://b/out, type: Absent}}}"},
            "/job.yaml:7: spec.sinks.shouts.rolling.type: 'Absent': "
            "no class of the application has this name",
        ),
        (
            {"sinks": "{shouts: {rolling: {path: s3://b/out, rollSeconds: 0}}}"},
            "/job.yaml:7: spec.sinks.shouts.rolling: `rollSeconds` must be above 0",
        ),
        (
            {"sources": "{lines: {files: {path: x, follow: true}}}"},
            "/job.yaml:6: spec.sources.lines: this source needs a journal under exactly-once",
        ),
        (
            {"sinks": "{shouts: {http: {url: 'http://x/', contract: idempotent}}}"},
            "/job.yaml:7: spec.sinks.shouts: a server that only drops repeated ids cannot keep out a worker "
            "that was replaced",
        ),
        (
            {"sources": "{lines: {http: {listen: 'localhost:80', keys: k}}}", "guarantee": "none"},
            "/job.yaml:6: spec.sources.lines: this source answers when a record is in the journal, and under "
            "none there is no journal",
        ),
        (
            {"sources": "{lines: {http: {listen: 'localhost:80', keys: k}}}", "guarantee": "at-most-once"},
            "/job.yaml:6: spec.sources.lines: this source answers when a record is in the journal, and under "
            "at-most-once there is no journal",
        ),
        (
            {"sinks": "{shouts: {discard: {}}}", "guarantee": "at-most-once"},
            "/job.yaml:7: spec.sinks.shouts: a discard sink cannot fence",
        ),
        (
            {"sources": "{lines: {postgres: {dsn: 'user=me password=x', table: t, key: id, columns: [a]}}}"},
            "/job.yaml:6: spec.sources.lines.postgres: a password does not belong into a manifest",
        ),
        (
            {"sinks": "{shouts: {postgres: {dsn: 'user=me', table: t, columns: [a], key: [b]}}}"},
            "/job.yaml:7: spec.sinks.shouts.postgres: `key` names b, which `columns` has not",
        ),
        (
            {"onError": "{deadLetter: shouts}"},
            "/job.yaml:11: spec.onError.deadLetter: sink 'shouts' gets results of the graph already",
        ),
        (
            {"onError": "{deadLetter: bad}"},
            "/job.yaml:7: spec.sinks: graph 'upper' has a sink 'bad', which is missing here: "
            "add spec.sinks.bad",
        ),
        ({"application": "{file: none.py, graph: graph}"}, "/none.py: the application file is not there"),
        ({"application": "{file: job.yaml, graph: graph}"}, "/job.yaml: the application must be a .py file"),
    ],
)
def test_a_job_whose_parts_do_not_fit_is_refused_with_place_and_way_out(
    job: JobFolder, changes: dict[str, str], message: str
) -> None:
    assert refused(job, **changes).startswith(message)


@pytest.mark.parametrize("named", ["name='pairs'", "name='twos', was='pairs'"])
def test_no_state_is_forgotten_that_the_graph_has(job: JobFolder, named: str) -> None:
    code = "import flamestream as fs\ngraph = fs.Graph('upper')\n"
    code += f"graph.source('lines').group(2, key=len, {named}).sink('shouts')\n"
    with pytest.raises(
        ManifestError,
        match=r"graph 'upper' has an operation or a table 'pairs', so its state is not forgotten",
    ):
        checked(job.write(code, upgrade="{drop: [gone, pairs]}"))


def test_no_table_is_forgotten_that_the_graph_has(job: JobFolder) -> None:
    code = "import flamestream as fs\ngraph = fs.Graph('upper')\ntable = graph.table('seen', initial=int)\n"
    code += "graph.source('lines').upsert(table, key=len).committed.sink('shouts')\n"
    with pytest.raises(
        ManifestError, match="has an operation or a table 'seen', so its state is not forgotten"
    ):
        checked(job.write(code, upgrade="{drop: [gone, seen]}"))


def test_a_journal_makes_a_source_that_needs_one_acceptable(job: JobFolder) -> None:
    checked(job.write(sources=FOLLOWED, journal="{folder: journal}"))


def test_a_job_that_skips_needs_no_journal_and_its_workers_and_coordinator_know(job: JobFolder) -> None:
    found = checked(job.write(sources=FOLLOWED, guarantee="at-most-once"))
    workers, coordinator = worker_settings(found), local_coordinator(found)
    assert (workers.skips, workers.two_phase, workers.exactly_once, workers.durable) == (
        True,
        True,
        True,
        True,
    )
    assert (coordinator.two_phase, coordinator.exactly_once, coordinator.durable) == (True, True, True)
    assert not worker_settings(checked(job.write(sources=FOLLOWED, guarantee="none"))).skips


@pytest.mark.parametrize(
    ("interval", "guarantee", "report"),
    [("1s", "exactly-once", 500_000), ("200ms", "exactly-once", 100_000), ("1s", "at-most-once", 0)],
)
def test_workers_report_rarely_where_many_jobs_report_but_not_where_it_delays_an_epoch_or_loses_more(
    job: JobFolder, interval: str, guarantee: str, report: int
) -> None:
    found = checked(
        job.write(
            sources=FOLLOWED,
            journal="" if guarantee == "at-most-once" else "{folder: journal}",
            guarantee=guarantee,
            checkpoint=f"{{interval: {interval}, store: snapshots}}",
        )
    )
    assert worker_settings(found, shared=True).report == report
    assert worker_settings(found).report == 0


def test_without_a_guarantee_nothing_needs_a_fence_or_a_journal(job: JobFolder) -> None:
    given = {"sources": FOLLOWED, "sinks": "{shouts: {discard: {}}}"}
    accepted = checked(job.write(**given, guarantee="none"))
    assert not worker_settings(accepted).durable
    assert local_coordinator(accepted).interval_us is None


@pytest.mark.parametrize(
    ("application", "message"),
    [
        ("import flamestream as fs\n", ".py: there is no graph named 'graph'; it has none: create one"),
        (
            "import flamestream as fs\nother = fs.Graph('o')\n",
            ".py: there is no graph named 'graph'; it has other",
        ),
        ("x = (\n", ".py:1: the application does not load: "),
        ("import nothing_of_this_name\n", ".py:1: the application does not load: "),
        ("\n\nraise ValueError('no')\n", ".py:3: the application does not load: "),
        ("import flamestream as fs\ngraph = fs.Graph('g')\ngraph.source('lines')\n", "graph 'g' has no sink"),
    ],
)
def test_an_application_that_does_not_load_is_named_with_the_line(
    job: JobFolder, application: str, message: str
) -> None:
    manifest = job.write(application)
    with pytest.raises(FlameStreamError) as caught:
        checked(manifest)
    assert message in str(caught.value)
    assert caught.value.category == "user"


def test_the_settings_are_those_of_the_manifest(job: JobFolder) -> None:
    accepted = checked(job.write(workers="{replicas: 3, slots: 16}", checkpoint="{interval: 50ms, store: s}"))
    worker, coordinator = worker_settings(accepted), local_coordinator(accepted)
    assert (worker.slots, worker.exactly_once, worker.durable, worker.dead_letter) == (16, True, True, None)
    assert [(front.front, front.source, front.timed) for front in worker.fronts] == [(0, "lines", True)]
    assert (coordinator.workers, coordinator.slots, coordinator.interval_us, coordinator.fronts) == (
        3,
        16,
        50_000,
        1,
    )
    assert (coordinator.graph, coordinator.python) == (accepted.graph.identity, worker.python)


@pytest.mark.parametrize(("sink", "remembered"), [("{files: {path: out}}", True), ("{discard: {}}", False)])
def test_workers_know_whether_consumers_say_what_they_were_given(
    job: JobFolder, sink: str, remembered: bool
) -> None:
    accepted = checked(job.write(sinks=f"{{shouts: {sink}}}", guarantee="at-least-once"))
    assert worker_settings(accepted).remembered is remembered


# --- a journal in a topic -----------------------------------------------------------------------------------

IN_KAFKA = (
    "{lines: {kafka: {brokers: 'a:1', topic: t, settings: {ssl.ca.location: ca.pem}, secrets: "
    "{sasl.password: {env: P}}}}}"
)


def test_a_topic_is_reached_as_the_source_is_unless_it_says_otherwise(job: JobFolder) -> None:
    read = checked(job.write(sources=IN_KAFKA, journal="{kafka: {topic: order}, keep: true}")).job
    found = journal_of(read)
    assert found is not None and found.kafka is not None and found.keep
    ca = str(read.path("ca.pem"))
    assert (found.kafka.brokers, found.kafka.settings, found.kafka.secrets["sasl.password"].env) == (
        "a:1",
        {"ssl.ca.location": ca},
        "P",
    )
    own = journal_of(
        checked(job.write(sources=IN_KAFKA, journal="{kafka: {topic: order, brokers: 'b:2'}}")).job
    )
    assert own is not None and own.kafka is not None
    assert (own.kafka.brokers, own.kafka.settings) == ("b:2", {})


@pytest.mark.parametrize(
    ("sources", "journal", "words"),
    [
        (FOLLOWED, "{kafka: {topic: order}}", "no source is in Kafka"),
        (IN_KAFKA, "{kafka: {topic: order, settings: {a: b}}}", "settings and secrets belong to brokers"),
        (
            IN_KAFKA,
            "{kafka: {topic: order, brokers: 'b:2', settings: {sasl.password: x}}}",
            "which is a secret",
        ),
        (
            IN_KAFKA,
            "{kafka: {topic: order, brokers: 'b:2', settings: {acks: 1}}}",
            "exactly-once rests on it",
        ),
        (IN_KAFKA, "{kafka: {topic: order}, folder: journal}", "either a folder or a topic"),
    ],
)
def test_a_journal_that_cannot_be_says_what_to_write(
    job: JobFolder, sources: str, journal: str, words: str
) -> None:
    said = refused(job, sources=sources, journal=journal)
    assert words in said and "spec.journal" in said


IDLE = """\
import flamestream as fs

graph = fs.Graph("upper")
graph.source("lines", at=len, unit="s", idle="1m").sink("shouts")
"""


def test_idle_is_warned_of_where_it_means_nothing(job: JobFolder) -> None:
    (warning,) = checked(job.write(IDLE)).warnings
    assert re.match(r"spec\.sources\.lines: idle= in .*\.py:4 has no effect here", warning)


def test_a_journal_that_no_source_needs_is_warned_of(job: JobFolder) -> None:
    """One that was removed may have used it."""
    (warning,) = checked(job.write(journal=JOURNAL)).warnings
    assert "spec.journal: no source of this job needs a journal: remove it" in warning


def test_arrival_times_are_refused_where_they_would_be_written_nowhere(job: JobFolder) -> None:
    with pytest.raises(
        ManifestError, match=r"job\.yaml.*\.py:4 says clock=\"arrival\" for source 'lines'.*follow: true"
    ):
        checked(job.write(IDLE.replace('at=len, unit="s", idle="1m"', 'clock="arrival"')))


CLOCK = """\
import flamestream as fs

graph = fs.Graph("upper")
graph.source("lines").merge(graph.clock("tick", every="1s").map(str)).sink("shouts")
"""


def test_a_clock_is_a_source_that_the_manifest_does_not_name(job: JobFolder) -> None:
    found = checked(job.write(CLOCK, journal="{folder: journal}"))
    fronts = worker_settings(found).fronts
    assert [(front.source, front.timed, front.replayable) for front in fronts] == [
        ("lines", True, True),
        ("tick", False, False),
    ]
    assert local_coordinator(found).fronts == 2


def test_a_clock_needs_a_journal_and_no_line_in_the_manifest(job: JobFolder) -> None:
    with pytest.raises(ManifestError, match=r"spec\.sources.*needs a journal under exactly-once"):
        checked(job.write(CLOCK))
    for named in ("tick", "lines"):
        sources = f"{{{named}: {{clock: {{every: 5}}}}}}"
        with pytest.raises(
            ManifestError, match=rf"spec\.sources\.{named}: a clock is said by the graph alone"
        ):
            checked(job.write(CLOCK, journal="{folder: journal}", sources=sources))


ASKS = """\
import flamestream as fs

graph = fs.Graph("shout")
graph.source("lines").call({call}, name="asked").sink("shouts")
"""
JOURNAL = "{folder: journal}"
NEVER = "{asked: {doubt: never}}"


def test_a_call_is_in_no_manifest_and_needs_a_journal(job: JobFolder) -> None:
    code = ASKS.format(call="str.upper")
    found = checked(job.write(code, journal=JOURNAL))
    assert [(front.source, front.of_call) for front in worker_settings(found).fronts] == [
        ("lines", False),
        ("asked()", True),
    ]
    with pytest.raises(ManifestError, match=r"call asked\(\) needs a journal under exactly-once"):
        checked(job.write(code))


def test_runs_leave_room_for_answers_between_them_only_where_there_are_some(job: JobFolder) -> None:
    plain = worker_settings(checked(job.write()))
    asking = worker_settings(checked(job.write(guarantee="strong-productions", journal=JOURNAL)))
    assert plain.fronts[0].step == 1 < asking.fronts[0].step


def test_a_call_that_is_made_once_needs_to_know_what_it_began(job: JobFolder) -> None:
    code = ASKS.format(call='fs.call(doubt="never")(str.upper)')
    with pytest.raises(ManifestError, match=r'call asked\(\) has doubt="never", and under none'):
        checked(job.write(code, guarantee="none"))


def test_so_does_one_that_the_manifest_says_is(job: JobFolder) -> None:
    code = ASKS.format(call="str.upper")
    with pytest.raises(ManifestError, match=r'call asked\(\) has doubt="never", and under none'):
        checked(job.write(code, guarantee="none", calls=NEVER))


def test_a_call_that_the_manifest_makes_once_has_no_cache(job: JobFolder) -> None:
    code = ASKS.format(call='fs.call(cache="1m")(str.upper)')
    with pytest.raises(ManifestError, match=r"spec\.calls\.asked\.doubt: call asked\(\) has a cache"):
        checked(job.write(code, journal=JOURNAL, calls=NEVER))


def test_what_one_manifest_changes_of_a_call_is_not_changed_for_the_next(job: JobFolder) -> None:
    code = ASKS.format(call="str.upper")
    doubts = []
    for change in ({"calls": NEVER}, {}):
        found = checked(job.write(code, journal=JOURNAL, **change))
        doubts += [call.settings.doubt for call in calls_of(found.graph).values()]
    assert doubts == ["never", "again"]


def test_a_micro_batch_makes_no_calls(job: JobFolder) -> None:
    with pytest.raises(ManifestError, match=r"a micro-batch job makes no calls, and its graph has asked\(\)"):
        checked(job.write(ASKS.format(call="str.upper"), guarantee="micro-batch", journal=JOURNAL))


def test_under_strong_productions_a_graph_with_functions_needs_a_journal(job: JobFolder) -> None:
    with pytest.raises(
        ManifestError, match=r"call production:\?\.upper\(\) needs a journal under strong-productions"
    ):
        checked(job.write(guarantee="strong-productions"))
    found = checked(job.write(guarantee="strong-productions", journal=JOURNAL))
    assert [(front.source, front.of_call) for front in worker_settings(found).fronts] == [
        ("lines", False),
        ("production:?.upper()", True),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"calls": "{'production:1': {timeout: 1s}}"},
            r"spec\.calls\.production:1: graph 'upper' has no call",
        ),
        ({"egress": "[localhost]"}, r"spec\.egress: graph 'upper' has no call, so nothing is asked"),
    ],
)
def test_a_production_is_no_call_of_the_users(job: JobFolder, change: dict[str, str], message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        checked(job.write(guarantee="strong-productions", journal=JOURNAL, **change))
