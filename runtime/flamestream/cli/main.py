"""The command line: `flamestream COMMAND`. Each command is a module; this one puts them together, in the
order that help shows them.

Does not: start anything before it knows what is asked (commands import Spark and servers when they need
them).
"""

from collections.abc import Sequence

from flamestream.cli import (
    audit,
    bootstrap,
    cat,
    doctor,
    drill,
    frame,
    history,
    papers,
    plan,
    query,
    reset,
    run,
    simulate,
    snapshots,
    status,
    validate,
)
from flamestream.cli.changes import upgrade
from flamestream.cli.views import trace, ui, watch

app = frame.command_line(
    "flamestream", "Streaming jobs as graphs of pure functions, exactly once in milliseconds."
)
for module in (
    run,
    validate,
    plan,
    upgrade,
    status,
    ui,
    query,
    watch,
    cat,
    trace,
    audit,
    history,
    drill,
    simulate,
    papers,
    bootstrap,
    reset,
    doctor,
):
    help_alone = module not in (doctor, papers, ui)
    app.command(module.__name__.rpartition(".")[2], no_args_is_help=help_alone)(module.command)
app.command("ticks", no_args_is_help=True)(snapshots.ticks)
app.add_typer(snapshots.app, name="snapshots")


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point. Leaves with one of `ExitCode`."""
    frame.run(app, arguments)


if __name__ == "__main__":
    main()
