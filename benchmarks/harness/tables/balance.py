"""The table of balance in the docs, from the lines that balance/figure.py wrote: the newest."""

from typing import Any, Final

from harness.markdown import markdown_table

Row = dict[str, Any]
HEAD: Final = ("workers, keys", "n", "fullest over mean before", "after", "slots moved", "asked")


def balance_table(rows: list[Row]) -> str:
    """Markdown: a line for the newest."""
    return markdown_table(list(HEAD), [_line(row) for row in rows[-1:]])


def _line(row: Row) -> list[str]:
    shown = [_spread(row[name], digits) for name, digits in (("before", 2), ("after", 2), ("moved", 0))]
    return [f"{row['workers']}, {row['keys']:,}", str(row["n"]), *shown, "1.1, better 1.04"]


def _spread(values: list[float], digits: int) -> str:
    middle, least, most = (f"{each:.{digits}f}" for each in values)
    return f"{middle} ({least} to {most})"
