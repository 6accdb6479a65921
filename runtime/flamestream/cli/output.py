"""How commands answer: text for people, or one JSON document (`--json`) for programs; errors on stderr in
both cases.

Keeps: with `--json`, stdout is JSON and nothing else. Colours and progress appear on a terminal only.
"""

import sys
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from flamestream.model.errors import FlameStreamError
from flamestream.model.quoted import plain

Json = Annotated[bool, typer.Option("--json", help="Answer as JSON.")]

console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def as_json(value: Any) -> None:
    """The answer, as JSON on one line."""
    sys.stdout.write(msgspec.json.encode(value, enc_hook=str, order="deterministic").decode() + "\n")


def say(text: str) -> None:
    """A line for people."""
    # Texts have square brackets, which rich would take for its own.
    console.print(text, markup=False)


def answer(value: Any, text: str, json: bool) -> None:
    """Print a command's answer: `value` for programs, or `text` for people."""
    if json:
        as_json(value)
    else:
        say(text)


def say_outcome(
    job: str, outcome: str, category: str, message: str, json: bool, text: str = "", **figures: int
) -> None:
    """Print how a run has ended. `text`: what else people are told, `figures`: what else programs are."""
    ended = f"job {job!r} {outcome}{f': {message}' if message else ''}"
    value = {"job": job, "outcome": outcome, "category": category, "message": message, **figures}
    answer(value, "\n".join(filter(None, (ended, text))), json)


def say_error(error: FlameStreamError, json: bool) -> None:
    """Print an error: what happened, where, and what to do."""
    if json:
        as_json({"error": {"category": error.category, "message": plain(str(error))}})
    errors.print(f"error: {plain(str(error))}", markup=False, style="red" if errors.is_terminal else "")
