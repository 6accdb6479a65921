"""Runs in which slots move for their load, and workers come and go for it."""

from dataclasses import replace
from random import Random

from flamestream.core.coordinator.coordination import Pace
from flamestream.simulation.faults import FaultPlan
from flamestream.simulation.settings import MS, Plan


def loaded(rng: Random, plan: Plan, faults: FaultPlan) -> tuple[Plan, FaultPlan]:
    """Items cost so much that workers are too full now and then; in half of the runs their number follows."""
    workers = rng.choice([2, 3, 4])
    coordinator = replace(
        plan.coordinator, workers=workers, balance_us=rng.choice([None, 1, 20 * MS, 20 * MS]),
        rebalance_pause_us=rng.choice([0, 20 * MS]),
    )  # fmt: skip
    if rng.random() < 0.5:
        coordinator = replace(
            coordinator, most_workers=rng.randint(workers, 5), standbys=plan.standbys,
            least_workers=rng.randint(1, 2), pace=Pace(20 * MS, rng.choice([20, 60]) * MS),
        )  # fmt: skip
    return replace(
        plan, coordinator=coordinator, workers=workers, entrance_us=rng.choice([500, 5_000])
    ), faults
