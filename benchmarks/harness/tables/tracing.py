"""The table of traces in the docs, and the sentence below it, from the lines that tracing/figure.py wrote."""

import statistics
from typing import Any, Final

from harness.markdown import markdown_table
from harness.results import median_and_ends

Row = dict[str, Any]
OFF: Final = "off"
OFF_AGAIN: Final = "off again"
ON: Final = "on, 1/1000"
KINDS: Final = (OFF, OFF_AGAIN, ON)
COLUMNS: Final = {"p50_ms": "p50, ms", "p99_ms": "p99, ms", "us_an_item": "processor time an item, us"}


def tracing_table(rows: list[Row]) -> str:
    """Markdown: a line for each kind, and what lies between them."""
    kinds = [kind for kind in KINDS if any(row["what"] == kind for row in rows)]
    lines = [_line(kind, [row for row in rows if row["what"] == kind]) for kind in kinds]
    table = markdown_table(["traces", "turns", "items", *COLUMNS.values()], lines)
    return f"{table}\n\n{_sentence(rows)}" if len(kinds) == len(KINDS) else table


def _line(kind: str, rows: list[Row]) -> list[str]:
    items = sum(row["items"] for row in rows)
    return [
        kind,
        str(len(rows)),
        f"{items:,}",
        *(median_and_ends([row[name] for row in rows]) for name in COLUMNS),
    ]


def _sentence(rows: list[Row]) -> str:
    """How far the two without traces lie apart, and how far those with them from both."""
    told = []
    for name, column in COLUMNS.items():
        off, again, on = (_middle(rows, kind, name) for kind in KINDS)
        both = (off + again) / 2
        told.append(f"{column.partition(',')[0]} {_percent(again, off)} and {_percent(on, both)}")
    return f"Medians, off again beside off, and on beside both: {'; '.join(told)}."


def _middle(rows: list[Row], kind: str, name: str) -> float:
    return float(statistics.median(row[name] for row in rows if row["what"] == kind))


def _percent(one: float, other: float) -> str:
    return f"{100 * (one - other) / other:+.1f}%"
