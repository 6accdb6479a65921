"""A coin in a job: in a function that nobody was told of, and as a call.

In a function it falls anew when a process that throws it is lost. As a call it is what the simulated service
says, another thing each time it is asked; its first answer that is in the journal counts.
"""

from collections.abc import Iterable
from random import Random

from flamestream.papers.observed import Seen, coin_job, killed, observed
from flamestream.papers.report import Table
from flamestream.simulation.faults import Fault
from flamestream.simulation.jobs.calls import again_job
from flamestream.simulation.settings import promising
from flamestream.simulation.simulator import SimulationFailure, simulate

NAMED = "job.failed on a function that is not deterministic"
THROWN_AGAIN = f"fault.{Fault.FUNCTION_CHANGE.name}"


def table(seeds: range) -> tuple[Table, bool]:
    """A row a coin, and whether exactly-once never gives two results for one input."""
    lenient, strict = _thrown(seeds, "at-least-once"), _thrown(seeds, "exactly-once")
    called = _called(seeds)
    rows = [("in a function", "at-least-once", lenient), ("in a function", "exactly-once", strict)]
    rows.append(("a call", "exactly-once", called))
    made = Table(
        "(3) A coin, and a worker is killed",
        ("the coin", "guarantee", "thrown again", "one input has two results", "the job stops and says why"),
        tuple(
            (coin, guarantee, *(f"{count} of {len(seeds)}" for count in counts))
            for coin, guarantee, counts in rows
        ),
    )
    _, contradicts, _ = lenient
    _, slips, stops = strict
    again, wrong, ends = called
    return made, contradicts > 0 and slips == 0 and stops > 0 and again > 0 and wrong == ends == 0


def _thrown(seeds: Iterable[int], guarantee: str) -> tuple[int, int, int]:
    """In how many runs the coin was thrown again, gave two results, and was named."""
    runs = [observed(seed, coin_job(), guarantee, Fault.FUNCTION_CHANGE) for seed in seeds]
    again = sum(run.result.coverage[THROWN_AGAIN] > 0 for run in runs)
    return again, sum(map(_two_results, runs)), sum(NAMED in run.result.coverage for run in runs)


def _two_results(seen: Seen) -> bool:
    """Whether one place of the order was given two values."""
    return len(dict(seen.items)) < len(set(seen.items))


def _called(seeds: Iterable[int]) -> tuple[int, int, int]:
    """In how many runs the service was asked again, a result was not that of the first answer (invariant 2
    looks at every one), and the job did not complete."""
    again = wrong = ended = 0
    for seed in seeds:
        try:
            result = simulate(
                seed, job=again_job(Random(seed)), adjust=promising("exactly-once", killed(letters=False))
            )
        except SimulationFailure:
            wrong += 1
        else:
            again += result.coverage["service.asked again"] > 0
            ended += result.outcome != "completed"
    return again, wrong, ended
