"""The other guarantees hold their own invariants, with native parts too, and their runs really contain what is special about them."""

import pytest

from flamestream.core.native import native
from flamestream.core.parts import REFERENCE
from flamestream.model.kernel import kernel
from flamestream.testing import simulate
from flamestream.testing.settings import promising

SEEDS = range(120)


@pytest.mark.parametrize(
    ("guarantee", "special"),
    [("exactly-once-2pc", "snapshot.holds output"), ("at-least-once", "consumer.repeated item"), ("none", "job.began anew")],
)
def test_every_invariant_holds_at_every_event(guarantee: str, special: str) -> None:
    assert sum(simulate(seed, adjust=promising(guarantee)).coverage[special] for seed in SEEDS) > len(SEEDS)


@pytest.mark.skipif(kernel is None, reason="this installation has no native kernel: there was no Rust compiler")
@pytest.mark.parametrize("guarantee", ["exactly-once-2pc", "at-least-once", "none"])
def test_a_seed_has_one_trace_for_both_kinds_of_parts(guarantee: str) -> None:
    assert kernel is not None
    for seed in range(30):
        reference = simulate(seed, adjust=promising(guarantee), parts=REFERENCE)
        assert (seed, simulate(seed, adjust=promising(guarantee), parts=native(kernel)).trace_hash) == (seed, reference.trace_hash)
