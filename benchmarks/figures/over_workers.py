"""Rows of suite.py for latency over workers: real runs while there is a core a worker, and the model of
scaling.py for all.

Keeps: a modelled row says that it is one, and with which costs. Does not: draw (figures.py).
"""

import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from harness.corpus import documents
from harness.drive import drive, noise, record, where
from systems.base import Cell, Failed, System

from figures.scaling import WORKERS, Costs, core_costs, modelled, with_shell

CORE_DOCUMENTS = 1500
"""For the costs of the core."""
MODELLED = 1000
"""Documents at most: a simulated run has a limit of steps, and eight workers take some 280 a document."""
FITTED = 300
"""Documents in each modelled run that looks for the delay."""


def rows(system: System, cell: Cell, rounds: int, deadline: float, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Measured ones, in turns, then the modelled."""
    counts = [count for count in WORKERS if count <= (os.cpu_count() or 1)]
    fitted: list[list[float]] = []
    for turn in range(rounds):
        for count in counts[turn % len(counts) :] + counts[: turn % len(counts)]:
            before = noise()
            try:
                outcome = drive(system, replace(cell, workers=count), deadline)
            except Failed as reason:
                print(f"{count} workers: no result: {reason}", file=sys.stderr)
                continue
            row = record(system, replace(cell, workers=count), outcome, before)
            yield {"kind": "workers", "round": turn, "modelled": False} | row
            if count == 1 and not outcome.extra["unfinished"] and not outcome.lost:
                fitted.append(outcome.latencies)
    if fitted:
        yield from _modelled(system, cell, fitted, seed)


def _modelled(
    system: System, cell: Cell, fitted: Sequence[list[float]], seed: int
) -> Iterator[dict[str, Any]]:
    """For every number of workers, with costs fitted to the runs of one."""
    lines = list(documents(cell.documents, cell.mean))[cell.warm_up :][:MODELLED]
    sizes = [len(set(line.partition("\t")[2].split())) for line in lines]
    middle = [statistics.median(latencies) for latencies in zip(*fitted, strict=True)][:MODELLED]

    def once(costs: Costs, workers: int, count: int) -> list[float]:
        return modelled(costs, workers, lines[:count], cell.rate, cell.interval_ms, seed)

    before = noise()
    costs = with_shell(
        core_costs(CORE_DOCUMENTS, cell.mean), sizes, middle, lambda costs: once(costs, 1, FITTED)
    )
    for count in WORKERS:
        latencies = once(costs, count, len(lines))
        yield {
            "kind": "workers",
            "round": 0,
            "modelled": True,
            "system": system.name,
            "cell": asdict(replace(cell, workers=count)),
            "result": {
                f"p{q}": round(statistics.quantiles(latencies, n=100)[q - 1], 2) for q in (50, 75, 95, 99)
            },
            "latencies_ms": [round(latency, 3) for latency in latencies],
            "costs": asdict(costs),
            "noise": before,
            **where(),
        }
