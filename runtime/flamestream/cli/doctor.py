"""`flamestream doctor`: what this machine gives a job, and what of it is slow."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from flamestream.cli.output import Json, as_json, console
from flamestream.job.exit_codes import ExitCode
from flamestream.machine.examination import examined

_STYLES = {"good": "", "slow": "yellow", "missing": "red"}


def command(
    folder: Annotated[
        Path, typer.Argument(help="On the disk that a job would write to.", exists=True, file_okay=False)
    ] = Path(),
    json: Json = False,
) -> None:
    """Look for what jobs need (Java, Spark, a disk) and what makes them slow (no native kernel, few
    processors, slow syncs).

    Example: [bold]flamestream doctor[/bold]. Exit code 1 if something is missing without which no job runs;
    what is slow is said, and is 0.
    """
    findings = examined(folder.absolute())
    healthy = all(finding.state != "missing" for finding in findings)
    if json:
        as_json({"healthy": healthy, "findings": msgspec.to_builtins(findings)})
    else:
        table = Table(box=None, pad_edge=False)
        for heading in ("", "found", "", "what to do"):
            table.add_column(heading, overflow="fold")
        for finding in findings:
            state = "" if finding.state == "good" else finding.state
            table.add_row(finding.what, finding.found, state, finding.advice, style=_STYLES[finding.state])
        console.print(table)
    raise typer.Exit(ExitCode.OK if healthy else ExitCode.JOB_FAILED)
