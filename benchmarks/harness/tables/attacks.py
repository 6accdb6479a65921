"""The table of attacks on a live job: what each cost others."""

from typing import Any

from harness.markdown import markdown_table

Row = dict[str, Any]


def attacks_table(rows: list[Row]) -> str:
    """A line an attack: what it cost the job beside the attacked one, and the attacked one's own honest
    client."""
    lines = []
    for row in rows:
        own = _change(row["client"]) if row["client"] else "the job ends"
        clean = "yes" if row["clean"] else "NO"
        lines.append(
            [
                row["who"],
                row["does"],
                str(row["times"]),
                _change(row["neighbour"]),
                own,
                str(row["recoveries"]),
                clean,
            ]
        )
    head = [
        "who",
        "does",
        "times",
        "another job, p50 / p99 ms",
        "its own clients, p50 / p99 ms",
        "recoveries",
        "clean",
    ]
    return markdown_table(head, lines)


def _change(cost: dict[str, list[float]]) -> str:
    shown = (
        " / ".join(f"{value:.1f}" for value in cost[when]) or "nothing came" for when in ("before", "during")
    )
    return " -> ".join(shown)
