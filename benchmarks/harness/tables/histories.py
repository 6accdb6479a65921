"""The table of the verdicts on Flink's output in the docs, from the lines that figures/histories.py wrote: the
newest of each run."""

from typing import Any, Final

from harness.markdown import markdown_table

Row = dict[str, Any]
HEAD: Final = [
    "records of an account", "Flink's mode", "read", "records", "results", "doubled", "contradicted", "kills",
    *(f"definition {number}" for number in (5, 6, 7, 8)),
]  # fmt: skip
INPUT: Final = {"one-topic": "one order", "two-topics": "two topics"}


def histories_table(rows: list[Row]) -> str:
    """Markdown; as printed / strict where a definition has two forms. Below it what shows that 6 is broken."""
    newest = {(row["job"], row["mode"], row["committed"]): row for row in rows}
    lines = [_line(row) for row in newest.values()]
    reasons = [
        f"- {_name(row)}: {six['reason']}"
        for row in newest.values()
        if (six := _definition(row, 6))["reason"]
    ]
    return "\n".join([markdown_table(HEAD, lines), "", *reasons])


def _line(row: Row) -> list[str]:
    counts = [f"{row[name]:,}" for name in ("records", "results", "doubled", "contradicted", "kills")]
    return [
        *_name(row).split(", "),
        *counts,
        *(_said(_definition(row, number)) for number in (5, 6, 7, 8)),
    ]


def _name(row: Row) -> str:
    mode = row["mode"].replace("-", " ")
    return f"{INPUT[row['job']]}, {mode}, {'committed' if row['committed'] else 'all'}"


def _definition(row: Row, number: int) -> Row:
    return next(each for each in row["definitions"] if each["definition"] == number)


def _said(row: Row) -> str:
    printed, strict = row["printed"], row["strict"]
    return printed if strict in (None, printed) else f"{printed} / {strict}"
