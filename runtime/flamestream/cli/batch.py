"""`flamestream run --runner batch`: the job over all its input as one Spark batch.

Does not: compute anything (spark/frames/batch.py).
"""

from flamestream.cli.frames import attempt_of, frame_job, session, spark_for, write_status
from flamestream.cli.output import as_json, errors, say
from flamestream.job.exit_codes import ExitCode
from flamestream.job.validation import CheckedJob
from flamestream.node.run_folder import RunFolder
from flamestream.spark.frames.batch import BatchReport, run_batch
from flamestream.spark.frames.raised import raised_in_tasks
from flamestream.spark.frames.stages import stages_of


def run(checked: CheckedJob, folder: RunFolder, *, changed: bool = False, json: bool) -> ExitCode:
    """Run it to its end; how it ended is said and returned."""
    stages_of(checked.graph)  # a graph that cannot be done is refused before Spark starts
    with spark_for(checked, folder.made()) as driver, attempt_of(checked, folder, changed=changed) as records:
        attempt = records.record.attempt
        folder.status_file.unlink(missing_ok=True)
        if errors.is_terminal and not json:
            errors.print(f"job {checked.job.name!r}: attempt {attempt}, a batch", markup=False)
        with raised_in_tasks():
            report = run_batch(session(driver), frame_job(checked), attempt)
    write_status(folder, checked.job.name, attempt, "failed" if report.problem else "completed", report.problem)
    _say(checked.job.name, report, json)
    return ExitCode.JOB_FAILED if report.problem else ExitCode.OK


def _say(job: str, report: BatchReport, json: bool) -> None:
    outcome = "failed" if report.problem else "completed"
    if json:
        category = "user" if report.problem else ""
        figures = {"delivered": report.delivered, "repeated": report.repeated}
        as_json({"job": job, "outcome": outcome, "category": category, "message": report.problem, **figures})
        return
    say(f"job {job!r} {outcome}{f': {report.problem}' if report.problem else ''}")
    again = f", {report.repeated:,} were there already" if report.repeated else ""
    say(f"{report.delivered:,} results delivered{again}")
