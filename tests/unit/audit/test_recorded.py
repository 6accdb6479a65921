"""An audit reads the input again with the times that it had."""

from dataclasses import replace

import pytest

from flamestream.core.protocol.known_fronts import KnownFront
from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.core.worker.front import TimedFront
from flamestream.job.recorded import recorded_sources
from flamestream.job.validation import checked
from flamestream.model.errors import Corrupt, UserError
from flamestream.model.ids import Offset
from flamestream.model.time import END, ROOM, START, FrontId, Time, next_time
from support.runs.job_folder import JobFolder
from support.runs.recorded import recorded_runs


def test_a_timed_source_has_the_runs_that_its_front_stamps(job: JobFolder) -> None:
    manifest = job.write(sources="{lines: {generator: {count: 150}}}")
    front = TimedFront(FrontPosition(FrontId(0), START, {}), run_length=64)
    front.take(Offset(0), range(150))
    front.end()
    stamped = [front.stamp() for _ in range(3)]
    assert recorded_runs(checked(manifest), END) == [
        (entry.time, list(payloads)) for entry, payloads in stamped
    ]


def test_so_has_one_whose_job_asks_and_whose_runs_leave_room_for_answers(job: JobFolder) -> None:
    manifest = job.write(
        sources="{lines: {generator: {count: 150}}}",
        guarantee="strong-productions",
        journal="{folder: journal}",
    )
    source = recorded_sources(checked(manifest))[0]
    front = TimedFront(FrontPosition(FrontId(0), START, {}), run_length=64, step=ROOM)
    front.take(Offset(0), range(150))
    front.end()
    stamped = [front.stamp() for _ in range(3)]
    assert list(source.below(END)) == [(entry.time, list(payloads)) for entry, payloads in stamped]


def test_lines_of_a_file_are_records(job: JobFolder) -> None:
    [(_, records)] = recorded_runs(checked(job.write()), END)
    assert records == ["a", "b", "c"]


def test_only_runs_below_the_end_are_read(job: JobFolder) -> None:
    unbounded = checked(job.write(sources="{lines: {generator: {}}}"))
    everything = recorded_runs(checked(job.write(sources="{lines: {generator: {count: 640}}}")), END)
    assert recorded_runs(unbounded, everything[5][0]) == everything[:5]


def test_a_rate_is_not_waited_for(job: JobFolder) -> None:
    runs = recorded_runs(checked(job.write(sources="{lines: {generator: {count: 100, rate: 0.001}}}")), END)
    assert [records for _, records in runs] == [[number] for number in range(100)]


def test_a_journalled_source_whose_journal_is_trimmed_is_refused_with_the_reason(job: JobFolder) -> None:
    manifest = job.write(sources="{lines: {files: {path: ., follow: true}}}", journal="{folder: journal}")
    with pytest.raises(
        UserError, match=r"source 'lines' cannot be read again: .* Set spec.journal.keep: true before the run"
    ):
        recorded_runs(checked(manifest), END)


def test_a_source_that_is_gone_is_named(job: JobFolder) -> None:
    manifest = job.write()
    (job.path / "lines.txt").unlink()
    with pytest.raises(Corrupt, match=r"source 'lines' cannot be read again: .*lines.txt"):
        recorded_runs(checked(manifest), END)


def test_a_timed_source_that_came_later_has_its_times_from_there_on(job: JobFolder) -> None:
    lines = checked(job.write())
    behind = Time(77 << 12)
    known = (KnownFront("other", away=True), KnownFront("lines", behind))
    (source,) = recorded_sources(replace(lines, known=known))
    assert source.front.front == 1
    assert [time for time, _ in source.below(END)] == [next_time(behind, FrontId(1))]


def test_a_timed_source_that_was_away_cannot_be_judged(job: JobFolder) -> None:
    known = (KnownFront("lines", Time(77 << 12), again=True),)
    with pytest.raises(UserError, match="source 'lines' was away for a while"):
        recorded_sources(replace(checked(job.write()), known=known))
