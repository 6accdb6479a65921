"""Transactions through crashes: what they see, leave and answer is what a serial execution gives."""

from random import Random
from typing import Any

import pytest

from flamestream.core.dataflow.tables.patience import Patience
from flamestream.core.dataflow.tables.transactions import Transactions
from flamestream.model.ids import Slot
from flamestream.model.meta import Meta
from flamestream.model.tables.ledger import Table
from flamestream.simulation.changes.hand_overs import handing_over
from flamestream.simulation.graphs import key_of
from flamestream.simulation.jobs.bank import bank_job, indexed_job, retracted_job, subgraph_job
from flamestream.simulation.kinds import run
from flamestream.simulation.settings import GUARANTEES, promising
from flamestream.testing import simulate
from support.seeds import chunks


@pytest.mark.parametrize("first", chunks(0, 200, 25, at_push=75))
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


@pytest.mark.parametrize("first", chunks(0, 200, 25, at_push=50))
def test_so_they_are_where_transactions_are_taken_back_and_come_again(
    monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    again, remove = [0], Transactions.remove

    def noted(self: Transactions, slot: Slot, meta: Meta, payload: Any) -> Any:
        again[0] += 1
        return remove(self, slot, meta, payload)

    monkeypatch.setattr(Transactions, "remove", noted)
    delivered = [
        simulate(seed, job=retracted_job(Random(seed))).delivered for seed in range(first, first + 25)
    ]
    assert sum(map(bool, delivered)) > 20
    assert again[0] > 1_000


def test_so_they_are_with_an_index_that_they_keep() -> None:
    delivered = 0
    for seed in range(25):
        job = bank_job(Random(seed))
        assert job.graph.ledger is not None
        accounts: Table[str, int] = Table(job.graph.ledger, "accounts")
        tens = accounts.index("by_tens", key=lambda balance: min(balance // 10, 5))
        tens.changes().map(lambda write: (str(write.key), repr(write.after))).sink("tens", key=key_of)
        delivered += simulate(seed, job=job).delivered
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


@pytest.mark.parametrize("first", chunks(0, 200, 25, at_push=75))
def test_so_they_are_of_subgraphs(first: int) -> None:
    results = [simulate(seed, job=subgraph_job(Random(seed))) for seed in range(first, first + 25)]
    assert sum(bool(result.delivered) for result in results) > 20


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_so_they_are_under_every_guarantee(guarantee: str) -> None:
    results = [simulate(seed, adjust=promising(guarantee), job=bank_job(Random(seed))) for seed in range(20)]
    assert sum(result.delivered for result in results) > 100
