"""Options that all commands of `kubectl flamestream` have: the job, and where kubectl finds it (a `Cluster`)."""

from typing import Annotated

import typer

JobName = Annotated[str, typer.Argument(help="Name of the FlameStreamJob.", show_default=False)]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help="Default: the context's.", show_default=False)
]
Context = Annotated[str, typer.Option("--context", help="Default: kubectl's.", show_default=False)]
