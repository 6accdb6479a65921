"""Jobs with calls as DataFrames: what a stream has kept of answers leads to the bytes that it led to there,
whatever dies between two micro-batches; and what is not of this job's requests is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flamestream.connectors.recorded import RecordedSource
from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.job_record import JobRecord
from flamestream.job.validation import checked
from flamestream.model.errors import ClusterStateUnavailable, UserError
from flamestream.spark.batches.frame_job import frame_job
from flamestream.spark.frames.raised import raised_in_tasks
from support.frames.kept_answers import (
    ASKING,
    CHANCE,
    Beside,
    completed_stream,
    metas_of,
    stream_of,
)
from support.runs.cli_job import CliJob

pytestmark = [pytest.mark.spark, pytest.mark.frames]
ORDERS = {ASKING: 60, CHANCE: 200}
"""A run of the source has 64 of them."""


@pytest.fixture(scope="module", params=[ASKING, CHANCE], ids=["calls", "productions"])
def stream(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CliJob]:
    job = completed_stream(tmp_path_factory.mktemp("stream"), request.param, ORDERS[request.param])
    yield job
    job.close()


def most_runs(stream: CliJob) -> int:
    """Runs of a batch, so that there are some batches: answers of calls come alone, those of productions together."""
    return 2 if stream.spec["guarantee"] == "strong-productions" else 25


def test_a_batch_makes_of_kept_answers_what_the_stream_made(stream: CliJob, tmp_path: Path) -> None:
    site = Beside.of(stream, tmp_path)
    report = site.batch()
    assert (report.unanswered, report.problem) == (0, "")
    assert site.delivered() == metas_of(stream) and all(site.delivered()[name] for name in ("drawn", "sure"))


def test_micro_batches_make_of_kept_answers_what_the_stream_made(stream: CliJob, tmp_path: Path) -> None:
    site = Beside.of(stream, tmp_path)
    batches = site.micro_batches(most_runs=most_runs(stream))
    assert batches.run().batches >= 2
    assert batches.unanswered == 0
    assert site.delivered() == metas_of(stream)
    assert site.run(most_runs=most_runs(stream)).batches == 0, "nothing is left to do"


def test_micro_batches_that_die_before_and_behind_a_commit_make_the_same(
    stream: CliJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One dies when its batch is delivered and not committed, one when a batch is committed and Spark does not
    know of it."""
    site = Beside.of(stream, tmp_path)

    def lost(record: JobRecord) -> None:
        if record.committed == 2:
            raise ClusterStateUnavailable("gone")

    with pytest.raises(ClusterStateUnavailable):
        site.run(most_runs=most_runs(stream), spoil=lost)
    second = site.micro_batches(most_runs=most_runs(stream))
    commit, committed = second._committed.commit, second._committed

    def and_dies(*arguments: Any) -> None:
        commit(*arguments)
        if committed.record.committed == 2:
            raise ClusterStateUnavailable("died")

    monkeypatch.setattr(committed, "commit", and_dies)
    with pytest.raises(ClusterStateUnavailable):
        second.run()
    found = site.records.read()
    assert found is not None and found[0].committed == 2
    third = site.micro_batches(most_runs=most_runs(stream))
    assert third.run().batches >= 1
    assert third.unanswered == 0
    assert site.delivered() == metas_of(stream)


def test_micro_batches_stop_at_requests_without_an_answer(
    stream: CliJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in the snapshot, as they would be in a stream's, and counted however often it is run."""
    site, everything = Beside.of(stream, tmp_path), RecordedSource.entries
    last = list(site.graph.calls)[-1]  # what is behind another's answers

    def most(source: RecordedSource) -> list[Entry]:
        return everything(source)[: -5 if source.front.source == last else None]

    monkeypatch.setattr(RecordedSource, "entries", most)
    batches = site.micro_batches(most_runs=most_runs(stream))
    batches.run()
    assert batches.unanswered > 0
    again = site.micro_batches(most_runs=most_runs(stream))
    assert again.run().batches == 0
    assert again.unanswered == batches.unanswered


def test_answers_of_other_input_are_refused(stream: CliJob, tmp_path: Path) -> None:
    """Each run has a place of its own: what one delivered before it was refused, another would not make."""
    orders = stream.path / "orders.jsonl"
    kept = orders.read_text()
    orders.write_text(kept.replace("17\n", "71\n"))
    try:
        with pytest.raises(UserError, match="asked something else when it was answered"), raised_in_tasks():
            Beside.of(stream, tmp_path / "batch").batch()
        with pytest.raises(UserError, match="asked something else when it was answered"):
            Beside.of(stream, tmp_path / "batches").run(most_runs=most_runs(stream))
        orders.write_text(kept[: len(kept) // 2])
        with pytest.raises(UserError, match="was answered, and nothing here asks it"), raised_in_tasks():
            Beside.of(stream, tmp_path / "half").batch()
    finally:
        orders.write_text(kept)


def test_a_job_whose_answers_are_not_kept_is_refused(tmp_path: Path) -> None:
    job = checked(stream_of(tmp_path, ASKING, 3, journal={"folder": "journal"}).manifest)
    with pytest.raises(UserError, match=r"calls \(drawn\(\), checked\(\)\).* set journal.keep: true"):
        frame_job(job, takes_answers=True)


def test_a_history_has_no_answers(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a history has no answers"):
        frame_job(checked(stream_of(tmp_path, ASKING, 3).manifest))
