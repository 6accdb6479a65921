"""`flamestream watch`: each change of a row of a table, as it is committed."""

import sys
from collections.abc import Iterable
from contextlib import closing
from itertools import islice
from typing import Annotated

import msgspec
import typer

from flamestream.cli.frame import JobPlace, RunFolderOption
from flamestream.cli.output import Json, answer
from flamestream.live.kept_changes import Change
from flamestream.model.payloads.plain import plain
from flamestream.node.queries.rows import split

Watched = Annotated[
    str, typer.Argument(help="A row, as in \"accounts['ann']\".", show_default=False, metavar="ROW")
]
After = Annotated[
    str,
    typer.Option(
        help="Go on behind the change with this number. Default: begin with the oldest that is kept.",
        show_default=False,
    ),
]
Limit = Annotated[int | None, typer.Option(min=1, help="End behind so many changes.", show_default=False)]


def command(
    job: JobPlace, row: Watched, after: After = "", limit: Limit = None, run_folder: RunFolderOption = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Show each change of a row of a table once, as it is committed, until it is interrupted. The graph says that its
    changes are kept: `table.keep_changes()`.

    The number in front of a change is its place: with --after another watch goes on behind it, whatever has failed in
    between. Exit code 5 if the job does not answer.

    Example: [bold]flamestream watch job.yaml "accounts['ann']"[/bold]
    """
    from flamestream.live.client import connect  # here: `kubectl flamestream` needs the rest alone

    name, key = split(row)
    with closing(connect(job, run_folder=run_folder)) as client:
        show(row, client.watch(name, key, after), limit, json)


def show(row: str, changes: Iterable[Change], limit: int | None, json: bool) -> None:
    """Print changes of `row` as they come, one a line."""
    for change in islice(changes, limit):
        data = {"id": change.id, "key": change.key, "before": change.before, "after": change.after}
        became = "is deleted" if change.deleted else f"= {change.after!r}"
        answer(
            msgspec.to_builtins(data | {"deleted": change.deleted}, enc_hook=plain),
            f"{change.id}: {row} {became}, was {change.before!r}", json,
        )  # fmt: skip
        sys.stdout.flush()  # who reads a pipe waits for it
