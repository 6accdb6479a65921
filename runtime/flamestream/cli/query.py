"""`flamestream query`: what a job has of some keys, or a page of all that a name has."""

from collections.abc import Sequence
from contextlib import closing
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import typer

from flamestream.cli.frame import JobPlace, RunFolderOption
from flamestream.cli.output import Json, answer
from flamestream.core.protocol.queries import MOST_SCANNED
from flamestream.job.moments import precise
from flamestream.live.port import Answer, Page, Wanted
from flamestream.live.port import At as How
from flamestream.model.errors import ManifestError
from flamestream.model.payloads.plain import plain
from flamestream.node.queries.committed import NOTHING
from flamestream.node.queries.rows import split

USUAL = 100
"""Keys of a page."""
Rows = Annotated[
    list[str],
    typer.Argument(
        help='Rows, as in "accounts[\'ann\']" or "totals[7]"; or a name alone, as in accounts: a page of its keys.'
    ),
]
Prefix = Annotated[
    str | None, typer.Option(help="Of a page: those keys that are texts and begin so.", show_default=False)
]
Limit = Annotated[
    int | None,
    typer.Option(
        min=1, max=MOST_SCANNED, help=f"Of a page: no more keys. Default: {USUAL}.", show_default=False
    ),
]
Cursor = Annotated[
    str | None,
    typer.Option(help="Of a page: go on behind an earlier one, which said it.", show_default=False),
]


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


def command(  # noqa: PLR0913, PLR0917  # a command's parameters are its options
    job: JobPlace, rows: Rows, at: AtOption = None, at_least: AtLeast = 0, prefix: Prefix = None, limit: Limit = None,
    cursor: Cursor = None, run_folder: RunFolderOption = None, json: Json = False,
) -> None:  # fmt: skip
    """Show rows of tables, and states of keys by the names that `plan` shows, all as of one time.

    A job that runs is asked at its port (spec.queries); of others, the store of its epochs. Exit code 2 for a name that
    the graph does not have, 5 for a job that does not answer.

    Example: [bold]flamestream query job.yaml "accounts['ann']" "accounts['bob']"[/bold]
    """
    from flamestream.live.client import connect  # here: `kubectl flamestream` needs the rest alone

    wanted = page_of(rows, prefix, limit, cursor)
    how: How | None = None if at is None else at.value
    with closing(connect(job, run_folder=run_folder)) as client:
        if wanted is not None:
            show_page(wanted.name, client.scan(wanted, how, at_least), json)
        else:
            show(rows, client.read(*map(split, rows), at=how, at_least=at_least), json)


def page_of(rows: Sequence[str], prefix: str | None, limit: int | None, cursor: str | None) -> Wanted | None:
    """The page that is meant; None: it is rows. Raises ManifestError for what is of a page, beside rows."""
    if len(rows) == 1 and "[" not in rows[0]:
        return Wanted(rows[0], prefix, limit or USUAL, cursor or "")
    if (prefix, limit, cursor) != (None, None, None):
        raise ManifestError("--prefix, --limit and --cursor are of a page: give a name alone, as in accounts")
    return None


def show(rows: Sequence[str], found: Answer, json: bool) -> None:
    """Print what was answered to `rows`."""
    data: dict[str, Any] = {
        "at": found.at,
        "time": found.time,
        "moment": _moment(found),
        "rows": [
            {"row": row} | ({} if state is NOTHING else {"state": msgspec.to_builtins(state, enc_hook=plain)})
            for row, state in zip(rows, found.states, strict=True)
        ],
    }
    lines = [
        f"{row} = {'nothing' if state is NOTHING else repr(state)}"
        for row, state in zip(rows, found.states, strict=True)
    ]
    answer(data, "\n".join([*lines, f"{found.at}, as of {found.time} ({_moment(found)})"]), json)


def show_page(name: str, page: Page, json: bool) -> None:
    """Print a page of what a name has."""
    data: dict[str, Any] = {
        "at": page.at,
        "time": page.time,
        "moment": _moment(page),
        "rows": [
            msgspec.to_builtins({"key": key, "state": state}, enc_hook=plain) for key, state in page.rows
        ],
    } | ({"cursor": page.cursor} if page.cursor else {})
    lines = [f"{name}[{key!r}] = {state!r}" for key, state in page.rows]
    more = f"; more with --cursor {page.cursor}" if page.cursor else ""
    answer(data, "\n".join([*lines, f"{page.at}, as of {page.time} ({_moment(page)}){more}"]), json)


def _moment(found: Answer | Page) -> str:
    """Everything that entered before it is in the answer."""
    return "the end" if found.moment is None else precise(found.moment.timestamp())
