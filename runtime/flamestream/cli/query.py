"""`flamestream query`: what a job has of some keys."""

from collections.abc import Sequence
from contextlib import closing
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from flamestream.cli.frame import JobPlace, RunFolderOption
from flamestream.cli.output import Json, answer
from flamestream.live.port import Answer
from flamestream.model.payloads.plain import plain
from flamestream.node.queries.committed import NOTHING
from flamestream.node.queries.rows import split

Rows = Annotated[list[str], typer.Argument(help='Rows, as in "accounts[\'ann\']" or "totals[7]".')]


class At(StrEnum):
    """How new an answer has to be."""

    STRICT = "strict"
    STALE = "stale"
    COMMITTED = "committed"


AtOption = Annotated[
    At | None,
    typer.Option(
        help="strict: with all that anybody has seen; stale: maybe a little older; committed: of the last epoch, "
        "also of a job that is down. Default: strict, or committed for a job without spec.queries.",
        show_default=False,
    ),
]
AtLeast = Annotated[int, typer.Option(help="The time of an earlier answer, which has to be in this one.")]


def command(
    job: JobPlace, rows: Rows, at: AtOption = None, at_least: AtLeast = 0, run_folder: RunFolderOption = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Show rows of tables, and states of keys by the names that `plan` shows, all as of one time.

    A job that runs is asked at its port (spec.queries); of others, the store of its epochs. Exit code 2 for a name that
    the graph does not have, 5 for a job that does not answer.

    Example: [bold]flamestream query job.yaml "accounts['ann']" "accounts['bob']"[/bold]
    """
    from flamestream.live.client import connect  # here: `kubectl flamestream` needs the rest alone

    with closing(connect(job, run_folder=run_folder)) as client:
        found = client.read(*map(split, rows), at=None if at is None else at.value, at_least=at_least)
    show(rows, found, json)


def show(rows: Sequence[str], found: Answer, json: bool) -> None:
    """Print what was answered to `rows`."""
    data: dict[str, Any] = {
        "at": found.at,
        "time": found.time,
        "rows": [
            {"row": row} | ({} if state is NOTHING else {"state": msgspec.to_builtins(state, enc_hook=plain)})
            for row, state in zip(rows, found.states, strict=True)
        ],
    }
    lines = [
        f"{row} = {'nothing' if state is NOTHING else repr(state)}"
        for row, state in zip(rows, found.states, strict=True)
    ]
    answer(data, "\n".join([*lines, f"{found.at}, as of {found.time}"]), json)
