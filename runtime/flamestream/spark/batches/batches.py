"""A job's batches in Spark, one after the other: what there is to be read, computed with what the committed
snapshot has, and delivered.

Where a batch ends is decided here, by what is there, and is written down nowhere before its epoch commits: a
batch that is computed again may end elsewhere, and what was delivered of the one before is compared and
dropped all the same.

Keeps: one call at a time, each for one fence; every sink of every slot is open under it before anything is
computed. Does not: decide when (core/worker/batch_worker.py), or commit (the coordinator does).
"""

from dataclasses import replace
from typing import Any

from flamestream.connectors.files.windows import Cut
from flamestream.core.coordinator.snapshot_index import holds_output
from flamestream.core.protocol.snapshot import SlotOutput, SnapshotIndex
from flamestream.core.protocol.stored_rows import Numbers
from flamestream.core.worker.batch_worker import (
    BatchDone,
    ComputeBatch,
    InputAhead,
    LookAhead,
    SinksOpen,
)
from flamestream.model.errors import UserError
from flamestream.model.ids import Fence, SinkName
from flamestream.model.meta import LEAST, floor
from flamestream.model.time import END, Time
from flamestream.spark.frames.batch import report_of
from flamestream.spark.frames.commit import outputs_in, refs_in, replaced_in
from flamestream.spark.frames.consumer import TaskConsumer
from flamestream.spark.frames.delivering import SEGMENT, Deliver, SinkPlace, delivered
from flamestream.spark.frames.inputs import as_recorded, check_places, planner_of
from flamestream.spark.frames.job import FrameJob
from flamestream.spark.frames.kept_state import StatePlace
from flamestream.spark.frames.pipeline import results_of
from flamestream.spark.frames.raised import raised_in_tasks
from flamestream.spark.frames.slot_output import BEYOND


class Batches:
    """All calls block. They raise FlameStreamError."""

    def __init__(self, spark: Any, job: FrameJob, store: str, most_runs: int, partitions: int) -> None:
        """`store`: URL of the job's; `most_runs`: runs of each source in a batch, at most; `partitions`: so
        many tasks a stage, if there are as many slots."""
        job = replace(job, inputs=as_recorded(job.inputs))
        self._spark, self._job, self._store = spark, job, store
        self._planner = planner_of(job.inputs, most_runs)
        self._numbers = Numbers(job.graph.get())
        self._meaning = job.meaning(keep_state=True)
        # As long as this process lives (!): under one fence a slot has one writer.
        self._partitions = min(job.slots, partitions)
        self._end = self._planner.end()
        self._at = self._planner.begin()
        self._next = self._at

    def cancel(self) -> None:
        """Have the call at hand end soon; it raises."""
        self._spark.sparkContext.cancelAllJobs()

    def open(self, fence: Fence, index: SnapshotIndex) -> SinksOpen:
        """Refuse everything older in every sink, and go to the committed cut."""
        if index.held:
            raise UserError(holds_output(f"epoch {index.epoch}"))
        self._go_to(index.cut)
        if index.cut < END:
            check_places(self._planner, self._at, self._job.inputs, index.fronts)
        outputs = [
            output for place in self._job.sink_places().values() for output in self._opened(place, fence)
        ]
        return SinksOpen(fence, max([LEAST, *(output.t_last for output in outputs)]), outputs)

    def look(self, asked: LookAhead) -> InputAhead:
        """How far the next batch would come."""
        return InputAhead(asked.fence, self._told(self._ahead(asked.committed)))

    def compute(self, asked: ComputeBatch) -> BatchDone:
        """Compute and deliver everything that is there, or as much as a batch may have."""
        committed = asked.committed
        cut = self._ahead(committed.cut)
        lines = self._delivered(asked, cut) if cut.time > self._at.time else []
        report = report_of(self._job, lines)
        if report.problem:
            raise UserError(report.problem)
        return BatchDone(
            asked.fence, self._told(cut), [*refs_in(lines, SEGMENT)], [*replaced_in(lines)],
            self._planner.places_at(cut, committed.fronts), [*outputs_in(lines, self._names())], report.delivered,
        )  # fmt: skip

    def _delivered(self, asked: ComputeBatch, cut: Cut) -> list[Any]:
        committed, fence, job = asked.committed, asked.fence, self._job
        vertices = {each.source.front.front: each.vertex for each in job.inputs}
        pieces = self._planner.pieces(self._at, cut.time).items()
        place = StatePlace(self._store, committed.segments, self._numbers, self._numbers.known(committed))
        results = results_of(
            self._spark, self._meaning, [(vertices[front], piece) for front, (piece, _) in pieces],
            partitions=self._partitions, earlier=place,
        )  # fmt: skip
        deliver = Deliver(
            job.name, job.sink_places(), job.slots, self._partitions, fence.attempt, compare=job.exactly_once,
            floor=floor(committed.cut), until=BEYOND if self._is_end(cut) else floor(cut.time),
            layout=fence.layout, earlier=place, epoch=asked.epoch,
        )  # fmt: skip
        with raised_in_tasks():
            return delivered(results, deliver)

    def _ahead(self, committed: Time) -> Cut:
        """The end of the next batch."""
        if self._at.time < committed:
            self._at = self._next  # the batch that ended there is committed
        self._next = self._planner.next(self._at)
        return self._next

    def _go_to(self, cut: Time) -> None:
        """Stand at the committed cut."""
        begin = self._planner.begin()
        end = self._end if cut == END and self._end is not None else cut
        self._at = self._next = begin if cut <= begin.time else self._planner.at(begin, end)

    def _is_end(self, cut: Cut) -> bool:
        return self._end is not None and cut.time >= self._end

    def _told(self, cut: Cut) -> Time:
        """A cut as the coordinator knows it: END behind all input."""
        return END if self._is_end(cut) else cut.time

    def _names(self) -> dict[int, str]:
        return {number: place.name for number, place in self._job.sink_places().items()}

    def _opened(self, place: SinkPlace, fence: Fence) -> list[SlotOutput]:
        with TaskConsumer(place.spec, place.name, "batches", self._job.name, fence) as consumer:
            last = consumer.open(range(self._job.slots))
        return [
            SlotOutput(SinkName(place.name), slot, bundle.sequence, bytes(bundle.t_last))
            for slot, bundle in last.items()
        ]
