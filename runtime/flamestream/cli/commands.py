"""The list of commands, in the order that help shows them."""

import typer

from flamestream.cli import audit, bootstrap, cat, doctor, drill, plan, reset, run, simulate, snapshots, status, validate


def add_to(app: typer.Typer) -> None:
    """Register every command."""
    for module in (run, validate, plan, status, cat, audit, drill, simulate, bootstrap, reset, doctor):
        app.command(module.__name__.rpartition(".")[2], no_args_is_help=module.NEEDS_ARGUMENTS)(module.command)
    app.add_typer(snapshots.app, name="snapshots")
