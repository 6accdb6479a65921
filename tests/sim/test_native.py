"""The native parts run the same protocol as the reference parts: one seed, one trace, whatever a worker is
made of (invariant 10)."""

from dataclasses import replace
from random import Random

import pytest

from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.model.kernel import kernel
from flamestream.simulation.faults import FaultPlan
from flamestream.simulation.graphs import SimJob
from flamestream.simulation.jobs.bank import (
    bank_job,
    indexed_job,
    retracted_job,
    retracted_row_job,
    subgraph_job,
)
from flamestream.simulation.jobs.ready import ready_job
from flamestream.simulation.jobs.ticks import ticking
from flamestream.simulation.kinds import Draw
from flamestream.simulation.settings import GUARANTEES, Adjust, Plan, promising
from flamestream.testing import simulate
from support.seeds import chunks

pytestmark = pytest.mark.skipif(
    kernel is None, reason="this installation has no native kernel: there was no Rust compiler"
)


def same(seed: int, adjust: Adjust | None = None, job: SimJob | None = None) -> None:
    assert kernel is not None
    reference, other = (
        simulate(seed, adjust=adjust, job=job, parts=parts) for parts in (REFERENCE, native(kernel))
    )
    assert (seed, other.trace_hash, other.outcome) == (seed, reference.trace_hash, reference.outcome)


@pytest.mark.parametrize("first", chunks(0, 100, 20, at_push=40))
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_seed_has_one_trace_for_both(guarantee: str, first: int) -> None:
    for seed in range(first, first + 20):
        same(seed, promising(guarantee))


@pytest.mark.parametrize("first", chunks(0, 200, 20, at_push=40))
def test_so_it_has_with_ready_made_and_vectorised_functions(first: int) -> None:
    """The kernel makes no objects for them, and asks about several items at once; the reference calls them
    one by one."""
    for seed in range(first, first + 20):
        same(seed, job=ready_job(Random(seed)))


@pytest.mark.parametrize("first", chunks(0, 100, 20, at_push=20))
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_so_it_has_with_transactions(guarantee: str, first: int) -> None:
    for seed in range(first, first + 20):
        same(seed, promising(guarantee), bank_job(Random(seed)))


@pytest.mark.parametrize("first", chunks(0, 100, 20, at_push=20))
@pytest.mark.parametrize("job", [retracted_job, retracted_row_job])
def test_so_it_has_with_transactions_that_are_taken_back(job: Draw, first: int) -> None:
    for seed in range(first, first + 20):
        same(seed, job=job(Random(seed)))


@pytest.mark.parametrize("first", chunks(0, 100, 20, at_push=20))
def test_so_it_has_with_transactional_subgraphs(first: int) -> None:
    for seed in range(first, first + 20):
        same(seed, job=subgraph_job(Random(seed)))


@pytest.mark.parametrize("first", chunks(0, 200, 20, at_push=20))
def test_so_it_has_with_an_index_that_comes_and_goes(first: int) -> None:
    for seed in range(first, first + 20):
        same(seed, ticking(), indexed_job(Random(seed)))


def test_so_it_has_with_transactions_whose_functions_run_twice() -> None:
    def debugged(_: Random, plan: Plan, faults: FaultPlan) -> tuple[Plan, FaultPlan]:
        return replace(plan, worker=replace(plan.worker, debug=True)), faults

    for seed in range(10):
        same(seed, debugged, bank_job(Random(seed)))
