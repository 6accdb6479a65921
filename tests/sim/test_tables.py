"""Transactions through crashes: what they see, leave and answer is what a serial execution gives."""

from random import Random

import pytest

from flamestream.core.dataflow.tables.patience import Patience
from flamestream.simulation.changes.hand_overs import handing_over
from flamestream.simulation.jobs.bank import (
    bank_job,
    indexed_job,
    retracted_job,
    retracted_row_job,
    subgraph_job,
    with_index,
)
from flamestream.simulation.kinds import Draw, run
from flamestream.simulation.settings import GUARANTEES, promising
from flamestream.testing import simulate
from support.core.removals import counted_removals
from support.seeds import chunks


@pytest.mark.parametrize("first", chunks(0, 200, 25, at_push=50))
def test_outcomes_are_those_of_a_serial_execution_whatever_crashes(first: int) -> None:
    delivered = [simulate(seed, job=bank_job(Random(seed))).delivered for seed in range(first, first + 25)]
    assert sum(map(bool, delivered)) > 20


def test_among_them_are_some_where_what_is_measured_lets_transactions_wait_and_guesses_them_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turned = list[bool]()
    judge = Patience._judge

    def noted(patience: Patience) -> None:
        waited = patience.waits
        judge(patience)
        if patience.waits != waited:
            turned.append(patience.waits)

    monkeypatch.setattr(Patience, "_judge", noted)
    for seed in range(40):
        simulate(seed, job=bank_job(Random(seed)))
    assert turned.count(True) > 5
    assert turned.count(False) > 5


@pytest.mark.parametrize("first", chunks(0, 200, 25, at_push=25))
@pytest.mark.parametrize(("job", "least"), [(retracted_job, 1_000), (retracted_row_job, 500)])
def test_so_they_are_where_transactions_are_taken_back_and_come_again(
    monkeypatch: pytest.MonkeyPatch, job: Draw, least: int, first: int
) -> None:
    again = counted_removals(monkeypatch)
    delivered = [simulate(seed, job=job(Random(seed))).delivered for seed in range(first, first + 25)]
    assert sum(map(bool, delivered)) > 20
    assert again.total() > least


def test_so_they_are_with_an_index_that_they_keep() -> None:
    delivered = sum(simulate(seed, job=with_index(bank_job(Random(seed)))).delivered for seed in range(25))
    assert delivered > 500


@pytest.mark.parametrize("first", chunks(0, 400, 50, at_push=50))
def test_an_index_that_comes_while_they_run_has_all_rows(first: int) -> None:
    made = sum(run("new-index", seed).coverage["tick.made"] for seed in range(first, first + 50))
    assert made > 25


@pytest.mark.parametrize("guarantee", ["exactly-once-2pc", "at-most-once", "strong-productions", "none"])
def test_so_it_has_under_every_guarantee(guarantee: str) -> None:
    results = [run("new-index", seed, guarantee) for seed in range(20)]
    assert sum(result.coverage["tick.made"] for result in results) > 5


def test_another_job_that_goes_on_has_its_index_of_all_rows() -> None:
    results = [simulate(seed, job=indexed_job(Random(seed)), adjust=handing_over()) for seed in range(40)]
    assert sum(result.coverage["job.handed over"] for result in results) > 10


@pytest.mark.parametrize("first", chunks(0, 200, 25, at_push=50))
def test_so_they_are_of_subgraphs(first: int) -> None:
    results = [simulate(seed, job=subgraph_job(Random(seed))) for seed in range(first, first + 25)]
    assert sum(bool(result.delivered) for result in results) > 20


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_so_they_are_under_every_guarantee(guarantee: str) -> None:
    results = [simulate(seed, adjust=promising(guarantee), job=bank_job(Random(seed))) for seed in range(20)]
    assert sum(result.delivered for result in results) > 100
