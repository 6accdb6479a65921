"""A manifest is read exactly, or refused with file, line, field and what to write instead."""

from pathlib import Path

import pytest

from flamestream.job.manifest import DeadLetter, parse_job, read
from flamestream.model.errors import ManifestError

GOOD = """\
apiVersion: flamestream.dev/v1alpha1
kind: FlameStreamJob
metadata: {name: inverted-index}
spec:
  application: {file: inverted_index.py, graph: graph}
  sources: {docs: {files: {path: docs}}}
  sinks: {index: {files: {path: out}}}
  guarantee: exactly-once
  workers: {replicas: 2}
  checkpoint: {interval: 1s, store: snapshots}
"""


def test_a_manifest_says_what_the_job_is() -> None:
    job = parse_job(GOOD, "job.yaml")
    assert (job.name, job.spec.application.graph, job.spec.workers.replicas) == ("inverted-index", "graph", 2)
    assert (job.spec.guarantee, job.spec.on_error, job.spec.workers.slots) == ("exactly-once", "fail", 256)


@pytest.mark.parametrize(
    ("text", "seconds"), [("50ms", 0.05), ("1s", 1.0), ("2m", 120.0), ("1.5s", 1.5), ("1h", 3600.0)]
)
def test_durations_are_written_with_their_unit(text: str, seconds: float) -> None:
    assert parse_job(GOOD.replace("1s", text), "job.yaml").spec.checkpoint.interval == seconds


def test_errors_can_go_to_a_dead_letter_sink() -> None:
    job = parse_job(GOOD + "  onError: {deadLetter: index}\n", "job.yaml")
    assert job.spec.on_error == DeadLetter(dead_letter="index")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "replicas",
            "replica",
            "job.yaml:9: spec.workers.replica: unknown field, "
            "did you mean 'replicas'? (fields of spec.workers: ",
        ),
        ("guarantee", "guarante", "job.yaml:8: spec.guarante: unknown field, did you mean 'guarantee'? ("),
        ("interval: 1s, ", "", "job.yaml:10: spec.checkpoint: the required field 'interval' is missing"),
        ("  workers: {replicas: 2}\n", "", "job.yaml:4: spec: the required field 'workers' is missing"),
        (
            "  workers:",
            "  calls: {first: {timeout: 1s}, asked-here: {timeout: soon}}\n  workers:",
            "job.yaml:9: spec.calls.asked-here.timeout: 'soon' is not a duration",
        ),
        (
            "  workers:",
            "  calls: {first: {timeout: 1s}, asked.here: {timeot: 1s}}\n  workers:",
            "job.yaml:9: spec.calls.asked.here.timeot: unknown field, did you mean 'timeout'? (fields of "
            "spec.calls.asked.here: timeout, retries, ",
        ),
        ("  workers:", "  egress: [1]\n  workers:", "job.yaml:9: spec.egress.0: Expected str, got int"),
        ("replicas: 2", "replicas: two", "job.yaml:9: spec.workers.replicas: Expected int | null, got str"),
        ("replicas: 2", "replicas: 0", "job.yaml:9: spec.workers.replicas: Expected int >= 1"),
        (
            "1s",
            "1",
            "job.yaml:10: spec.checkpoint.interval: 1 is not a duration: write a number above 0 with its "
            "unit, like 50ms",
        ),
        ("1s", "0s", "job.yaml:10: spec.checkpoint.interval: '0s' is not a duration"),
        ("1s", "1 sec", "job.yaml:10: spec.checkpoint.interval: '1 sec' is not a duration"),
        (
            "exactly-once",
            "exactly-ones",
            "job.yaml:8: spec.guarantee: 'exactly-ones' is unknown, did you mean 'exactly-once'?",
        ),
        (
            "inverted-index",
            "Inverted_Index",
            "job.yaml:3: metadata.name: 'Inverted_Index' is not a DNS label",
        ),
        (
            "v1alpha1",
            "v2",
            "job.yaml:1: apiVersion: 'flamestream.dev/v2' is unknown: write flamestream.dev/v1alpha1",
        ),
        ("FlameStreamJob", "Job", "job.yaml:2: kind: 'Job' is unknown: write FlameStreamJob"),
        (
            "{files: {path: out}}",
            "{}",
            "job.yaml:7: spec.sinks.index: it needs exactly one kind with its settings",
        ),
        (
            "{files: {path: docs}}",
            "docs",
            "job.yaml:6: spec.sources.docs: it needs exactly one kind with its settings",
        ),
        ("{docs: {files: {path: docs}}}", "{}", "job.yaml:6: spec.sources: Expected mapping of length >= 1"),
        (
            "exactly-once",
            "exactly-once\n  onError: fial",
            "job.yaml:9: spec.onError: write fail, or {deadLetter: SINK}",
        ),
        (
            "exactly-once",
            "exactly-once\n  onError: {deadletter: x}",
            "job.yaml:9: spec.onError.deadletter: unknown field, did you mean",
        ),
        (
            "exactly-once",
            "exactly-once\n  journal: {}",
            "job.yaml:9: spec.journal: it needs either a folder or a topic",
        ),
        (
            "exactly-once",
            "none\n  guarantee: none",
            "job.yaml:9: spec.guarantee is there twice (first on line 8)",
        ),
        ("{replicas: 2}", "{replicas: 2", "job.yaml:10: this is not YAML"),
    ],
)
def test_an_error_names_file_line_field_and_the_way_out(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(ManifestError) as caught:
        parse_job(GOOD.replace(old, new), "job.yaml")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "5\n",
        "[]\n",
        "a: !!python/object:os.system {}\n",
        "a: &x [*x]\n",
        "? {a: 1}\n: 2\n",
    ],
)
def test_anything_else_is_refused_as_a_manifest_error(text: str) -> None:
    with pytest.raises(ManifestError, match=r"job\.yaml"):
        parse_job(text, "job.yaml")


def test_relative_paths_start_at_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(GOOD)
    job = read(tmp_path / "job.yaml")
    assert job.path("docs") == tmp_path / "docs"
    assert job.path("/docs") == Path("/docs")


def test_a_manifest_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"job.yaml: cannot read the manifest: No such file"):
        read(tmp_path / "job.yaml")
    (tmp_path / "job.yaml").write_bytes(b"kind: \xff")
    with pytest.raises(ManifestError, match=r"job.yaml: the manifest is not UTF-8 \(byte 6\)"):
        read(tmp_path / "job.yaml")
