"""The table of autoscaling in the docs, from the lines that autoscaling/figure.py wrote: the newest."""

from typing import Any, Final

from harness.markdown import markdown_table

Row = dict[str, Any]
HEAD: Final = (
    "workers", "output stood still at each change, ms", "calm, ms", "busy while there are several: mean (quartiles)",
    "all day", "at best, none above 85% (100%)", "p50 / p99, ms", "lost, doubled", "load",
)  # fmt: skip


def autoscaling_table(rows: list[Row]) -> str:
    """Markdown: a line for the newest day."""
    return markdown_table(list(HEAD), [_line(row) for row in rows[-1:]])


def _line(row: Row) -> list[str]:
    changes = row["changes"]
    numbers = [changes[0][0], *(to for _, to in changes)] if changes else [1]
    best = "{:.2f} ({:.2f})".format(*row["best"]) if "best" in row else "-"
    quartiles = ", ".join(f"{each:.2f}" for each in row["busy_quartiles"])
    return [
        " → ".join(map(str, numbers)), ", ".join(map(str, row["gaps_ms"])), str(row.get("calm_ms", "-")),
        f"{row.get('busy_of_several', row['busy']):.2f} ({quartiles})", f"{row['busy']:.2f}", best,
        f"{row['p50_ms']} / {row['p99_ms']}", f"{row['lost']}, {row['doubled']}", f"{row['load']:.1f}",
    ]  # fmt: skip
