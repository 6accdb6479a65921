"""What both command lines, `flamestream` and `kubectl flamestream`, are made of and how they end.

Does not: know any command.
"""

import sys
from collections.abc import Sequence
from typing import NoReturn

import typer

from flamestream.cli.exit_codes import ExitCode, code_of
from flamestream.cli.output import say_error
from flamestream.model.errors import FlameStreamError


def command_line(name: str, description: str) -> typer.Typer:
    """One without commands yet."""
    return typer.Typer(
        name=name,
        help=description,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def run(app: typer.Typer, arguments: Sequence[str] | None) -> NoReturn:
    """Carry out `arguments` (None: the process's own). Leaves with one of `ExitCode`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        app(given)
    except FlameStreamError as error:
        say_error(error, json="--json" in given)
        sys.exit(code_of(error))
    except KeyboardInterrupt:
        sys.exit(128 + 2)
    sys.exit(ExitCode.OK)
