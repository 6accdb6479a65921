"""The table of balance in the docs, from the lines that balance/figure.py wrote: the newest."""

from typing import Any, Final

from harness.markdown import markdown_table
from harness.results import median_and_ends

Row = dict[str, Any]
HEAD: Final = ("workers, keys", "n", "fullest over mean before", "after", "slots moved", "asked")


def balance_table(rows: list[Row]) -> str:
    """Markdown: a line for the newest."""
    return markdown_table(list(HEAD), [_line(row) for row in rows[-1:]])


def _line(row: Row) -> list[str]:
    shown = [
        median_and_ends(row[name], form)
        for name, form in (("before", ".2f"), ("after", ".2f"), ("moved", ".0f"))
    ]
    return [f"{row['workers']}, {row['keys']:,}", str(row["n"]), *shown, "1.1, better 1.04"]
