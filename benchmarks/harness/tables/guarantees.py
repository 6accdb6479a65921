"""The table of guarantees in the docs: what each keeps, what it takes of functions, and what a result waits
for, from the lines that `suite latency --out` wrote.

Definitions are what `flamestream papers guarantees` finds by search (papers/guarantees.py, where a test holds
the two together).
"""

from statistics import median
from typing import Any, Final

from flamestream.job.manifest import GUARANTEES
from flamestream.papers.guarantees import CLAIMED
from harness.markdown import markdown_table

Row = dict[str, Any]
HEAD: Final = (
    "guarantee", "definitions, as printed / strict", "functions may be", "a result waits for", "p50 / p99, ms"
)  # fmt: skip
SAID: Final = {
    "none": ("anything", "minimal time"),
    "at-most-once": ("deterministic", "its epoch's commit"),
    "at-least-once": ("deterministic; calls", "minimal time and the journal"),
    "exactly-once": ("deterministic; calls", "minimal time and the journal"),
    "strong-productions": (
        "anything outside of folds and keys",
        "the same, and a journal write at each door",
    ),
    "exactly-once-2pc": ("anything; calls", "its epoch's commit"),
    "micro-batch": ("deterministic", "its batch"),
}
"""What functions may be, and what a result waits for."""


def guarantees_table(rows: list[Row]) -> str:
    """Markdown: a line for each guarantee that a manifest may name, from what it tolerates least of to most."""
    lines = [
        [f"`{name}`", CLAIMED[name], *SAID[name], _latency([row for row in rows if _is_of(row, name)])]
        for name in SAID
        if rows and name in GUARANTEES
    ]
    return markdown_table(list(HEAD), lines)


def _is_of(row: Row, guarantee: str) -> bool:
    return bool(row["cell"]["guarantee"] == guarantee)


def _latency(rounds: list[Row]) -> str:
    """The median of the rounds; "-": this harness does not measure it."""
    if not rounds:
        return "-"
    figures = [median(row["result"][name] for row in rounds) for name in ("p50", "p99")]
    return " / ".join(f"{each:,.1f}" for each in figures)
