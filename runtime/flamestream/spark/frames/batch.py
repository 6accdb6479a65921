"""The batch runner: a job over all its input as one Spark batch, delivered to the sinks of the manifest.

A batch is one more attempt at the same job: what a sink has already, from an earlier batch or from the
streaming runner, is computed again, compared with the last bundle of each slot, and not delivered twice. So a
second run of a batch delivers nothing, and a run that died half-way goes on.

Keeps: the bytes, slots and order of the streaming runner. Does not: keep state, or choose the attempt.
"""

from dataclasses import dataclass
from typing import Any

from flamestream.model import payload as codec
from flamestream.model.meta import Meta
from flamestream.spark.frames.delivering import TASK, UNANSWERED, Deliver, delivered
from flamestream.spark.frames.inputs import pieces_of
from flamestream.spark.frames.job import FrameJob
from flamestream.spark.frames.pipeline import results_of
from flamestream.spark.frames.rows import HALT


@dataclass(frozen=True, slots=True)
class BatchReport:
    """The outcome of a batch."""

    delivered: int
    repeated: int
    """Results that the sinks had already."""
    problem: str
    """The error item that ended the job under `onError: fail`; "" if there was none. What was before it is
    delivered."""
    unanswered: int = 0
    """Requests of calls without an answer that was kept."""


def run_batch(spark: Any, job: FrameJob, attempt: int, partitions: int | None = None) -> BatchReport:
    """Run it. Raises GraphError or UserError if the job cannot be run as a batch, before anything is
    delivered."""
    pieces = pieces_of(spark, job.inputs)
    count = partitions or partitions_for(spark, job.slots, len(pieces))
    rows = results_of(spark, job.meaning(), pieces, partitions=count)
    deliver = Deliver(
        job.name,
        job.sink_places(),
        job.slots,
        count,
        attempt,
        compare=job.exactly_once,
        calls=job.calls(),
    )
    return report_of(job, delivered(rows, deliver))


def report_of(job: FrameJob, lines: list[Any]) -> BatchReport:
    """The reports of all tasks, added up."""
    halts = [(bytes(line.last), bytes(line.payload)) for line in lines if line.to == HALT]
    whole = [line for line in lines if line.slot == TASK and line.to >= 0]
    meta, error = min(halts, default=(b"", b""))
    problem = job.told(Meta(meta), codec.decode(error)) if meta else ""
    return BatchReport(
        sum(line.delivered for line in whole), sum(line.repeated for line in whole), problem,
        sum(line.delivered for line in lines if line.to == UNANSWERED),
    )  # fmt: skip


def partitions_for(spark: Any, slots: int, pieces: int) -> int:
    """As many as there are cores or pieces of input; a slot is never cut."""
    return int(min(slots, max(spark.sparkContext.defaultParallelism, pieces)))
