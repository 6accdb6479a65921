"""The table of a fleet in the docs, from the lines that fleet/figure.py wrote: the newest of each size and number of
leaders."""

from typing import Any, Final

from harness.markdown import markdown_table

Row = dict[str, Any]
HEAD: Final = (
    "jobs", "leaders", "accepted to Running, jobs a minute", "operator's CPU a job, ms", "memory, MB",
    "decision p50 / p99, ms", "epochs/s", "cores for them", "API requests a job: to run; an hour",
    "a leader killed; asked to end: its jobs, until each is coordinated again, s", "load",
)  # fmt: skip


def fleet_table(rows: list[Row]) -> str:
    """Markdown: a line for each number of jobs, and of leaders."""
    newest = {(row["jobs"], _leaders(row)): row for row in rows}
    return markdown_table(list(HEAD), [_line(newest[size]) for size in sorted(newest)])


def _leaders(row: Row) -> int:
    return int(row.get("shards", 1))


def _line(row: Row) -> list[str]:
    decision = row["decision_ms"]
    return [
        f"{row['jobs']:,}", f"{_leaders(row)}", f"{row['jobs_a_minute']:.0f}",
        f"{row['cpu_ms_a_job']:.0f}", f"{max(row['resident_mb']):.0f}",
        f"{decision['p50']:.0f} / {decision['p99']:.0f}" if decision else "-",
        f"{row['epochs_a_second']:.0f}", f"{row['cores']:.2f}",
        f"{row['requests_to_run']:.0f}; {row['requests_an_hour']:.0f}", _hand_overs(row),
        f"{row['load']:.1f}",
    ]  # fmt: skip


def _hand_overs(row: Row) -> str:
    """With those whose stream stood still meanwhile, if any did."""
    return "; ".join(map(_hand_over, row.get("hand_overs", ()))) or "-"


def _hand_over(seen: Row) -> str:
    still = f", {seen['recovered']} stood still" if seen["recovered"] else ""
    return f"{seen['jobs']}: {seen['again_s']['p100']:.1f}{still}"
