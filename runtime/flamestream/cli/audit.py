"""`flamestream audit`: what was delivered, against the reference interpreter on the recorded input.

Does not: judge anything (audit/job_audit.py, and spark/audit.py in a Spark).
"""

from dataclasses import asdict
from typing import Annotated

import typer

from flamestream.audit.job_audit import audited_here
from flamestream.audit.report import sentence
from flamestream.cli.cat import JobPlace
from flamestream.cli.output import Json, answer, say
from flamestream.job.exit_codes import ExitCode
from flamestream.job.validation import checked_job
from flamestream.node.run_folder import find


def command(
    job: JobPlace,
    spark: Annotated[
        bool, typer.Option("--spark", help="As a Spark job, for histories that one process cannot hold.")
    ] = False,
    changed: Annotated[
        bool, typer.Option("--changed", help="Interpret all of it with the application as it is now.")
    ] = False,
    json: Json = False,
) -> None:
    """Compare everything that was delivered with what a sequential interpreter makes of the recorded input.

    Where the application's code was edited, what lies behind the edit is left out, and code that did not
    begin the job is refused: with --changed the code of now stands for all of it, and a difference may be the
    edit's.

    With --spark the same interpreter takes the keys of each partition, and the output of `files` sinks is
    compared without collecting.

    Example: [bold]flamestream audit job.yaml[/bold]. Exit code 3 if a byte is lost, doubled, foreign, out of
    place or out of order, or if records of the input are missing. Under at-least-once repeats are counted as
    doubled, and allowed.
    """
    found, folder = find(job, None)
    checked = checked_job(found)
    if spark:
        from flamestream.cli.spark.audit import audited_with_spark  # lazily: PySpark takes a while to import

        report = audited_with_spark(checked, folder, changed=changed)
    else:
        report = audited_here(checked, folder, changed=changed)
    answer(asdict(report), sentence(report), json)
    if not report.kept:
        if not json and report.verdict.first_difference:
            from flamestream.node.trial import suspect  # here: most audits are clean

            say(suspect(checked))
        raise typer.Exit(ExitCode.DIFFERENCE)
