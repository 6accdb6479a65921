"""`flamestream audit --spark`: a large history, audited as a Spark job in the Spark of the manifest.

The same bounds, the same verdict and the same words as in one process; and the same reference, which here
interprets the keys of each partition (reference_rows.py). Input and output are read where there are cores,
and only counts come back.

Does not: audit other sinks than `files` sinks, graphs whose keys depend on each other, or jobs that began
with a savepoint: each is refused with what to do.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import StorageLevel

from flamestream.audit.answer_rows import answer_rows, asked_below, unpaired_rows
from flamestream.audit.answers import Unpaired
from flamestream.audit.begun import Begun, begun, check_history, history_of
from flamestream.audit.changed_code import judged_until, spans_behind
from flamestream.audit.committed import LastCommit, cluster_state_of, committed_here
from flamestream.audit.job_audit import beginning, check_guarantee, check_sources
from flamestream.audit.recorded import FrontInput, RecordedInput
from flamestream.audit.reference_rows import ReferenceJob, levels_of, rows_of
from flamestream.audit.report import Report, report_of
from flamestream.cli.spark.frames import spark_for
from flamestream.connectors import sinks
from flamestream.connectors.files.chunks import Chunk, chunks_of
from flamestream.connectors.files.pieces import Piece, Runs
from flamestream.core.protocol.snapshot import CodeSpan
from flamestream.fenced.reading import check_owner, owner_of
from flamestream.job.drills.status import CodeResult
from flamestream.job.recorded import recorded_sources
from flamestream.job.settings import fronts_of, known_to
from flamestream.job.validation import CheckedJob
from flamestream.model.errors import UserError
from flamestream.model.event_time import record_count
from flamestream.model.ids import SinkName
from flamestream.model.meta import Meta, floor, meta_of
from flamestream.model.time import END, START, FrontId, Time, front_of, step_after
from flamestream.node.run_folder import RunFolder
from flamestream.spark.batches.frame_job import frame_job
from flamestream.spark.frames.batch import partitions_for
from flamestream.spark.frames.inputs import Input, pieces_of
from flamestream.spark.frames.job import FrameJob
from flamestream.spark.frames.raised import raised_in_tasks
from flamestream.spark.frames.session import session_of
from flamestream.spark.tables.history import Due, History
from flamestream.testing.audit import Verdict

_COUNT: Final = "front int, records long, below long, last long"
_COUNT_ARROW: Final = pa.schema(
    [("front", pa.int32()), ("records", pa.int64()), ("below", pa.int64()), ("last", pa.int64())]
)
Pieces = list[tuple[int, Piece]]


def audited_with_spark(checked: CheckedJob, folder: RunFolder, *, changed: bool = False) -> Report:
    """The audit of a job of this machine. Raises UserError for what can only be audited in one process.
    `changed`: as for `audited`."""
    # What cannot be done is refused before Spark starts.
    levels_of(checked.graph)
    frame_job(checked, takes_answers=True)
    check_guarantee(checked)
    with cluster_state_of(folder) as zookeeper:
        last = committed_here(folder, zookeeper, checked.job.identity, checked.job.store)

    _judged(spans_behind(last), checked, changed=changed)

    def again() -> LastCommit:
        with cluster_state_of(folder) as zookeeper:
            return committed_here(folder, zookeeper, checked.job.identity, checked.job.store)

    # the job itself may run, with a Spark of its own
    place = tempfile.TemporaryDirectory(dir=folder.made().path, prefix="audit-")
    with place as scratch, spark_for(checked, RunFolder(Path(scratch))) as driver, raised_in_tasks():
        return audited_in(session_of(driver), checked, last, begun(folder), again=again, changed=changed)


def _judged(spans: Sequence[CodeSpan], checked: CheckedJob, *, changed: bool) -> tuple[Time, str]:
    """As `judged_until`: here the code of now is the only one."""
    try:
        return judged_until(spans, checked.code, all_of_it=changed)
    except UserError as error:
        raise UserError(f"{error}. Without --spark the copies that the run folder has are taken") from error


def audited_in(
    spark: Any, checked: CheckedJob, last: LastCommit, began: Begun | None = None, *,
    again: Callable[[], LastCommit] | None = None, changed: bool = False,
) -> Report:  # fmt: skip
    """The audit in a Spark session. `last` was read before this is called. `again`: as for `audited`."""
    checked = known_to(last.record, checked)
    check_sources(checked)
    cut = START if began is None else began.time
    job = frame_job(checked, cut, takes_answers=True)
    sinks = {number: place.name for number, place in job.sink_places().items()}
    # before the journals
    chunks = [(number, chunk) for number, name in sinks.items() for chunk in _chunks(checked, name)]
    # (!) Behind the sinks: other code may have taken over since `last`, and they have its results.
    spans = spans_behind(last if again is None else again())
    until, edits = _judged(spans, checked, changed=changed)
    recorded = RecordedInput(recorded_sources(checked, cut=cut), checked.sources, last)
    if recorded.savepoint is not None:
        raise UserError(
            "a job that began with a savepoint is audited in one process, which knows its state: "
            "leave out --spark"
        )
    job = _as_read(job, recorded)
    history, calls = History(spark, sinks, chunks), job.calls()
    answers = answer_rows(spark, _answers(spark, job, calls), cut)
    with ExitStack() as closing:
        closing.callback(history.close)
        below = (
            END if last.completed else max(history.below, last.cut, asked_below(answers) if calls else START)
        )
        pieces = _pieces(spark, job, below)
        past = _past(spark, checked, job, began)
        counts = _counts(spark, [piece for _, piece in pieces], last.cut)
        expected = _expected(spark, checked, job, recorded, [*past, *pieces])
        if calls:  # it is looked at twice
            closing.callback(expected.persist(StorageLevel.DISK_ONLY).unpersist)
        found = history.compared(_of_sinks(expected, calls), _due(last, cut, until))
        unpaired = unpaired_rows(expected, answers, calls, floor(cut)) if calls and until == END else {}
    fronts = recorded.counted(
        {each.source.front.front: counts.get(each.source.front.front, (0, 0)) for each in job.inputs}
    )
    fronts = _with_answers(fronts, calls, unpaired, completed=last.completed)
    verdict = Verdict(**asdict(found))
    # What is judged ends where other code takes over, so all of it is of the first.
    codes = [
        CodeResult(since=each.since, digest=each.digest, results=verdict.expected)
        for each in spans[:1]
        if not changed
    ]
    return report_of(checked, last, verdict, [], fronts, beginning(None, began), edits, codes)


def _as_read(job: FrameJob, recorded: RecordedInput) -> FrameJob:
    """Answers up to where their journals were read (!): a job that runs asks on, and of timed sources what
    that asks about is not read."""
    inputs = (
        replace(each, until=recorded.until(each.source.front.front)) if each.source.front.of_call else each
        for each in job.inputs
    )
    return replace(job, inputs=tuple(inputs))


def _answers(spark: Any, job: FrameJob, calls: Mapping[int, str]) -> Pieces:
    """The journals of answers, by the vertex that their requests go to."""
    sinks = {name: vertex for vertex, name in calls.items()}
    return [
        (sinks[each.name], piece)
        for each in job.inputs
        if each.source.front.of_call
        for _, piece in pieces_of(spark, [each])
    ]


def _with_answers(
    fronts: list[FrontInput], calls: Mapping[int, str], unpaired: Mapping[int, Unpaired], *, completed: bool
) -> list[FrontInput]:
    """The input, with what is wrong between the requests and the answers of calls."""
    wrong = {calls[vertex]: [*found.findings(completed=completed)] for vertex, found in unpaired.items()}
    return [replace(front, findings=[*front.findings, *wrong.pop(front.source, ())]) for front in fronts]


def _chunks(checked: CheckedJob, sink: str) -> list[Chunk]:
    written = sinks.log_folder(checked.job.sink(sink))
    if written is None:
        raise UserError(
            f"sink {sink!r} is not a `files` sink, and `audit --spark` reads no other: leave out --spark"
        )
    folder = Path(written)
    check_owner(str(folder), (checked.job.identity, SinkName(sink)), owner_of(folder))
    return chunks_of(folder)


def _due(last: LastCommit, cut: Time, until: Time) -> Due:
    begins, end = floor(cut), floor(until) if until < END else None
    return Due(begins=begins, until=end) if last.completed else Due(floor(last.cut), last.held, begins, end)


# --- what is expected ---------------------------------------------------------------------------------------


def _expected(spark: Any, checked: CheckedJob, job: FrameJob, recorded: RecordedInput, pieces: Pieces) -> Any:
    entered = {each.source.front.front: _first_behind(each, recorded) for each in job.inputs}
    known = {front: meta for front, meta in entered.items() if meta is not None}
    sources = tuple((front.front, str(front.source)) for front in fronts_of(checked))
    meaning = ReferenceJob(job.graph, job.slots, job.dead_letter is None, known, sources)
    return rows_of(spark, meaning, pieces, partitions=partitions_for(spark, job.slots, len(pieces)))


def _of_sinks(expected: Any, calls: Mapping[int, str]) -> Any:
    """Without requests, which are delivered to no sink."""
    from pyspark.sql import functions as F

    return expected.where(~F.col("to").isin(list(calls))) if calls else expected


def _first_behind(each: Input, recorded: RecordedInput) -> Meta | None:
    """The meta of a timed front's first record that had not entered; None if that is not known."""
    front = each.source.front
    count = recorded.entered(front.front) if front.timed else None
    if count is None:
        return None
    first = step_after(each.source.behind, front.front, front.step)
    # Stamps of a timed front are all one step apart, so runs are counted and not read.
    step = step_after(first, front.front, front.step) - first
    return meta_of(Time(first + count // front.run_length * step), count % front.run_length)


def _pieces(spark: Any, job: FrameJob, timed_below: Time) -> Pieces:
    """All that is journalled, and of timed fronts what is below `timed_below`."""
    timed = [each for each in job.inputs if each.source.front.timed]
    journalled = [each for each in job.inputs if not each.source.front.timed]
    if timed_below == END:
        return [*pieces_of(spark, journalled), *pieces_of(spark, timed)]
    entered = [(vertex, Until(piece, timed_below)) for vertex, piece in pieces_of(spark, timed, timed_below)]
    return [*pieces_of(spark, journalled), *entered]


@dataclass(frozen=True, slots=True)
class Until:
    """The runs of a piece below a time. Not all kinds of pieces end there by themselves."""

    piece: Piece
    end: Time

    def runs(self) -> Runs:
        return takewhile(lambda run: run[0] < self.end, self.piece.runs())


def _past(spark: Any, checked: CheckedJob, job: FrameJob, began: Begun | None) -> Pieces:
    """The history that the job began with. Raises UserError if it is another now."""
    if began is None:
        return []
    vertices = {each.name: each.vertex for each in job.inputs}
    sources = history_of(checked, began.paths)
    pieces = pieces_of(
        spark, [Input(vertices[source.front.source], source, bounded=True) for source in sources]
    )
    last = max((row.last for row in _counted(spark, [piece for _, piece in pieces], END)), default=None)
    check_history(began, None if last is None else Time(last))
    return pieces


def _counts(spark: Any, pieces: Sequence[Piece], cut: Time) -> dict[FrontId, tuple[int, int]]:
    """The number of all records of each front, and of those below the cut."""
    found: dict[FrontId, tuple[int, int]] = {}
    for row in _counted(spark, pieces, cut):
        records, below = found.get(FrontId(row.front), (0, 0))
        found[FrontId(row.front)] = records + row.records, below + row.below
    return found


def _counted(spark: Any, pieces: Sequence[Piece], cut: Time) -> list[Any]:
    """A row for each piece and front."""
    count = len(pieces)
    rows: list[Any] = (
        spark.range(0, count, 1, max(1, count)).mapInArrow(_Count(tuple(pieces), cut), _COUNT).collect()
    )
    return rows


@dataclass(frozen=True, slots=True)
class _Count:
    """Counts the records of the pieces whose numbers arrive."""

    pieces: Sequence[Piece]
    cut: Time

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        found: dict[int, list[int]] = {}
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            for time, _, records in self.pieces[number].runs():
                counts = found.setdefault(front_of(time), [0, 0, 0])
                counts[0] += record_count(records)
                counts[1] += record_count(records) if time < self.cut else 0
                counts[2] = max(counts[2], time)
        rows = [(front, *counts) for front, counts in found.items()]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(_COUNT_ARROW)
        arrays = [pa.array(column, each.type) for column, each in zip(columns, _COUNT_ARROW, strict=True)]
        yield pa.record_batch(arrays, schema=_COUNT_ARROW)
