"""The table of Spark's three real-time jobs in the docs, from the lines that rtm/figure.py wrote: the newest
of each job and system."""

from typing import Any, Final

Row = dict[str, Any]
HEAD: Final = (
    "job", "system", "guarantee", "to the append: p50 / p99, ms", "to the receipt: p50 / p99, ms",
    "p99 beside real-time mode's", "lost, doubled, wrong", "load",
)  # fmt: skip
BESIDE: Final = "spark real-time"


def rtm_table(rows: list[Row]) -> str:
    """Markdown."""
    newest = {(row["measure"], row["system"]): row for row in rows}
    lines = [_line(row, newest.get((row["measure"], BESIDE))) for row in newest.values()]
    return "\n".join("| " + " | ".join(line) + " |" for line in [HEAD, ["---"] * len(HEAD), *lines])


def _line(row: Row, beside: Row | None) -> list[str]:
    result, load = row["result"], f"{row['noise']['load']:.1f}-{row['noise']['load_after']:.1f}"
    who = [row["measure"], row["system"], row["guarantee"]]
    if "reason" in result:
        return [*who, result["reason"], "-", "-", "-", load]
    faults = ", ".join(str(result[name]) for name in ("lost", "doubled", "wrong"))
    return [*who, _both(result, "appended"), _both(result, "received"), _share(result, beside), faults, load]


def _both(result: Row, name: str) -> str:
    shown = (result.get(f"{name}_p{q}_ms") for q in (50, 99))
    return " / ".join("-" if each is None else f"{each:,.1f}" for each in shown)


def _share(result: Row, beside: Row | None) -> str:
    theirs = beside["result"].get("appended_p99_ms") if beside else None
    ours = result.get("appended_p99_ms")
    return f"{ours / theirs:.2f}" if theirs and ours is not None else "-"
