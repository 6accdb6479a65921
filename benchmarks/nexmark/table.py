"""The table of Nexmark in the docs: a query a line, from the lines that figure.py wrote."""

from typing import Any

from nexmark.flink_sql import LEFT_OUT

Row = dict[str, Any]
SIDES = ("flamestream", "flink-sql")
HEAD = (
    "query", "events/s of a core", "Flink", "share", "Flink's rows",
    "80%: events/s", "p50 / p99, ms", "Flink: events/s", "p50 / p99, ms",
    "fixed rate: p50 / p99, ms", "Flink", "gap, ms", "Flink", "load",
)  # fmt: skip


def nexmark_table(rows: list[Row]) -> str:
    """Markdown; below it, why a field is empty."""
    found = {(row["measure"], row["system"], row["query"]): row for row in rows}
    queries = sorted({row["query"] for row in rows}, key=lambda name: int(name[1:]))
    lines = [_line(found, query) for query in queries]
    table = "\n".join("| " + " | ".join(line) + " |" for line in [HEAD, ["---"] * len(HEAD), *lines])
    return "\n".join([table, "", *_reasons(rows, queries)])


def _line(found: dict[tuple[str, str, str], Row], query: str) -> list[str]:
    def result(measure: str, side: str) -> Row:
        return dict(found.get((measure, side, query), {}).get("result", {}))

    rates = [result("throughput", side).get("events_per_core_second") or 0 for side in SIDES]
    share = f"{rates[0] / rates[1]:.2f}" if all(rates) else "-"
    ours, theirs = (result("latency", side) for side in SIDES)
    compared = {True: "as DuckDB's", False: "DIFFER", None: "-"}[result("rows", SIDES[1]).get("equal")]
    loads = [row["noise"]["load"] for (_, _, name), row in found.items() if name == query]
    return [
        query, *(f"{rate:,}" if rate else "-" for rate in rates), share, compared,
        *_share(ours), *_share(theirs), _quantiles(ours, "fixed"), _quantiles(theirs, "fixed"), _gap(ours),
        _gap(theirs), f"{min(loads):.1f}-{max(loads):.1f}",
    ]  # fmt: skip


def _share(result: Row) -> tuple[str, str]:
    rate = result.get("share", {}).get("rate")
    return f"{rate:,}" if rate else "-", _quantiles(result, "share")


def _quantiles(result: Row, phase: str) -> str:
    found = result.get(phase, {})
    return f"{found['p50_ms']:.1f} / {found['p99_ms']:.1f}" if "p50_ms" in found else "-"


def _gap(result: Row) -> str:
    return str(result.get("failure", {}).get("gap_ms", "-"))


def _reasons(rows: list[Row], queries: list[str]) -> list[str]:
    """A line each: why a system has no query, or a query no figure."""
    lines = [f"- {query}, flink-sql: {reason}" for query, reason in LEFT_OUT.items() if query in queries]
    for row in rows:
        parts = {row["measure"]: row["result"]} | {
            name: part for name, part in row["result"].items() if isinstance(part, dict)
        }
        said = {part["reason"]: name for name, part in parts.items() if "reason" in part}
        lines += [f"- {row['query']}, {row['system']}, {name}: {reason}" for reason, name in said.items()]
    return lines
