"""Jobs in event time through crashes: sources that are late, fall silent and end, with results byte by byte those of the reference."""

from random import Random

import pytest

from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.model.kernel import kernel
from flamestream.simulation.event_time_jobs import event_time_job
from flamestream.simulation.settings import GUARANTEES, promising
from flamestream.testing import simulate


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_results_are_those_of_the_reference(first: int) -> None:
    delivered = [simulate(seed, job=event_time_job(Random(seed))).delivered for seed in range(first, first + 25)]
    assert sum(map(bool, delivered)) > 20


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_so_they_are_under_every_guarantee(guarantee: str) -> None:
    for seed in range(200, 225):
        simulate(seed, adjust=promising(guarantee), job=event_time_job(Random(seed)))


@pytest.mark.skipif(kernel is None, reason="this installation has no native kernel: there was no Rust compiler")
def test_so_they_are_with_the_kernel() -> None:
    """It keeps the states of a shard in another form, and its rows are of other lengths, so uploads take other turns: no trace is the
    same. Each run's results and stored states are held to the reference's all the same (simulation/invariants.py)."""
    assert kernel is not None
    for seed in range(300, 340):
        one, other = (simulate(seed, job=event_time_job(Random(seed)), parts=parts).delivered for parts in (REFERENCE, native(kernel)))
        assert (seed, other) == (seed, one)
