"""The other guarantees hold their own invariants, and their runs really contain what is special about
them."""

import pytest

from flamestream.simulation.settings import promising
from flamestream.testing import simulate

SEEDS = range(120)


@pytest.mark.parametrize(
    ("guarantee", "special"),
    [
        ("exactly-once-2pc", "snapshot.holds output"),
        ("at-most-once", "front.skipped records"),
        ("at-least-once", "consumer.repeated item"),
        ("none", "job.began anew"),
    ],
)
def test_every_invariant_holds_at_every_event(guarantee: str, special: str) -> None:
    assert sum(simulate(seed, adjust=promising(guarantee)).coverage[special] for seed in SEEDS) > len(SEEDS)
