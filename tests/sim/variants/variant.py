"""A broken variant: the engine with one rule taken away, and how to catch it.

Does not: hold the list (`__init__.py`).
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from flamestream.testing.faults import Fault, FaultPlan, Moment
from flamestream.testing.graphs import SimJob
from flamestream.testing.settings import Plan
from flamestream.testing.simulator import SimulationFailure, Variant, simulate

Adjust = Callable[[Random, Plan, FaultPlan], tuple[Plan, FaultPlan]]


@dataclass(frozen=True)
class BrokenVariant:
    """One rule less."""

    name: str
    broken: Variant
    adjust: Adjust | None = None
    """A directed scenario, where chance alone would need too many seeds."""
    job: Callable[[Random], SimJob] | None = None
    seeds: int = 60
    """It is caught within seeds 0 to this."""

    def caught(self) -> tuple[int, SimulationFailure] | None:
        """The first seed that catches it (and finds nothing in the whole engine), and what it says."""
        for seed in range(self.seeds):
            failure = self._failure(seed, self.broken)
            if failure is not None and self._failure(seed, None) is None:
                return seed, failure
        return None

    def _failure(self, seed: int, broken: Variant | None) -> SimulationFailure | None:
        job = None if self.job is None else self.job(Random(seed))
        try:
            simulate(seed, broken=broken, adjust=self.adjust, job=job)
        except SimulationFailure as failure:
            return failure
        return None


@contextmanager
def patched(owner: Any, **replacements: Any) -> Iterator[None]:
    """`owner` with other attributes for a while."""
    before = {name: owner.__dict__[name] for name in replacements}
    for name, value in replacements.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


def patch(owner: Any, **replacements: Any) -> Callable[[], AbstractContextManager[None]]:
    """A variant that replaces attributes of `owner`."""
    return lambda: patched(owner, **replacements)


def with_faults(*faults: Fault, rate: float = 0.3, times: int = 3, **changes: Any) -> Adjust:
    """Certain faults instead of drawn ones; `changes` are of the worker's settings."""

    def adjust(rng: Random, plan: Plan, drawn: FaultPlan) -> tuple[Plan, FaultPlan]:
        start = plan.heal_at - 80_000
        moments = [Moment(rng.randrange(start, plan.heal_at), fault) for fault in faults for _ in range(times)]
        drawn.rates = dict.fromkeys(faults, rate)
        drawn.moments = sorted(moments, key=lambda moment: moment.at)
        return replace(plan, worker=replace(plan.worker, **changes), stop_at=None), drawn

    return adjust
