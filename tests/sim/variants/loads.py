"""Broken variants of slots that move for their load, and of workers that come and go for it."""

from dataclasses import replace
from random import Random

from flamestream.core.coordinator.coordination import Pace
from flamestream.core.worker.prefetch import Prefetch
from flamestream.simulation.faults import Fault, FaultPlan
from flamestream.simulation.graphs import inverted_index
from flamestream.simulation.settings import MS, Plan
from sim.variants.variant import BrokenVariant, directed, patch


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


CRASHES = directed(
    Fault.WORKER_CRASH, times=3, spacing=2_000, worker={"credit_runs": 20, "heartbeat": 5_000},
    coordinator={
        "interval_us": 5_000, "balance_us": 1, "rebalance_pause_us": 80_000, "grace_us": 1_000, "workers": 3,
        "warm_us": 500_000,
    },
    plan={"workers": 3, "standbys": 0, "entrance_us": 2_000, "delay": 50},
)  # fmt: skip
"""Workers have read the state of slots that they shall get, and take over those of one that is lost."""


VARIANTS = [
    BrokenVariant(
        "what was read of some slots taken for all",
        patch(Prefetch, _covers=lambda self, slots: self.warm),
        CRASHES,
        inverted_index,
    ),
]
