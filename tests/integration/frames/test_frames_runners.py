"""The batch runner and the micro-batch runner deliver the reference's bytes once, whatever is tried twice or
dies between."""

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import PySparkException

from flamestream.core.protocol.job_record import JobRecord
from flamestream.job.application import load
from flamestream.model.errors import ClusterStateUnavailable, GraphError, UserError
from flamestream.simulation import graphs
from flamestream.spark.frames.raised import raised_in_tasks
from support.docs.examples import EXAMPLES, example_file
from support.frames.frame_jobs import Site, graph_of, lines

pytestmark = [pytest.mark.spark, pytest.mark.frames]
STAGES = (graphs.scatter, graphs.concatenation, graphs.rekey, graphs.windows, graphs.rounds)


def drawn(seed: int, *stages: graphs.Stage, sources: int = 2) -> Any:
    return graph_of(
        *(lambda stream, stage=stage: stage(Random(seed), stream) for stage in stages), sources=sources
    )


def failing_at(number: str) -> Any:
    def failing(payload: tuple[str, str]) -> tuple[str, str]:
        if payload[1] == number:
            raise ValueError(f"cannot take {number}")
        return payload

    return lambda stream: stream.map(failing)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Two sources through every kind of keyed stage, and a few records that fail."""
    stages = (graphs.sometimes_raising, *STAGES)
    return Site(tmp_path, drawn(3, *stages), texts=[lines(1, 41), lines(2, 23)])


def test_a_batch_delivers_the_bytes_of_the_reference_and_a_second_one_nothing(site: Site) -> None:
    report = site.batch()
    assert site.delivered() == site.expected()
    assert report.delivered == sum(map(len, site.expected().values())) and report.repeated == 0
    again = site.batch(attempt=2)
    assert (again.delivered, again.repeated) == (0, report.delivered)
    assert site.delivered() == site.expected()


def test_a_batch_over_changed_input_is_refused_and_delivers_nothing(site: Site) -> None:
    site.batch()
    before = site.delivered()
    (site.path / "s0.txt").write_text(lines(9, 41))
    with (
        pytest.raises(
            UserError,
            match=r"sink '.*', slot \d+: the result of the run at time .* The functions or the input",
        ),
        raised_in_tasks(),
    ):
        site.batch(attempt=2)
    assert site.delivered() == before


def test_a_sink_that_gets_nothing_is_there_to_be_read(tmp_path: Path) -> None:
    site = Site(
        tmp_path, graph_of(lambda stream: stream.filter(lambda pair: False)), texts=["a 1\n", "b 2\n"]
    )
    site.batch()
    assert site.delivered() == {"out": [], "dead": []}


def test_a_batch_that_computes_nothing_of_what_was_delivered_is_refused(tmp_path: Path) -> None:
    graph = graph_of(lambda stream: stream.filter(lambda pair: pair[0] == "a"))
    site = Site(tmp_path, graph, texts=["a 1\n", "b 2\n"])
    site.batch()
    (site.path / "s0.txt").write_text("c 1\n")
    with pytest.raises(UserError, match="is not computed again"), raised_in_tasks():
        site.batch(attempt=2)


def test_under_fail_a_batch_delivers_what_is_before_the_first_error_and_names_the_record(
    tmp_path: Path,
) -> None:
    graph = graph_of(
        failing_at("30"), failing_at("20"), lambda s: graphs.concatenation(Random(1), s), sources=1
    )
    site = Site(tmp_path, graph, dead_letter=None, texts=[lines(1, 60)])
    told = (
        "test_frames_runners.failing_at.<locals>.failing raised ValueError: "
        "cannot take 20 (record 20 of source 's0')"
    )
    assert site.batch().problem.splitlines()[0].endswith(told)
    assert site.delivered() == site.expected()
    assert 0 < len(site.delivered()["out"]) <= 20


def test_a_cycle_that_changes_its_key_is_refused_with_the_reason(tmp_path: Path) -> None:
    def across(stream: Any) -> Any:
        head = stream.graph.loop("across", max_iterations=3)
        turned = (
            stream.map(lambda p: (p[0], p[1], 0))
            .merge(head)
            .group(2, key=lambda p: p[0])
            .map(lambda w: (w[-1][1], w[-1][0], w[-1][2] + 1))
        )
        head.close(turned.filter(lambda p: p[2] < 2))
        return turned.filter(lambda p: p[2] >= 2).map(lambda p: p[:2])

    site = Site(tmp_path, graph_of(across, sources=1), texts=["a b\n"])
    with (
        pytest.raises(
            GraphError,
            match=r"came back to the operation keyed by .* with another key \('a' before, 'b' now\)",
        ),
        raised_in_tasks(),
    ):
        site.batch()
    assert not (tmp_path / "out").exists(), "something was delivered"


def test_a_killed_python_worker_changes_no_byte(tmp_path: Path) -> None:
    marker = tmp_path / "died"

    def dies_once(payload: tuple[str, str]) -> tuple[str, str]:
        if payload[1].startswith("25") and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return payload

    graph = graph_of(lambda s: graphs.concatenation(Random(1), s), lambda s: s.map(dies_once), sources=1)
    site = Site(tmp_path, graph, texts=[lines(1, 60)])
    site.batch()
    assert marker.exists()
    assert site.delivered() == site.expected()


def test_micro_batches_deliver_the_bytes_of_the_reference(site: Site) -> None:
    totals = site.run(most_runs=8)
    assert totals.batches >= 3
    assert site.delivered() == site.expected()
    assert totals.delivered == sum(map(len, site.expected().values()))


def test_a_query_that_dies_between_delivery_and_commit_goes_on_without_a_repeat(site: Site) -> None:
    def lost(record: JobRecord) -> None:
        if record.committed == 2:
            raise ClusterStateUnavailable("gone")

    with pytest.raises(ClusterStateUnavailable):
        site.run(most_runs=8, spoil=lost)
    found = site.records.read()
    assert found is not None and found[0].committed == 1
    totals = site.run(most_runs=8)
    assert totals.repeated > 0, "the second batch had been delivered"
    assert site.delivered() == site.expected()
    assert site.run().batches == 0, "nothing is left to do"


def test_a_batch_that_begins_behind_the_stop_is_left_to_the_next_query(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = site.micro_batches(most_runs=8)
    start = batches._start

    def stopped(*first: Any) -> Any:
        batches.stop()
        query = start(*first)
        with suppress(PySparkException):
            query.processAllAvailable()
        return query

    monkeypatch.setattr(batches, "_start", stopped)
    assert batches.run().batches == 0
    site.run(most_runs=8)
    assert site.delivered() == site.expected()


def test_a_file_that_has_grown_behind_the_end_of_its_job_is_named(tmp_path: Path) -> None:
    """Its new records would have times below what is committed, where the other one was longer."""
    site = Site(tmp_path, drawn(3, graphs.concatenation), texts=[lines(1, 9), lines(2, 40)])
    site.run(most_runs=30)
    (tmp_path / "s0.txt").write_text(lines(1, 12))
    with pytest.raises(UserError, match=r"source 's0': 9 of its records are below .* begin behind 12"):
        site.run(most_runs=30)


FILES = {
    "concatenation": ["letters.txt"], "word_count": ["lines.txt"], "minute_counts": ["events.txt"],
    "turnover": ["sales.txt"], "two_front_merge": ["prices.txt", "orders.txt"], "inverted_index": [],
    "sessions": ["clicks.jsonl"], "top_pages": ["clicks.jsonl"], "first_clicks": ["clicks.jsonl"],
    "led_to": ["views.jsonl", "clicks.jsonl"], "in_euros": ["rates.jsonl", "sold.jsonl"],
}  # fmt: skip
"""The data of examples; none: this project's documents."""


def example_at(path: Path, example: str) -> Site:
    """An example over its own data."""
    graph = load(example_file(f"{example}.py"), "graph")
    data = FILES[example]
    for name in data:
        source = name.partition(".")[0] if len(data) > 1 else graph.sources[0].name
        shutil.copy(example_file(name), path / f"{source}.txt")
    if not data:
        shutil.copytree(EXAMPLES.parent / "docs" / "decisions" / "engine", path / graph.sources[0].name)
    return Site(path, graph, documents=not data)


@pytest.mark.slow
@pytest.mark.parametrize("example", FILES)
def test_batch_and_micro_batches_of_the_examples_deliver_the_bytes_of_the_reference(
    tmp_path: Path, example: str
) -> None:
    for name in ("batch", "micro"):
        (tmp_path / name).mkdir()
        site = example_at(tmp_path / name, example)
        if name == "batch":
            site.batch()
        else:
            assert site.run(most_runs=30).batches
        assert site.delivered() == site.expected() and any(site.delivered().values())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_micro_batches_of_drawn_graphs_deliver_the_bytes_of_the_reference(tmp_path: Path, seed: int) -> None:
    stages = Random(seed).sample((graphs.sometimes_raising, *STAGES), 3)
    site = Site(tmp_path, drawn(seed, *stages), texts=[lines(seed, 31), lines(seed + 1, 17)])
    assert site.run(most_runs=7).batches >= 2
    assert site.delivered() == site.expected()
