"""The command line: `flamestream COMMAND`. Each command is a module; this one puts them together and turns errors into exit codes.

Does not: start anything before it knows what is asked (commands import Spark and servers when they need them).
"""

import sys
from collections.abc import Sequence

import typer

from flamestream.cli import commands
from flamestream.cli.exit_codes import ExitCode, code_of
from flamestream.cli.output import say_error
from flamestream.model.errors import FlameStreamError

app = typer.Typer(
    name="flamestream",
    help="Streaming jobs as graphs of pure functions, exactly once in milliseconds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
commands.add_to(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point. Leaves with one of `ExitCode`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        app(given)
    except FlameStreamError as error:
        say_error(error, json="--json" in given)
        sys.exit(code_of(error))
    except KeyboardInterrupt:
        sys.exit(128 + 2)
    sys.exit(ExitCode.OK)


if __name__ == "__main__":
    main()
