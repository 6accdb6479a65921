"""`flamestream drill`: kills a part of a running job with SIGKILL, watches it come back, and audits what it
delivered.

Does not: start jobs, decide the verdict (job/drills/drill.py), or look and kill (local_drill.py).
"""

from typing import Annotated

import typer

from flamestream.cli.drill_report import code_of_drill, fault_told, verdict_told
from flamestream.cli.frame import JobPlace, RunFolderOption
from flamestream.cli.local_drill import HITS, LocalPlace, Role, drilled
from flamestream.cli.output import Json, answer, say
from flamestream.job.drills.observed import DrillPlan
from flamestream.job.validation import checked_job
from flamestream.node.run_folder import find
from flamestream.node.verdicts import leave, now

BACK_WITHIN = 120.0


def command(  # noqa: PLR0913, PLR0917  # a command's parameters are its options
    job: JobPlace,
    kill: Annotated[Role, typer.Option(help="What to kill.")] = Role.WORKER,
    times: Annotated[int, typer.Option(min=1, max=1000, help="How often.")] = 1,
    after: Annotated[
        float | None,
        typer.Option(min=0, help="Seconds before each kill; random if left out.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random moments and victims.")] = 0,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds in which the job must be whole again.")
    ] = BACK_WITHIN,
    audit: Annotated[
        bool, typer.Option("--audit/--no-audit", help="Without, gaps are measured and nothing is proved.")
    ] = True,
    run_folder: RunFolderOption = None,
    json: Json = False,
) -> None:
    """Kill a part of a running job, wait until it is whole again, and audit everything it delivered.

    It has passed if every kill was seen, output went on after each, and the audit is clean. Exit code 3 if
    the job broke a promise, 7 if the drill proved nothing (no input, fewer kills than asked for, output that
    cannot be audited).

    Example: [bold]flamestream drill job.yaml --kill worker --times 3[/bold]
    """
    found, folder = find(job, run_folder)
    plan = DrillPlan(
        job=found.name, target=kill.value, times=times, hits=kill in HITS, after=after, seed=seed,
        timeout=timeout, audit=audit, saves=found.spec.guarantee != "none",
    )  # fmt: skip
    began = now()
    with LocalPlace(checked_job(found), folder, kill) as place:
        status = drilled(place, plan, lambda fault: None if json else say(fault_told(fault)))
    leave(folder, "drill", began, code_of_drill(status), status)
    answer(status, verdict_told(status), json)
    raise typer.Exit(code_of_drill(status))
