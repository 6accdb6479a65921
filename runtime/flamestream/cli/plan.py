"""`flamestream plan`: draws the graph."""

import enum
from typing import Annotated

import typer

from flamestream.cli.frame import ManifestFile
from flamestream.cli.output import Json, answer
from flamestream.cli.validate import clients_of
from flamestream.job.plan.drawing import described, mermaid, text
from flamestream.job.validation import CheckedJob, checked
from flamestream.model.errors import ManifestError


class Format(enum.StrEnum):
    """A format of a drawing."""

    TEXT = "text"
    MERMAID = "mermaid"


def command(
    manifest: ManifestFile,
    draw: Annotated[
        Format | None, typer.Option("--format", "-f", help="How to draw. Default: text.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Draw a job's graph, and say what state it keeps and until when.

    Example: [bold]flamestream plan job.yaml --format mermaid[/bold]. In text, >> marks results that go to the
    worker of their key.
    """
    job = checked(manifest)
    graph, clients = job.graph, clients_of(job)
    if json and draw is not None:
        raise ManifestError("--format is of a drawing, and --json describes the graph: leave one of them out")
    told = [text(graph), *_deciding(job), *(f"client {name!r} is {said}" for name, said in clients.items())]
    drawn = mermaid(graph) if draw is Format.MERMAID else "\n".join(told)
    patience = {} if graph.ledger is None else {"patience": job.job.spec.transactions.patience}
    answer({**described(graph), "clients": clients, **patience}, drawn, json)


def _deciding(job: CheckedJob) -> list[str]:
    """A line on when transactions are decided, if there are any."""
    if job.graph.ledger is None:
        return []
    if job.job.spec.batches:
        return ["transactions are decided once, in order, by the task of a batch that has all of them"]
    runs = job.job.spec.transactions.patience
    if runs is None:
        return ["transactions are decided when they come, or wait, by what is measured: status says which"]
    if runs == 0:
        return ["transactions wait until nothing can come before them, and are decided once"]
    return [
        f"transactions are decided when they come, {runs:,} time{'s' * (runs > 1)} at most before they wait"
    ]
