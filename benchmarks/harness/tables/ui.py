"""The table of the page in the docs, from the lines that ui/figure.py wrote: all of them, by viewers."""

from typing import Any, Final

from harness.markdown import markdown_table
from harness.results import median_and_ends

Row = dict[str, Any]
HEAD: Final = ("viewers", "turns", "calls", "p50, ms", "p99, ms")


def ui_table(rows: list[Row]) -> str:
    """Markdown: a line for each number of viewers."""
    counts = sorted({row["viewers"] for row in rows})
    return markdown_table(
        list(HEAD), [_line([row for row in rows if row["viewers"] == each]) for each in counts]
    )


def _line(rows: list[Row]) -> list[str]:
    calls = sum(row["calls"] for row in rows)
    spread = [median_and_ends([row[name] for row in rows]) for name in ("p50_ms", "p99_ms")]
    return [str(rows[0]["viewers"]), str(len(rows)), f"{calls:,}", *spread]
