"""Snapshots of many small segments in several tiers, merged all the time, restore what an unmerged one would
(invariants 4 and 5)."""

from collections import Counter
from random import Random

from flamestream.core.coordinator import compaction
from flamestream.model.payloads import state
from flamestream.simulation.faults import Fault
from flamestream.simulation.graphs import inverted_index
from flamestream.testing import simulate
from sim.variants.variant import directed, patched

CHURN = directed(
    Fault.WORKER_CRASH,
    Fault.LINK_BREAK,
    spacing=3_000,
    coordinator={"interval_us": 2_000, "grace_us": 1_000},
    worker={"credit_runs": 5},
)


def test_merging_some_segments_and_not_others_loses_nothing() -> None:
    coverage: Counter[str] = Counter()
    with patched(compaction, SMALLEST=32, MAX_PER_TIER=2), patched(state, FULL_ABOVE=0):
        for seed in range(50):
            coverage.update(simulate(seed, adjust=CHURN, job=inverted_index(Random(seed))).coverage)
    assert coverage["snapshot.compacted"] > 20
    assert coverage["worker.Load"] > 20
