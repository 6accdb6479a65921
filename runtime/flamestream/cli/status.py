"""`flamestream status`: one screen about a job that runs on this machine."""

from datetime import timedelta
from typing import Final

import typer

from flamestream.cli.frame import JobPlace, RunFolderOption
from flamestream.cli.output import Json, as_json, console, say
from flamestream.cli.progress import line, table
from flamestream.job.exit_codes import ExitCode
from flamestream.job.moments import DATES, event_moment
from flamestream.job.status import JobStatus, LastRecovery, WorkerFigures
from flamestream.model.event_time import END_OF_TIME
from flamestream.model.kernel import NAME
from flamestream.node.job_state import described, pids_of, state_of
from flamestream.node.run_folder import RunInfo, find

SHOWN_ROWS: Final = 3


def command(job: JobPlace, run_folder: RunFolderOption = None, json: Json = False) -> None:
    """Show a job's phase, attempt, epoch, workers and problems.

    Example: [bold]flamestream status job.yaml[/bold]. Exit code 1 if the job has failed, 5 if it neither runs
    nor has completed.
    """
    _, folder = find(job, run_folder)
    info, status = folder.info(), folder.status()
    if json:
        as_json(described(folder, info, status))
    else:
        say(f"{state_of(info, status)}\nkernel: {NAME}")
        if status is not None:
            say(line(status, None))
            if status.last_recovery is not None:
                say(_recovery(status.last_recovery))
            if status.refusal:
                say(f"code {status.refused[:12]} is refused: {status.refusal}")
            elif status.successors:
                say(f"{len(status.successors)} workers of other code are there")
            for source, time_of_events in status.event_times.items():
                idle, late = status.idle.get(source, 0), status.late.get(source, 0)
                say(_event_time(source, time_of_events, status.updated, idle, late))
            for call, waiting in status.waiting.items():
                say(f"call {call}: {waiting:,} requests wait for their answer")
            for source, skipped in status.skipped.items():
                say(f"source {source}: {skipped:,} records skipped by recoveries")
            if status.deciding is not None:
                say(_transactions(status.deciding))
            if status.workers or status.standbys:  # a batch has none
                console.print(table(status, pids_of(folder, status)))
    raise typer.Exit(_code(info, status))


def _code(info: RunInfo | None, status: JobStatus | None) -> ExitCode:
    if info is not None and info.running:
        return ExitCode.OK
    outcome = "" if info is None or status is None else status.outcome
    return {"completed": ExitCode.OK, "failed": ExitCode.JOB_FAILED}.get(outcome, ExitCode.UNAVAILABLE)


def _event_time(source: str, micros: int | None, now: int, idle: int, late: int) -> str:
    """A line on how far a source has come in event time, how many of its partitions are not waited for, and
    how many of its items came too late."""
    if micros is None:
        come = "not known, one of its fronts has had no record that says one; windows stay open until it has"
    elif micros >= END_OF_TIME:
        come = "its input has ended, all windows are closed"
    elif micros in DATES:
        come = f"{event_moment(micros)}, {timedelta(seconds=round((now - micros) / 1e6))} behind the clock"
    else:
        come = event_moment(micros)
    silent = f"; {idle:,} idle partition{'s' if idle > 1 else ''}" if idle else ""
    return f"event time of {source}: {come}{silent}{f'; {late:,} late' if late else ''}"


def _transactions(worker: WorkerFigures) -> str:
    """A line on how transactions go: how many, how often each was decided, how that is tried now, and for which rows it
    was done again."""
    each, share = worker.decisions / worker.transactions, worker.aborted / worker.transactions
    rows = ", ".join(f"{row} ({count:,})" for row, count in worker.contended[:SHOWN_ROWS])
    contended = f"; looked at again for {rows}" if rows else ""
    when = "when nothing can come before it" if worker.deciding_waits else "when it comes"
    return (
        f"transactions on {worker.worker}: {worker.transactions:,}, {share:.1%} aborted, "
        f"decided {each:.2f} times each, now {when}{contended}"
    )


def _recovery(last: LastRecovery) -> str:
    took = f"{last.duration_ms:.0f} ms" if last.duration_ms else "under way"
    if last.kind == "start":
        return f"started ({took}), no recovery since"
    replay = f", and {last.steps_ms['replay']:.0f} ms of replay" if "replay" in last.steps_ms else ""
    return f"last recovery: {last.cause} ({took}{replay})"
