"""The table of Nexmark has a line a query, and says why a field is empty."""

from typing import Any

from nexmark.table import HEAD, Row, nexmark_table


def row(measure: str, system: str, query: str, **result: Any) -> Row:
    return {"measure": measure, "system": system, "query": query, "result": result, "noise": {"load": 1.0}}


def test_a_query_has_both_systems_in_one_line() -> None:
    rows = [
        row("throughput", "flamestream", "q1", events_per_core_second=100_000),
        row("throughput", "flink-sql", "q1", events_per_core_second=200_000),
        row("rows", "flink-sql", "q1", rows=5, equal=True),
        row(
            "latency",
            "flamestream",
            "q1",
            share={"rate": 7, "p50_ms": 1.0, "p99_ms": 2.0},
            failure={"gap_ms": 400},
        ),
    ]
    line = nexmark_table(rows).splitlines()[2]
    assert (
        line == "| q1 | 100,000 | 200,000 | 0.50 | as DuckDB's | 7 | 1.0 / 2.0 | - | - | - | - | 400 | - | "
        "1.0-1.0 |"
    )
    assert line.count("|") == len(HEAD) + 1


def test_an_empty_field_has_its_reason_below() -> None:
    rows = [
        row("throughput", "flamestream", "q6", events_per_core_second=1),
        row("latency", "flamestream", "q6", fixed={"reason": "too few"}),
        row("latency", "flink-sql", "q2", reason="it ended"),
    ]
    assert nexmark_table(rows).splitlines()[-3:] == [
        "- q6, flink-sql: an OVER window takes no rows that are withdrawn (FLINK-19059)",
        "- q6, flamestream, fixed: too few",
        "- q2, flink-sql, latency: it ended",
    ]


def test_rows_that_are_not_duckdbs_are_told() -> None:
    assert "| DIFFER |" in nexmark_table([row("rows", "flink-sql", "q1", rows=5, equal=False)])
