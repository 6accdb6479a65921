"""`flamestream plan`: draws the graph."""

import enum
from typing import Annotated

import typer

from flamestream.cli.drawing import described, mermaid, text
from flamestream.cli.output import Json, as_json, say
from flamestream.cli.validate import ManifestFile
from flamestream.cli.validation import checked

NEEDS_ARGUMENTS = True


class Format(enum.StrEnum):
    """How to draw."""

    TEXT = "text"
    MERMAID = "mermaid"


def command(
    manifest: ManifestFile, draw: Annotated[Format, typer.Option("--format", "-f", help="How to draw.")] = Format.TEXT, json: Json = False
) -> None:
    """Draw a job's graph.

    Example: [bold]flamestream plan job.yaml --format mermaid[/bold]. In text, >> marks results that go to the worker of their key.
    """
    graph = checked(manifest).graph
    if json:
        as_json(described(graph))
    else:
        say(mermaid(graph) if draw is Format.MERMAID else text(graph))
