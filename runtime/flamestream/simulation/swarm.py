"""Many seeds, on several processes.

>>> results = swarm(range(2))
>>> [report.seed for report in results.reports], results.failures
([0, 1], [])

Does not: stop at the first failure: a search wants all of them.
"""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

from flamestream.simulation.kinds import run
from flamestream.simulation.simulator import Result, SimulationFailure

CHUNK = 10
"""Seeds that a process takes at once."""


@dataclass(frozen=True, slots=True)
class SwarmResult:
    """The results of many seeds."""

    reports: list[Result]
    failures: list[SimulationFailure]
    seconds: float
    coverage: Counter[str] = field(default_factory=Counter)
    """Counts of each fault and each branch of the protocol that happened, in all."""


def swarm(
    seeds: Iterable[int], processes: int = 1, guarantee: str = "exactly-once", kind: str = "any"
) -> SwarmResult:
    """Simulate each seed. `kind`: one of `kinds.KINDS`."""
    began, every, some = time.monotonic(), list(seeds), partial(_some, kind, guarantee)
    chunks = [every[start : start + CHUNK] for start in range(0, len(every), CHUNK)]
    if processes == 1:
        outcomes = [outcome for chunk in chunks for outcome in some(chunk)]
    else:
        # no fork: Arrow has threads
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            outcomes = [outcome for outcomes in pool.map(some, chunks) for outcome in outcomes]
    reports = [outcome for outcome in outcomes if isinstance(outcome, Result)]
    coverage: Counter[str] = Counter()
    for report in reports:
        coverage.update(report.coverage)
    failures = [outcome for outcome in outcomes if isinstance(outcome, SimulationFailure)]
    return SwarmResult(reports, failures, time.monotonic() - began, coverage)


def _some(kind: str, guarantee: str, seeds: Sequence[int]) -> list[Result | SimulationFailure]:
    outcomes: list[Result | SimulationFailure] = []
    for seed in seeds:
        try:
            outcomes.append(run(kind, seed, guarantee))
        except SimulationFailure as failure:
            outcomes.append(failure)
    return outcomes
