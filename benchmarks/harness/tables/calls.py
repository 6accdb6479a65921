"""The table of calls in the docs, from the lines that figures/calls.py wrote: the newest of each job."""

from typing import Any, Final

Row = dict[str, Any]
HEAD: Final = ("job", "at most: calls/s", "events/s", "p50 / p99, ms", "asked", "load")
WHAT: Final = {
    "plain": "bids as they are",
    "echo": "through a call of an echo over TCP",
    "batched": "through calls of 64 bids at once",
    "flink": "Flink's AsyncWaitOperator, ordered, with the same echo",
    "beside": "as they are, while calls of 2 s are under way",
}
ASKED: Final = {
    "echo": "4 / 12 ms more than without, 2,000 calls/s, half of Flink's",
    "batched": "8,000 calls/s",
    "beside": "as without",
}


def calls_table(rows: list[Row]) -> str:
    """Markdown."""
    newest = {row["measure"]: row for row in rows}
    lines = [_line(what, newest[name]) for name, what in WHAT.items() if name in newest]
    return "\n".join("| " + " | ".join(line) + " |" for line in [HEAD, ("---",) * len(HEAD), *lines])


def _line(what: str, row: Row) -> tuple[str, ...]:
    fixed = row["result"]["fixed"]
    latency = f"{fixed['p50_ms']} / {fixed['p99_ms']}" if "p50_ms" in fixed else str(fixed["reason"])
    name = row["measure"]
    most = f"{row['result']['calls_per_s']:,}" if "calls_per_s" in row["result"] else "-"
    return what, most, f"{fixed['rate']:,}", latency, ASKED.get(name, "-"), f"{row['noise']['load']:.1f}"
