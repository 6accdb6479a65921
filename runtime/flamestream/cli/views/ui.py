"""`flamestream ui`: a page that shows jobs of this machine.

Does not: show anything (ui/).
"""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from flamestream import __version__
from flamestream.cli.frame import RunFolderOption
from flamestream.cli.output import Json, answer
from flamestream.job.manifest import read
from flamestream.model.errors import ManifestError, UserError
from flamestream.node.run_folder import DEFAULT_ROOT, RunFolder

LISTEN: Final = "127.0.0.1:7878"


def command(
    job: Annotated[
        Path | None,
        typer.Argument(
            help="A manifest, a run folder, or a folder of run folders. Default: ./.flamestream",
            show_default=False,
        ),
    ] = None,
    listen: Annotated[str, typer.Option(help="Host and port; port 0 is a free one.")] = LISTEN,
    actions: Annotated[bool, typer.Option("--actions", help="Drills may be started from the page.")] = False,
    run_folder: RunFolderOption = None,
    json: Json = False,
) -> None:
    """Show jobs in a browser: figures, recoveries, audits, snapshots and logs, as they happen.

    The address that is printed has a token: whoever has it may look. Without --actions nothing can be changed from
    the page; an audit only reads.

    Example: [bold]flamestream ui job.yaml[/bold], beside `flamestream run job.yaml`. Ctrl-C ends it.
    """
    root = _root(job, run_folder)
    try:
        from flamestream.ui import serving  # here: its web server is an extra
    except ImportError as error:
        raise UserError(f"ui needs the package aiohttp ({error}): pip install 'flamestream[ui]'") from error

    serving.serve(
        root,
        listen,
        actions=actions,
        version=__version__,
        told=lambda address: _told(address, json),
    )


def _told(address: str, json: bool) -> None:
    answer({"address": address}, f"{address}\nCtrl-C ends it", json)
    sys.stdout.flush()  # nothing more follows to push it out


def _root(job: Path | None, run_folder: Path | None) -> Path:
    """The folder that is looked at."""
    if job is not None and not job.is_dir():
        return RunFolder.of(read(job).name, run_folder).path
    if run_folder is not None:
        raise ManifestError("--run-folder is of a manifest's job: give the manifest, or the run folder alone")
    return (job or DEFAULT_ROOT).absolute()
