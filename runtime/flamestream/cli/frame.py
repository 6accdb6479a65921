"""The frame of both command lines, `flamestream` and `kubectl flamestream`: how they begin, what they are told in
common, and with which exit code and message they end.

Does not: know any command.
"""

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from flamestream.cli.output import as_json, say_error
from flamestream.job.exit_codes import ExitCode, code_of
from flamestream.model.errors import Bug, FlameStreamError

ManifestFile = Annotated[Path, typer.Argument(help="The job's manifest, a YAML file.", show_default=False)]
JobPlace = Annotated[
    Path,
    typer.Argument(
        help="The job's manifest, its run folder, or the name of a job that was run from this folder.",
        show_default=False,
    ),
]
RunFolderOption = Annotated[
    Path | None, typer.Option("--run-folder", help="Default: ./.flamestream/JOB", show_default=False)
]
_WRONG_LINE: Final[Any] = typer.BadParameter.__base__
"""The class of what typer raises for every wrong command line; it has no other public name."""


def command_line(name: str, description: str) -> typer.Typer:
    """A command line that has no commands yet."""
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
        # Standalone, typer would end the process with codes of its own; so it returns that of typer.Exit.
        sys.exit(app(given, standalone_mode=False) or ExitCode.OK)
    except _WRONG_LINE as error:
        from typer import rich_utils  # lazily: it brings a reader of Markdown

        rich_utils.rich_format_error(error)
        if "--json" in given:
            as_json({"error": {"category": "user", "message": error.format_message()}})
        sys.exit(ExitCode.USAGE)
    except FlameStreamError as error:
        say_error(error, json="--json" in given)
        sys.exit(code_of(error))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(128 + 2)  # as a shell says of SIGINT
    except Exception as error:  # noqa: BLE001  # the last boundary: whatever it is, it is ours to explain
        traceback.print_exc()
        message = f"{type(error).__name__}: {error}"
        say_error(
            Bug(f"{message}: this is a bug of FlameStream, please report it with what is above"),
            json="--json" in given,
        )
        sys.exit(ExitCode.BUG)
