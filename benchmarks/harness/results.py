"""Results of runs, from the lines that `suite.py` wrote, by what was measured.

Does not: import what is measured: whoever draws has an environment of its own (drawing.py).
"""

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PERCENTILES = (50, 75, 95, 99)
FIGURES = ("fig9", "fig10", "fig11", "fig12", "fig13", "throughput", "workers")
PAPER_INTERVALS = {"fig10": 50, "fig11": 500, "fig12": 1000}
"""Milliseconds between checkpoints, a figure each."""
BESIDE = ("flamestream", "flink", "flink 1 ms")
"""The systems of those figures."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """What was measured, without the round."""

    system: str
    guarantee: str
    interval_ms: int | None
    """None without checkpoints."""

    def __str__(self) -> str:
        every = "" if self.interval_ms is None else f", every {self.interval_ms} ms"
        return f"{self.system}, {self.guarantee}{every}"


def load(file: Path) -> list[Row]:
    """All lines."""
    return [json.loads(line) for line in file.read_text().splitlines() if line.strip()]


def percentile(values: Iterable[float], q: float) -> float:
    """The smallest value that at least `q` hundredths of all do not exceed.

    >>> percentile([4, 1, 3, 2], 50), percentile([4, 1, 3, 2], 99)
    (2, 4)
    """
    ordered = sorted(values)
    return ordered[max(0, -int(-q * len(ordered) // 100) - 1)]


def median_and_ends(values: Sequence[float], form: str = ".2f") -> str:
    """The median of rounds, and between which they lie, for a table.

    >>> median_and_ends([3, 1, 2.5])
    '2.50 (1.00 to 3.00)'
    """
    middle, least, most = (
        format(each, form) for each in (statistics.median(values), min(values), max(values))
    )
    return f"{middle} ({least} to {most})"


def cases(rows: Iterable[Row], kind: str) -> dict[Case, list[Row]]:
    """The rounds of each case, in the order in which the first came."""
    found: dict[Case, list[Row]] = {}
    for row in rows:
        if row["kind"] == kind:
            cell = row["cell"]
            interval = None if cell["guarantee"] == "none" else int(cell["interval_ms"])
            found.setdefault(Case(row["system"], cell["guarantee"], interval), []).append(row)
    return found


def over_rounds(rounds: list[Row], figure: Callable[[Row], float]) -> tuple[float, float, float]:
    """Median, least, most."""
    values = [figure(row) for row in rounds]
    return statistics.median(values), min(values), max(values)


def quantile(q: float) -> Callable[[Row], float]:
    """Of a run's latencies, ms."""
    return lambda row: percentile(row["latencies_ms"], q)


def pace(row: Row) -> float:
    """Change records a second behind the warm-up; of the whole run, where all came in one piece."""
    return float(row["result"]["steady_per_s"] or row["result"]["records_per_s"])


def by_workers(rows: Iterable[Row]) -> dict[tuple[int, bool], list[Row]]:
    """By number of workers, and whether they are modelled: those that came to their end."""
    found: dict[tuple[int, bool], list[Row]] = {}
    for row in rows:
        if row["kind"] == "workers" and row["latencies_ms"]:
            found.setdefault((row["cell"]["workers"], row["modelled"]), []).append(row)
    return found
