"""Jobs that ask the outside, through crashes: each request is answered once, and results are byte by byte
those of the reference for the answers that were journalled."""

import itertools
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from flamestream.core.dataflow.native import native
from flamestream.core.dataflow.parts import REFERENCE
from flamestream.model.kernel import kernel
from flamestream.simulation.graphs import SimJob
from flamestream.simulation.jobs.calls import (
    again_job,
    again_loop_job,
    call_job,
    loop_job,
    once_job,
    timed_call_job,
)
from flamestream.simulation.settings import GUARANTEES, promising
from flamestream.testing import simulate
from support.seeds import chunks


@pytest.mark.parametrize("first", chunks(0, 100, 25, at_push=25))
def test_every_request_is_answered_once_and_results_are_those_of_the_answers(first: int) -> None:
    found = Counter[str]()
    delivered = []
    for seed in range(first, first + 25):
        result = simulate(seed, job=call_job(Random(seed)))
        found += result.coverage
        delivered.append(result.delivered)
    assert sum(map(bool, delivered)) > 20
    kinds = ("service.never", "service.error", "service.asked again", "journal.replayed", "epoch.committed")
    assert not [kind for kind in kinds if not found[kind]]


@pytest.mark.parametrize("first", chunks(0, 60, 20, at_push=20))
def test_windows_of_answers_close_where_the_reference_closes_them(first: int) -> None:
    found = Counter[str]()
    for seed in range(first, first + 20):
        found += simulate(seed, job=timed_call_job(Random(seed))).coverage
    assert found["journal.replayed"] and found["epoch.committed"]


@pytest.mark.parametrize("first", chunks(0, 90, 30, at_push=30))
def test_a_loop_through_calls_asks_as_often_as_it_may_and_then_ends(first: int) -> None:
    """The job ends by itself, behind the last answer of the last round."""
    found = Counter[str]()
    for seed in range(first, first + 30):
        found += simulate(seed, job=loop_job(Random(seed))).coverage
    kinds = ("loop.ended by its limit", "service.asked again", "journal.replayed", "epoch.committed")
    assert not [kind for kind in kinds if not found[kind]]


# Found by hand: a front of answers had promised up to an entry that never got into its journal.
@pytest.mark.parametrize(
    ("job", "seed"), [(once_job, 159), (once_job, 192), (timed_call_job, 227), (again_job, 297)]
)
def test_no_answer_enters_below_what_was_promised_while_a_journal_was_slow(
    job: Callable[[Random], SimJob], seed: int
) -> None:
    simulate(seed, job=job(Random(seed)))


# Under `none` no journal has intents or answers: each attempt asks anew, and has its own answers.
@pytest.mark.parametrize("guarantee", [name for name in GUARANTEES if name != "at-most-once"])
def test_so_they_are_under_every_guarantee(guarantee: str) -> None:
    asking, going_round = (again_job, again_loop_job) if guarantee == "none" else (call_job, loop_job)
    for seed in range(200, 209):
        simulate(seed, adjust=promising(guarantee), job=asking(Random(seed)))
        simulate(seed, adjust=promising(guarantee), job=timed_call_job(Random(seed)))
        simulate(seed, adjust=promising(guarantee), job=going_round(Random(seed)))


@pytest.mark.skipif(
    kernel is None, reason="this installation has no native kernel: there was no Rust compiler"
)
def test_the_kernel_takes_the_same_steps() -> None:
    assert kernel is not None
    for seed, job in itertools.product(range(300, 312), (call_job, loop_job)):
        one, other = (
            simulate(seed, job=job(Random(seed)), parts=parts).trace_hash
            for parts in (REFERENCE, native(kernel))
        )
        assert (seed, other) == (seed, one)
