"""Bootstrap: the state that a history leads to becomes a job's first epoch, so that a stream begins with it.

The history is read as a batch for the sources that it stands in for, stamped from the beginning of time;
every front goes on behind it. Its results are not delivered: whoever wants them runs the history as a batch
with sinks of its own.

Keeps: one commit, of a job that has none yet. Does not: write down what the history was (cli/bootstrap.py
does, for an audit).
"""

from collections.abc import Sequence
from typing import Any

from flamestream.core.protocol.snapshot import FrontPosition
from flamestream.model.errors import UserError
from flamestream.model.time import FrontId, Time, last_below
from flamestream.spark.frames.batch import partitions_for, report_of
from flamestream.spark.frames.commit import Committed
from flamestream.spark.frames.delivering import Deliver, delivered
from flamestream.spark.frames.inputs import Input, pieces_of, planner_of
from flamestream.spark.frames.job import FrameJob
from flamestream.spark.frames.pipeline import results_of

EPOCH = 1


def bootstrap(spark: Any, job: FrameJob, committed: Committed, history: Sequence[Input], fronts: int) -> int:
    """Commit the state behind `history`; how many rows of state it is. Raises UserError if the job has state,
    or an item fails."""
    refuse_state(job.name, committed)
    pieces = pieces_of(spark, history)
    partitions = partitions_for(spark, job.slots, len(pieces))
    rows = results_of(spark, job.meaning(keep_state=True), pieces, partitions=partitions)
    deliver = Deliver(
        job.name,
        {},  # results stay where they are
        job.slots,
        partitions,
        committed.record.attempt,
        compare=False,
        earlier=committed.place,
        epoch=EPOCH,
    )
    lines = delivered(rows, deliver)
    if problem := report_of(job, lines).problem:
        raise UserError(f"the history has an item that fails: {problem}")
    cut = end_of(history)
    committed.commit(
        EPOCH,
        cut,
        [FrontPosition(FrontId(front), last_below(cut, FrontId(front)), {}) for front in range(fronts)],
        lines,
        {},
    )
    return sum(segment.rows for segment in committed.place.segments)


def refuse_state(job: str, committed: Committed) -> None:
    """Raises UserError if something was committed before."""
    if committed.record.committed:
        raise UserError(
            f"job {job!r} has epoch {committed.record.committed} already: only a job that never ran can "
            "begin with a history. `flamestream reset` makes it one that never ran; it says before what goes"
        )


def end_of(history: Sequence[Input]) -> Time:
    """The cut behind it."""
    cut = planner_of(history, 1).end()
    assert cut is not None, "a history is saved, so it has an end"
    return cut
