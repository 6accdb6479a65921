"""`flamestream audit`: what was delivered, against the reference interpreter on the recorded input; and what
any other system did with such an input.

Does not: judge anything (audit/job_audit.py, audit/judged_run.py and audit/judged_history.py, and
cli/spark/audit.py in a Spark).
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from flamestream.audit import judged_history, judged_run
from flamestream.audit.definitions.table import UNSEEN, Row, in_words
from flamestream.audit.job_audit import witnessed_here
from flamestream.audit.report import Report, sentence
from flamestream.cli.frame import JobPlace, RunFolderOption
from flamestream.cli.output import Json, answer, say
from flamestream.job.exit_codes import ExitCode
from flamestream.job.validation import CheckedJob, checked_job
from flamestream.model.errors import ManifestError
from flamestream.node.run_folder import RunFolder, find
from flamestream.node.verdicts import leave, now

EXITS = {"holds": ExitCode.OK, "broken": ExitCode.DIFFERENCE, "undecided": ExitCode.UNPROVEN}
"""Exit codes, by the verdict on a history."""


def command(
    job: JobPlace,
    spark: Annotated[
        bool, typer.Option("--spark", help="As a Spark job, for histories that one process cannot hold.")
    ] = False,
    changed: Annotated[
        bool, typer.Option("--changed", help="Interpret all of it with the application as it is now.")
    ] = False,
    definitions: Annotated[
        bool, typer.Option("--definitions", help="Also say which of the formal model's definitions hold.")
    ] = False,
    history: Annotated[
        Path | None,
        typer.Option(help="Judge this history of any system by the job's graph instead.", show_default=False),
    ] = None,
    run_folder: RunFolderOption = None,
    json: Json = False,
) -> None:
    """Compare everything that was delivered with what a sequential interpreter makes of the recorded input.

    Where the application's code was changed, each result is compared by the code that made it, of which the
    run folder keeps a copy. What lies behind code that is not there any more is left out, and if the job
    began with it the audit is refused: with --changed the code of now stands for all of it, and a difference
    may be the edit's. --spark and --definitions know the code of now alone.

    With --spark the same interpreter takes the keys of each partition, and the output of `files` sinks is
    compared without collecting.

    With --history the file says what went into another system and came out of it; the job says what had to be
    computed, and need not have run. Exit code 3 if the history breaks what the job guarantees, 7 if that
    could not be decided.

    Example: [bold]flamestream audit job.yaml[/bold]. Exit code 3 if a byte is lost, doubled, foreign, out of
    place or out of order, or if records of the input are missing. Under at-least-once repeats are counted as
    doubled, and allowed.
    """
    if spark and (definitions or history is not None):
        raise ManifestError("definitions are judged in one process: leave out --spark")
    if history is not None and changed:
        raise ManifestError("a history is judged by the code of now: leave out --changed")
    if history is not None and run_folder is not None:
        raise ManifestError("a history is judged by the job alone: leave out --run-folder")
    found, folder = find(job, run_folder)
    checked = checked_job(found)
    if history is not None:
        _judge_history(checked, history, definitions, json)
        return
    began = now()
    report, rows = _audited(checked, folder, spark=spark, changed=changed, definitions=definitions)
    value = asdict(report) | ({"definitions": list(map(asdict, rows))} if definitions else {})
    leave(folder, "audit", began, ExitCode.OK if report.kept else ExitCode.DIFFERENCE, value)
    answer(value, "\n".join([sentence(report), *_table(report, rows)]), json)
    if not report.kept:
        if not json and report.verdict.first_difference:
            from flamestream.node.trial import suspect  # here: most audits are clean

            say(suspect(checked))
        raise typer.Exit(ExitCode.DIFFERENCE)


def _audited(
    checked: CheckedJob, folder: RunFolder, *, spark: bool, changed: bool, definitions: bool
) -> tuple[Report, list[Row]]:
    """The report, and the definitions if they are asked for."""
    if spark:
        from flamestream.cli.spark.audit import audited_with_spark  # lazily: PySpark takes a while to import

        return audited_with_spark(checked, folder, changed=changed), []
    # the definitions are of one graph
    evidence = witnessed_here(checked, folder, changed=changed, by_each=not definitions)
    return evidence.report, judged_run.judged_run(checked, evidence) if definitions else []


def _table(report: Report, rows: list[Row]) -> list[str]:
    if not rows:
        return []
    return list(filter(None, [in_words(rows), judged_run.once_repeats_are_removed(report), UNSEEN]))


def _judge_history(checked: CheckedJob, path: Path, definitions: bool, json: bool) -> None:
    report = judged_history.judged_history(checked, path)
    value, text = asdict(report), [judged_history.sentence(report)]
    if definitions:
        text += [in_words(report.definitions), UNSEEN]
    else:
        del value["definitions"]
    answer(value, "\n".join(text), json)
    if report.verdict != "holds":
        raise typer.Exit(EXITS[report.verdict])
