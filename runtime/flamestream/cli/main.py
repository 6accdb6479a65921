"""The command line: `flamestream COMMAND`. Each command is a module; this one puts them together, in the
order that help shows them.

Keeps: a command imports itself alone, for what all others need takes half a second. Does not: start anything
before it knows what is asked (commands import Spark and servers when they need them).
"""

import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Final

import typer

from flamestream.cli import frame

COMMANDS: Final = {
    "run": "run",
    "validate": "validate",
    "plan": "plan",
    "upgrade": "changes.upgrade",
    "status": "status",
    "ui": "views.ui",
    "query": "query",
    "watch": "views.watch",
    "cat": "cat",
    "trace": "views.trace",
    "audit": "audit",
    "history": "history",
    "drill": "drill",
    "simulate": "simulate",
    "papers": "papers",
    "bootstrap": "bootstrap",
    "reset": "reset",
    "doctor": "doctor",
    "ticks": "snapshots",
    "snapshots": "snapshots",
}
"""The module of each command."""
_NEEDS_NO_ARGUMENT: Final = ("doctor", "papers", "ui")


def command_line(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line that has these commands."""
    line = frame.command_line(
        "flamestream", "Streaming jobs as graphs of pure functions, exactly once in milliseconds."
    )
    line.callback()(_nothing)  # else a line of one command would not take its name
    for name in names:
        module = import_module(f"flamestream.cli.{COMMANDS[name]}")
        if name == "snapshots":
            line.add_typer(module.app, name=name)
        else:
            command = module.ticks if name == "ticks" else module.command
            line.command(name, no_args_is_help=name not in _NEEDS_NO_ARGUMENT)(command)
    return line


def _nothing() -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point. Leaves with one of `ExitCode`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    named = [word for word in given[:1] if word in COMMANDS]
    frame.run(command_line(named or COMMANDS), given)


if __name__ == "__main__":
    main()
