"""The tables of upgrades in the docs, from the lines that upgrades/figure.py (the newest of each figure) and
e2e/test_ten_upgrades.py wrote."""

from statistics import median
from typing import Any, Final

from harness.markdown import markdown_table
from harness.results import median_and_ends

Row = dict[str, Any]
HEAD: Final = (
    "upgrade", "n", "output stood still, ms", "of it, by the coordinator", "calm, ms", "lost, doubled", "load"
)  # fmt: skip
NAMES: Final = {
    "tick": "a function; 100 MB of state in 100,000 keys",
    "million": "a field and an operation; 1,000,000 keys",
    "ten": "ten, two of which fail their watch, a worker killed in each",
    "audited": "ten such, judged by `flamestream audit`",
}


def upgrades_table(rows: list[Row]) -> str:
    """Markdown: a line for each figure that was measured."""
    newest = {row["figure"]: row for row in rows}
    return markdown_table(
        list(HEAD), [_line(name, newest[kind]) for kind, name in NAMES.items() if kind in newest]
    )


def cluster_upgrades_table(rows: list[Row]) -> str:
    """Markdown: a line for each upgrade of e2e/test_ten_upgrades.py."""
    head = [
        "upgrade", "output stood still, ms", "behind the kill", "calm", "lost, doubled, of the wrong code", "load"
    ]  # fmt: skip
    numbers = ("gap_ms", "kill_gap_ms", "calm_ms")
    lines = [
        [
            row["what"],
            *(f"{row[name]:.0f}" if name in row else "-" for name in numbers),
            f"{row['lost']}, {row['doubled']}, {row['foreign']}",
            f"{row['load']:.0f}",
        ]
        for row in rows
    ]
    return markdown_table(head, lines)


def readme_upgrade_table(rows: list[Row]) -> str:
    """Markdown: a line for each run of README's job in e2e/test_ten_upgrades.py."""
    head = [
        "longest pause of the client, ms", "of it before a record entered, and in the job",
        "longest a second before and behind the cut", "before the edit", "held by the coordinator",
        "edit to first result, s", "results of each code", "load",
    ]  # fmt: skip
    lines = [
        [
            f"{row['gap_ms']:.0f}",
            _parts(row.get("longest")),
            *(f"{row[name]:.0f}" if name in row else "-" for name in ("tick_ms", "calm_ms", "hold_ms")),
            f"{row['turned_after_s']:.1f}",
            " and ".join(f"{count:,}" for count in row["results"]),
            f"{row['load']:.0f}",
        ]
        for row in rows
    ]
    return markdown_table(head, lines)


def _parts(pauses: list[Row] | None) -> str:
    """The parts of the longest pause, in ms: until the first record entered whose result ended it, and from there
    until that was written."""
    if not pauses:
        return "-"
    entered, written = pauses[0]["entered_ms"], pauses[0]["written_ms"]
    return f"{entered:.0f} + {max(0.0, written - entered):.0f}"


def flink_upgrades_table(rows: list[Row]) -> str:
    """Markdown: upgrades of one session, ours (those that are not taken back) and Flink's, and how much
    shorter the gap of ours is."""
    head = [
        "upgrade", "n", "output stood still, ms", "of it, stop with savepoint", "until the pods are gone",
        "calm", "clean", "load", "ours / its",
    ]  # fmt: skip
    kinds: dict[str, list[Row]] = {"FlameStream": []}
    for row in rows:
        kind = row["what"] if row["what"].startswith("Flink") else "FlameStream"
        if "taken back" not in row["what"]:
            kinds.setdefault(kind, []).append(row)
    ours = median(row["gap_ms"] for row in kinds["FlameStream"]) if kinds["FlameStream"] else 0.0
    return markdown_table(head, [_of_session(kind, its, ours) for kind, its in kinds.items() if its])


def _of_session(kind: str, rows: list[Row], ours: float) -> list[str]:
    gap = median(row["gap_ms"] for row in rows)
    loads = [row["load"] for row in rows]
    return [
        kind, str(len(rows)), *(_spread(rows, name) for name in ("gap_ms", "stop_ms", "gone_ms", "calm_ms")),
        f"{sum(row['clean'] for row in rows)} of {len(rows)}", f"{min(loads):.0f}-{max(loads):.0f}",
        f"1/{gap / ours:.1f}" if ours and kind != "FlameStream" else "-",
    ]  # fmt: skip


def _spread(rows: list[Row], name: str) -> str:
    values = [row[name] for row in rows if name in row]
    return median_and_ends(values, ",.0f") if values else "-"


def _line(name: str, row: Row) -> list[str]:
    if row["figure"] == "audited":
        told = f"{row['delivered']:,} results of {row['codes']} codes: {row['foreign']} of the wrong code"
        return [name, str(row["n"]), told, "-", "-", f"{row['lost']}, {row['doubled']}", f"{row['load']:.1f}"]
    extra = (
        f"; kills {row['kill_gap_ms']} ({row['kill_gap_least_ms']} to {row['kill_gap_most_ms']})"
        f"; taken back {row['back_gap_least_ms']} to {row['back_gap_most_ms']}"
        if "kill_gap_ms" in row
        else ""
    )
    gap = f"{row['gap_ms']} ({row['gap_least_ms']} to {row['gap_most_ms']}){extra}"
    counts = f"{row['lost']}, {row['doubled']}"
    return [name, str(row["n"]), gap, str(row["tick_ms"]), str(row["calm_ms"]), counts, f"{row['load']:.1f}"]
