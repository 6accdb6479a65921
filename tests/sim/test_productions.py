"""Functions that toss coins, through crashes: under `strong-productions` each input has one outcome, and results
are byte by byte those of the reference for what was journalled."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.model.calls.productions import with_productions
from flamestream.model.kernel import kernel
from flamestream.simulation.faults import FaultPlan
from flamestream.simulation.jobs.calls import loop_job
from flamestream.simulation.jobs.productions import production_job
from flamestream.simulation.settings import Plan, drawn_plan, promising
from flamestream.testing import simulate
from support.seeds import chunks


@pytest.mark.parametrize("first", chunks(0, 100, 25, at_push=25))
def test_every_input_has_one_outcome_whatever_crashes(first: int) -> None:
    found = Counter[str]()
    delivered = []
    for seed in range(first, first + 25):
        result = simulate(seed, job=production_job(Random(seed)))
        found += result.coverage
        delivered.append(result.delivered)
    assert sum(map(bool, delivered)) > 20
    kinds = ("service.asked again", "worker.MakeCall", "journal.replayed", "epoch.committed")
    assert not [kind for kind in kinds if not found[kind]]


def test_a_loop_through_calls_goes_round_as_often_where_its_functions_are_productions() -> None:
    found = Counter[str]()
    for seed in range(400, 420):
        drawn = loop_job(Random(seed))
        job = replace(drawn, graph=with_productions(drawn.graph))
        found += simulate(seed, adjust=promising("strong-productions"), job=job).coverage
    kinds = ("loop.ended by its limit", "service.asked again", "journal.replayed", "epoch.committed")
    assert not [kind for kind in kinds if not found[kind]]


@pytest.mark.skipif(
    kernel is None, reason="this installation has no native kernel: there was no Rust compiler"
)
def test_the_kernel_takes_the_same_steps() -> None:
    assert kernel is not None
    for seed in range(300, 310):
        one, other = (
            simulate(seed, job=production_job(Random(seed)), parts=parts).trace_hash
            for parts in (REFERENCE, native(kernel))
        )
        assert (seed, other) == (seed, one)


def test_what_was_final_when_a_request_left_stays_so_beside_a_source_of_an_own_order() -> None:
    """No service says, when a worker begins anew, how far it was asked. So the front of its answers pledges in its
    journal before it promises."""

    def directed(rng: Random, plan: Plan, faults: FaultPlan) -> tuple[Plan, FaultPlan]:
        return replace(drawn_plan(rng, production_job(rng)), heal_at=plan.heal_at), faults

    result = simulate(0, adjust=directed)
    assert result.delivered
