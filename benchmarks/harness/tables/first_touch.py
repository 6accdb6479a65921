"""The table of first touches in the docs, from the lines that first_touch/figure.py wrote: the newest of each kind."""

from typing import Any, Final

from harness.markdown import markdown_table

Row = dict[str, Any]
HEAD: Final = ("the code before and that of now", "first touch, us over the user's step", "asked", "load")
NAMES: Final = {
    "migrate": "`migrate={1: up}`: a number becomes a tuple",
    "field": "a payload class has a field more",
    "both": "that class, ten times in an `fs.Map`, with a change behind the full state; and a step",
}


def first_touch_table(rows: list[Row]) -> str:
    """Markdown: a line for each kind that was measured."""
    newest = {row["measure"]: row for row in rows}
    return markdown_table(
        list(HEAD), [_line(name, newest[kind]) for kind, name in NAMES.items() if kind in newest]
    )


def _line(name: str, row: Row) -> list[str]:
    found = f"{row['us']} ({row['least_us']} to {row['most_us']})"
    return [name, found, "20", f"{row['noise']['load']:.1f}"]
