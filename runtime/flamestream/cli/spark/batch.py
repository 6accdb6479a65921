"""`flamestream run --runner batch`: the job over all its input as one Spark batch.

Does not: compute anything (spark/frames/batch.py).
"""

from flamestream.cli.output import errors, say_outcome
from flamestream.cli.spark.frames import attempt_of, spark_for, write_status
from flamestream.job.exit_codes import ExitCode
from flamestream.job.validation import CheckedJob
from flamestream.node.run_folder import RunFolder
from flamestream.spark.batches.frame_job import frame_job, lacks_answers
from flamestream.spark.frames.batch import run_batch
from flamestream.spark.frames.raised import raised_in_tasks
from flamestream.spark.frames.session import session_of
from flamestream.spark.frames.stages import stages_of


def run(checked: CheckedJob, folder: RunFolder, *, changed: bool = False, json: bool) -> ExitCode:
    """Run it to its end; how it ended is said and returned."""
    # What cannot be done is refused before Spark starts.
    stages_of(checked.graph)
    frames = frame_job(checked, takes_answers=True)
    with (
        attempt_of(checked, folder.made(), changed=changed, takes_history=False) as records,
        spark_for(checked, folder) as driver,
    ):
        record = records.record
        folder.status_file.unlink(missing_ok=True)
        if errors.is_terminal and not json:
            errors.print(f"job {checked.job.name!r}: attempt {record.attempt}, a batch", markup=False)
        with raised_in_tasks():
            report = run_batch(session_of(driver), frames, record.attempt)
    job, problem = checked.job.name, report.problem
    if not problem and report.unanswered:
        problem = lacks_answers(report.unanswered)
    outcome, category = ("failed", "user") if problem else ("completed", "")
    write_status(folder, job, record, report.delivered, outcome, problem)
    text = f"{report.delivered:,} results delivered" + (
        f", {report.repeated:,} were there already" if report.repeated else ""
    )
    say_outcome(
        job, outcome, category, problem, json, text, delivered=report.delivered, repeated=report.repeated
    )
    return ExitCode.JOB_FAILED if problem else ExitCode.OK
