"""Broken variants of slots that move for their load, and of workers that come and go for it."""

from flamestream.core.worker.prefetch import Prefetch
from flamestream.simulation.faults import Fault
from flamestream.simulation.graphs import inverted_index
from sim.variants.variant import BrokenVariant, directed, patch

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
