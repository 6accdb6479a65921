"""`flamestream run` under `guarantee: micro-batch`: the job as a Structured Streaming query, until its input
ends or it is stopped.

Does not: compute anything (spark/frames/microbatch.py).
"""

import signal
from collections.abc import Callable
from contextlib import ExitStack

from flamestream.audit.begun import begun
from flamestream.cli.output import say_outcome
from flamestream.cli.spark.frames import attempt_of, spark_for, write_status
from flamestream.job.exit_codes import ExitCode
from flamestream.job.settings import local_coordinator
from flamestream.job.validation import CheckedJob
from flamestream.model.errors import UserError
from flamestream.model.time import START
from flamestream.node.run_folder import RunFolder
from flamestream.node.samples_file import BatchSamples
from flamestream.spark.batches.frame_job import frame_job, lacks_answers
from flamestream.spark.frames.commit import Committed
from flamestream.spark.frames.microbatch import MicroBatches
from flamestream.spark.frames.session import session_of
from flamestream.spark.frames.stages import stages_of


def run(
    checked: CheckedJob, folder: RunFolder, *, drain: bool = False, changed: bool = False, json: bool
) -> ExitCode:
    """Run it; how it ended is said and returned. `drain`: a signal lets the batch at hand commit."""
    # What cannot be done is refused before Spark starts.
    stages_of(checked.graph)
    frame_job(checked, takes_answers=True)
    job, spec = checked.job, checked.job.spec
    with ExitStack() as running:
        records = running.enter_context(attempt_of(checked, folder.made(), changed=changed))
        began = begun(folder)
        frames = frame_job(checked, START if began is None else began.time, takes_answers=True)
        committed = Committed(
            records.record, records.write, job.store, checked.graph, local_coordinator(checked)
        )
        driver = running.enter_context(spark_for(checked, folder))

        samples = BatchSamples(folder.path)

        def status(outcome: str = "", message: str = "") -> None:
            record, count = committed.record, batches.totals.delivered
            samples.take(count, epoch=record.committed, attempt=record.attempt)
            write_status(folder, job.name, record, count, outcome, message, record.committed)

        batches = MicroBatches(
            session_of(driver), frames, committed, folder.path / "spark",
            interval=float(spec.checkpoint.interval), most_runs=spec.limits.runs, looked=status,
        )  # fmt: skip
        status()
        ended, totals = _until_stopped(batches, drain), batches.totals
        if ended == "completed" and not totals.problem and batches.unanswered:
            totals.problem = lacks_answers(batches.unanswered)
        outcome = "failed" if totals.problem else ended
        status(outcome, totals.problem)
    epoch, category = committed.record.committed, "user" if totals.problem else ""
    text = f"{totals.delivered:,} results delivered in {totals.batches} batches; epoch {epoch}"
    figures = {
        "batches": totals.batches,
        "delivered": totals.delivered,
        "repeated": totals.repeated,
        "epoch": epoch,
    }
    say_outcome(job.name, outcome, category, totals.problem, json, text, **figures)
    return ExitCode.JOB_FAILED if totals.problem else ExitCode.OK


def _until_stopped(batches: MicroBatches, drain: bool) -> str:
    """Run it: completed, or how a signal ended it."""
    ended = "completed"

    def stop(*_: object) -> None:
        nonlocal ended
        if drain and ended == "completed":
            ended = "drained"
            batches.drain()
        else:
            ended = "stopped"
            batches.stop()

    before: dict[int, Callable[..., object] | int | None] = {
        number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        batches.run()
    except UserError:
        # One that an error item has caused is told as the job's outcome.
        if not batches.totals.problem:
            raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return ended
