"""The micro-batch runner: a job as a Structured Streaming query, each batch of which is an epoch.

Spark asks how far a batch comes and has its runs read. `foreachBatch` then computes it with what keys had before,
delivers, writes the new states as segments, and commits all of it by one compare-and-set of the job record.

A query begins where the job record is, whoever has written that, with a checkpoint that no other query has had: what
Spark would remember of an earlier one says nothing about what has been committed since. So a batch that is computed
again may end elsewhere than the one that died: what was delivered is compared and dropped, by a later batch if it lies
behind this one's end.

Of journalled sources it reads what a stream has recorded, so of calls the answers. Requests that have none
are rows of the snapshot: a batch has those of the one before.

Keeps: exactly once per sink; the bytes of the other runners; no number of an epoch is used twice. Does not: make
calls, or stamp.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from flamestream.connectors.files.windows import Cut
from flamestream.model.errors import FlameStreamError, Retryable, UserError
from flamestream.model.meta import floor
from flamestream.model.time import Time
from flamestream.spark.calls.pairing import with_requests
from flamestream.spark.frames.batch import BatchReport, partitions_for, report_of
from flamestream.spark.frames.commit import Committed
from flamestream.spark.frames.delivering import Deliver, delivered
from flamestream.spark.frames.inputs import as_recorded, check_places, planner_of
from flamestream.spark.frames.job import FrameJob
from flamestream.spark.frames.pipeline import levels_of
from flamestream.spark.frames.raised import raised_in_tasks
from flamestream.spark.frames.runs_source import cut_of, source_for
from flamestream.spark.frames.slot_output import BEYOND

LOOK: Final = 0.2


@dataclass(slots=True)
class Totals:
    """Counts of one run of the query."""

    batches: int = 0
    delivered: int = 0
    repeated: int = 0
    problem: str = ""


class _Stopped(Exception):
    """A batch is not begun any more. No error of the job: only Spark gets to see it."""


class MicroBatches:
    """A query, from its start to its end. `scratch`: a folder for Spark's checkpoint; `interval`: the seconds between
    batches."""

    def __init__(
        self,
        spark: Any,
        job: FrameJob,
        committed: Committed,
        scratch: Path,
        *,
        interval: float,
        most_runs: int,
        looked: Callable[[], None],
    ) -> None:
        job = replace(job, inputs=as_recorded(job.inputs))
        self._spark, self._job, self._committed = spark, job, committed
        # a name of its own (!): an orphan of the attempt before may still write into that one's
        self._checkpoint = scratch / f"micro-batch-{committed.record.attempt}"
        self._interval, self._most, self._looked = interval, most_runs, looked
        self._planner = planner_of(job.inputs, most_runs)
        self._meaning = job.meaning(keep_state=True)
        self._partitions = partitions_for(spark, job.slots, 1)
        self._end = self._planner.end()
        self._over, self._draining = threading.Event(), threading.Event()
        self._busy = False
        self._error: FlameStreamError | None = None
        self.totals = Totals()

    def run(self) -> Totals:
        """Until all input is through, `stop` is called, or it fails: then the error is raised."""
        first = self._first()
        if self._at_end(self._committed.record.cut):
            return self.totals
        query = self._start(first)
        try:
            while not self._over.wait(LOOK) and query.isActive:
                self._looked()
                if self._draining.is_set() and not self._busy:
                    self._over.set()
            failed = None if self._over.is_set() else query.exception()
        finally:
            query.stop()
        if self._error is not None:
            raise self._error
        if failed is not None:
            with raised_in_tasks():
                raise failed
        return self.totals

    @property
    def unanswered(self) -> int:
        """Requests of calls without an answer that was kept."""
        return sum(ref.rows for ref in self._committed.requests)

    def stop(self) -> None:
        """Be over at once: what a batch has delivered is not committed then. Safe in a signal handler."""
        self._over.set()

    def drain(self) -> None:
        """Be over when the batch at hand is committed. Safe in a signal handler."""
        self._draining.set()

    def _start(self, first: Cut | None) -> Any:
        begun = self._committed.record.announced
        source = source_for(self._job, self._meaning, self._most, first)
        self._spark.dataSource.register(source)
        writer = self._spark.readStream.format(source.name()).load().writeStream
        writer = writer.foreachBatch(lambda rows, number: self._batch(rows, begun + number + 1, number))
        return (
            writer.option("checkpointLocation", str(self._checkpoint))
            .trigger(processingTime=f"{self._interval} seconds")
            .start()
        )

    def _first(self) -> Cut | None:
        index = self._committed.index
        if index is None:
            return None
        cut = self._planner.at(self._planner.begin(), index.cut)
        check_places(self._planner, cut, self._job.inputs, index.fronts)
        return cut

    # --- a batch: in a thread of py4j's ---------------------------------------------------------------------

    def _batch(self, rows: Any, epoch: int, number: int) -> None:
        self._busy = True  # before it looks whether this is drained (!): from here on a drain waits for it
        try:
            if self._over.is_set() or self._draining.is_set():
                self._over.set()
                # Not a return (!): Spark would go on behind what nobody has computed.
                raise _Stopped(f"batch {number} began when the run was over: it is for the next one")
            self._compute(rows, epoch, self._cut(number))
            if self._draining.is_set() or self._at_end(self._committed.record.cut):
                self._over.set()
        except FlameStreamError as error:
            # A stop ends the batch that it finds: that is no failure, and the next start computes it again.
            if not (self._over.is_set() and isinstance(error, Retryable)):
                self._error = error
            self._over.set()
            raise
        finally:
            self._busy = False

    def _compute(self, rows: Any, epoch: int, cut: Cut) -> None:
        committed, places = self._committed, self._job.sink_places()
        results = levels_of(rows, self._meaning, partitions=self._partitions, earlier=committed.place)
        place = committed.place
        results = with_requests(results, place.store, committed.requests, place.numbers)
        deliver = Deliver(
            self._job.name, places, self._job.slots, self._partitions, committed.record.attempt,
            compare=self._job.exactly_once, floor=floor(committed.record.cut),
            until=BEYOND if self._at_end(cut.time) else floor(cut.time), earlier=committed.place,
            calls=self._job.calls(), epoch=epoch,
        )  # fmt: skip
        with raised_in_tasks():
            lines = delivered(results, deliver)
        report = report_of(self._job, lines)
        self._count(report)
        if report.problem:
            raise UserError(report.problem)
        fronts = self._planner.places_at(cut, committed.fronts)
        committed.commit(
            epoch, cut.time, fronts, lines, {number: place.name for number, place in places.items()}
        )

    def _count(self, report: BatchReport) -> None:
        totals = self.totals
        totals.batches += 1
        totals.delivered += report.delivered
        totals.repeated += report.repeated
        totals.problem = report.problem

    def _cut(self, number: int) -> Cut:
        """Where batch `number` ends, from Spark's offset log: its third line."""
        return cut_of((self._checkpoint / "offsets" / str(number)).read_text().splitlines()[2])

    def _at_end(self, cut: Time) -> bool:
        return self._end is not None and cut >= self._end
