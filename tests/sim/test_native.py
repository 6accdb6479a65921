"""The native parts run the same protocol as the reference parts: one seed, one trace, whatever a worker is made of."""

from random import Random

import pytest

from flamestream.core.native import native
from flamestream.core.parts import REFERENCE
from flamestream.model.kernel import kernel
from flamestream.testing import simulate
from flamestream.testing.ready_jobs import ready_job


@pytest.mark.skipif(kernel is None, reason="this installation has no native kernel: there was no Rust compiler")
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_a_seed_has_one_trace_for_both(first: int) -> None:
    assert kernel is not None
    for seed in range(first, first + 20):
        reference, other = simulate(seed, parts=REFERENCE), simulate(seed, parts=native(kernel))
        assert (seed, other.trace_hash, other.outcome) == (seed, reference.trace_hash, reference.outcome)


@pytest.mark.skipif(kernel is None, reason="this installation has no native kernel: there was no Rust compiler")
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_so_has_one_of_ready_made_and_vectorised_functions(first: int) -> None:
    """The kernel makes no objects for them, and asks about several items at once; the reference calls them one by one."""
    assert kernel is not None
    for seed in range(first, first + 20):
        reference = simulate(seed, job=ready_job(Random(seed)), parts=REFERENCE)
        other = simulate(seed, job=ready_job(Random(seed)), parts=native(kernel))
        assert (seed, other.trace_hash, other.outcome) == (seed, reference.trace_hash, reference.outcome)
