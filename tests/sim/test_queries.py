"""Queries through crashes: what a client is told is the reference's state, and a strict answer lacks nothing that
anybody had seen."""

from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest

from flamestream.core.dataflow.native import native
from flamestream.model.kernel import kernel
from flamestream.simulation.clients import asked
from flamestream.simulation.jobs.bank import bank_job, live_job
from flamestream.simulation.kinds import LOOKED_BACK, Draw
from flamestream.simulation.settings import Adjust, promising
from flamestream.testing import simulate
from sim.variants.queries import BURSTS, LATE_ANSWERS, ZOMBIES, unseen_job
from support.core.removals import counted_removals
from support.seeds import chunks


def covered(seeds: Iterable[int], adjust: Adjust, draw: Draw | None = None) -> Counter[str]:
    """How often what happened in the schedules of these seeds. `draw`: their jobs; None: any."""
    told = Counter[str]()
    for seed in seeds:
        job = None if draw is None else draw(Random(seed))
        told += simulate(seed, adjust=adjust, job=job).coverage
    return told


@pytest.mark.parametrize("first", chunks(0, 200, 25, at_push=25))
@pytest.mark.parametrize("guarantee", LOOKED_BACK)
def test_answers_are_of_one_cut_and_strict_ones_lack_nothing_whatever_crashes(
    guarantee: str, first: int
) -> None:
    told = covered(range(first, first + 25), promising(guarantee, asked))
    assert told["query.strict"] > 50
    assert told["query.stale"] > 50


def test_so_they_are_of_transactions() -> None:
    told = covered(range(20), asked, bank_job)
    assert told["query.strict"] > 80


@pytest.mark.parametrize("first", chunks(0, 150, 5, at_push=5))
@pytest.mark.parametrize("adjust", [asked, ZOMBIES, LATE_ANSWERS])
def test_so_they_are_of_transactions_that_are_taken_back_and_of_their_index(
    monkeypatch: pytest.MonkeyPatch, adjust: Adjust, first: int
) -> None:
    back = counted_removals(monkeypatch)
    told = covered(range(first, first + 5), adjust, live_job)
    assert back.total() > 20
    assert not [
        kind for kind in ("strict", "stale", "strict scan", "stale scan") if told[f"query.{kind}"] < 10
    ]


def test_so_they_are_from_workers_that_were_replaced_and_do_not_know_it() -> None:
    told = covered(range(25), ZOMBIES)
    assert told["query.strict"] > 100
    assert told["fault.WORKER_PAUSE"] > 25


def test_so_they_are_of_states_that_nobody_has_seen_but_who_asked() -> None:
    told = covered(range(12), BURSTS, unseen_job)
    assert told["query.strict"] > 50
    assert told["journal.replayed"] > 10


def test_so_they_are_where_a_journal_answers_later_than_another_worker_takes_over() -> None:
    told = covered(range(25), LATE_ANSWERS)
    assert told["query.strict"] > 100
    assert told["journal.zombie append refused"] > 5


@pytest.mark.skipif(
    kernel is None, reason="this installation has no native kernel: there was no Rust compiler"
)
def test_so_they_are_with_the_kernel() -> None:
    assert kernel is not None
    told = Counter[str]()
    for seed in range(40):
        told += simulate(seed, adjust=asked, parts=native(kernel)).coverage
    assert told["query.strict"] > 50
