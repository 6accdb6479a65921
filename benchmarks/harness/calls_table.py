"""The table of calls in the docs, from the lines that figures/calls.py wrote: the newest of each job."""

from typing import Any, Final

Row = dict[str, Any]
HEAD: Final = ("job", "events/s", "at one rate, events/s", "p50 / p99, ms", "load")
WHAT: Final = {
    "plain": "bids as they are",
    "echo": "through a call of an echo over TCP",
    "beside": "as they are, while calls of 2 s are under way",
}


def calls_table(rows: list[Row]) -> str:
    """Markdown."""
    newest = {row["measure"]: row for row in rows}
    lines = [_line(what, newest[name]) for name, what in WHAT.items() if name in newest]
    return "\n".join("| " + " | ".join(line) + " |" for line in [HEAD, ("---",) * len(HEAD), *lines])


def _line(what: str, row: Row) -> tuple[str, ...]:
    found, fixed = row["result"], row["result"]["fixed"]
    latency = f"{fixed['p50_ms']} / {fixed['p99_ms']}" if "p50_ms" in fixed else str(fixed["reason"])
    return what, f"{found['events_per_s']:,}", f"{fixed['rate']:,}", latency, f"{row['noise']['load']:.1f}"
