"""The table of productions in the docs, from the lines that figures/productions.py wrote: the newest of each
number of doors and guarantee."""

from typing import Any, Final

from harness.markdown import markdown_table

Row = dict[str, Any]
HEAD: Final = (
    "doors", "exactly-once: p50 / p99, ms", "strong-productions: p50 / p99, ms", "more at each door, ms", "load"
)  # fmt: skip


def productions_table(rows: list[Row]) -> str:
    """Markdown: a line for each number of doors that was measured under both guarantees."""
    newest = {(row["doors"], row["guarantee"]): row for row in rows}
    doors = sorted({doors for doors, _ in newest})
    pairs = [(n, newest.get((n, "exactly-once")), newest.get((n, "strong-productions"))) for n in doors]
    return markdown_table(
        list(HEAD), [_line(n, once, strong) for n, once, strong in pairs if once and strong]
    )


def _line(doors: int, once: Row, strong: Row) -> list[str]:
    both = [row["result"]["fixed"] for row in (once, strong)]
    latencies = [f"{fixed['p50_ms']} / {fixed['p99_ms']}" for fixed in both]
    more = [(both[1][name] - both[0][name]) / doors for name in ("p50_ms", "p99_ms")]
    loads = [row["noise"]["load"] for row in (once, strong)]
    return [str(doors), *latencies, " / ".join(f"{each:.1f}" for each in more), f"{max(loads):.1f}"]
