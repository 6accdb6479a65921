"""Affetti's bank (2017, table 1): transfers that are committed or aborted as a whole, through lost workers.

Simulated jobs of the core, each compared with a serial execution, sink by sink and byte by byte. How many transfers a
second a machine carries, and how late, is no matter of a simulator: `python benchmarks bank` measures it.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

from flamestream.papers.observed import killed
from flamestream.papers.report import Report, Table
from flamestream.simulation.graphs import SimJob
from flamestream.simulation.jobs.bank import bank_job, subgraph_job
from flamestream.simulation.settings import promising
from flamestream.simulation.simulator import SimulationFailure, simulate

KNOWN: Final = (("21,448", "3.7"), ("6,235", "8.2"))
"""Transfers a second and mean latency in ms, of the cells of the table that are known here."""
JOBS: Final[tuple[tuple[str, Callable[[Random], SimJob]], ...]] = (
    ("functions over rows of tables", bank_job),
    ("transactional subgraphs, also in series", subgraph_job),
)
SEEDS: Final = range(12)


def run(seeds: range = SEEDS) -> Report:
    """The cells that are known, and jobs that lose a worker."""
    found = [(name, _simulated(job, seeds)) for name, job in JOBS]
    rows = [
        (name, *(str(count[what]) for what in ("jobs", "outcomes", "not serial"))) for name, count in found
    ]
    return Report(
        "Table 1 of Affetti, Margara and Cugola: the bank",
        "transfers between accounts on a stream processor, each of which changes both accounts or none and overdraws "
        "nobody, with transfers a second and mean latency, on two times twelve cores.",
        (
            Table(
                "The cells of it that are known here, at which `python benchmarks bank --parts latency` runs",
                ("transfers a second", "mean latency, ms"),
                KNOWN,
            ),
            Table(
                "The bank in the core, exactly once; a worker of each job is killed",
                ("transfers are", "jobs", "outcomes", "jobs that no serial execution explains"),
                tuple(rows),
            ),
        ),
        "Whatever is killed, what leaves is what one transfer after the other gives: committed as a whole, or "
        "aborted as a whole.",
        all(count["not serial"] == 0 < count["outcomes"] for _, count in found),
    )


def _simulated(made: Callable[[Random], SimJob], seeds: range) -> Counter[str]:
    """Jobs, what they have delivered, and how many differ from the reference interpreter's."""
    count = Counter({"jobs": 0, "outcomes": 0, "not serial": 0})
    for seed in seeds:
        count["jobs"] += 1
        try:
            result = simulate(
                seed, job=made(Random(seed)), adjust=promising("exactly-once", killed(letters=False))
            )
        except SimulationFailure:
            count["not serial"] += 1
        else:
            count["outcomes"] += result.delivered
    return count
