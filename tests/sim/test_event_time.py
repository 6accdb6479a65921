"""Jobs in event time through crashes: sources that are late, fall silent and end, with results byte by byte
those of the reference."""

from random import Random

import pytest

from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.model.kernel import kernel
from flamestream.simulation.jobs.event_time import arrival_job, clock_job, event_time_job
from flamestream.simulation.settings import GUARANTEES, promising
from flamestream.testing import simulate
from support.seeds import chunks


@pytest.mark.parametrize("first", chunks(0, 100, 25, at_push=25))
def test_results_are_those_of_the_reference(first: int) -> None:
    delivered = [
        simulate(seed, job=event_time_job(Random(seed))).delivered for seed in range(first, first + 25)
    ]
    assert sum(map(bool, delivered)) > 20


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_so_they_are_under_every_guarantee(guarantee: str) -> None:
    for seed in range(200, 215):
        simulate(seed, adjust=promising(guarantee), job=event_time_job(Random(seed)))


@pytest.mark.skipif(
    kernel is None, reason="this installation has no native kernel: there was no Rust compiler"
)
def test_so_they_are_with_the_kernel() -> None:
    """It keeps the states of a shard in another form, and its rows are of other lengths, so uploads take
    other turns: no trace is the same. Each run's results and stored states are held to the reference's all
    the same (simulation/invariants.py)."""
    assert kernel is not None
    for seed in range(300, 320):
        one, other = (
            simulate(seed, job=event_time_job(Random(seed)), parts=parts).delivered
            for parts in (REFERENCE, native(kernel))
        )
        assert (seed, other) == (seed, one)


@pytest.mark.parametrize("first", chunks(400, 500, 25, at_push=25))
def test_windows_of_arrival_times_are_those_of_the_journal(first: int) -> None:
    delivered = [simulate(seed, job=arrival_job(Random(seed))).delivered for seed in range(first, first + 25)]
    assert sum(map(bool, delivered)) > 20


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_so_they_are_by_arrival_under_every_guarantee(guarantee: str) -> None:
    for seed in range(500, 515):
        simulate(seed, adjust=promising(guarantee), job=arrival_job(Random(seed)))


@pytest.mark.skipif(
    kernel is None, reason="this installation has no native kernel: there was no Rust compiler"
)
def test_so_are_arrival_times_with_the_kernel() -> None:
    assert kernel is not None
    assert all(
        simulate(seed, job=arrival_job(Random(seed)), parts=native(kernel)).delivered
        for seed in range(600, 620)
    )


@pytest.mark.parametrize("first", chunks(700, 750, 25, at_push=25))
def test_a_clock_says_again_what_the_journal_has(first: int) -> None:
    delivered = [simulate(seed, job=clock_job(Random(seed))).delivered for seed in range(first, first + 25)]
    assert sum(map(bool, delivered)) > 20
