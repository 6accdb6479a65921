"""Each experiment finds what it claims, and says so if it does not."""

from dataclasses import replace
from typing import Any

import pytest

from flamestream.core.dataflow.barrier import Barrier
from flamestream.core.dataflow.tables.transactions import Transactions
from flamestream.core.worker.acker import AckTable
from flamestream.job.manifest import GUARANTEES
from flamestream.model.errors import UserError
from flamestream.papers import (
    abc_bac,
    acker,
    affetti1,
    bucket,
    coin,
    drift,
    execution,
    grouping,
    guarantees,
    small_systems,
    table2,
    without_journal,
)
from flamestream.papers.experiments import EXPERIMENTS
from flamestream.papers.policies import EARLY, OF_GUARANTEE, OURS, PAPER
from flamestream.papers.small_systems import System
from flamestream.simulation.outside.journals import Journals
from flamestream.simulation.simulator import SimulationFailure

SEEDS = range(6)
UNORDERED = replace(OURS[1], order="any")


# theorem 1 in its parts below, and as a whole where the page is typed
@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "theorem1"])
def test_it_finds_what_it_claims(name: str) -> None:
    assert EXPERIMENTS[name].run().holds


def test_theorem_1_predicts_which_small_systems_break() -> None:
    assert small_systems.table(small_systems.predicts)[1] == len(small_systems.SYSTEMS) == 24


def test_a_prediction_that_forgets_what_is_computed_from_the_choice_is_wrong() -> None:
    def forgetful(system: System) -> bool:
        return small_systems.predicts(replace(system, derived="never"))

    assert small_systems.table(forgetful)[1] < len(small_systems.SYSTEMS)


def test_the_core_needs_its_journal() -> None:
    assert without_journal.table(SEEDS)[1]


def test_a_coin_is_found_in_a_function_and_taken_as_a_call() -> None:
    assert coin.table(SEEDS)[1]


def test_transfers_that_are_not_decided_again_are_no_serial_execution_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Transactions, "_above", lambda self, key, one: ())
    assert not affetti1.run(SEEDS).holds


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [without_journal, coin])
def test_so_it_is_in_two_hundred_runs(experiment: Any) -> None:
    assert experiment.table(range(200))[1]


# --- what is not so is said ------------------------------------------------------------------------------


def test_table_2_with_a_policy_of_ours_that_has_no_order() -> None:
    assert not table2.report((*EARLY, PAPER), (*OURS, UNORDERED)).holds


def test_abc_bac_with_a_policy_of_ours_that_has_no_order() -> None:
    assert not abc_bac.report(EARLY, (*OURS, UNORDERED)).holds


def test_abc_bac_with_an_early_policy_that_breaks_nothing() -> None:
    assert not abc_bac.report((*EARLY, OURS[0]), OURS).holds


def test_guarantees_with_a_policy_that_keeps_less() -> None:
    lossy = replace(OF_GUARANTEE["exactly-once"], snapshot="at any time")
    assert not guarantees.report({**OF_GUARANTEE, "exactly-once": lossy}, GUARANTEES).holds


def test_guarantees_with_one_that_nobody_has_looked_at() -> None:
    assert not guarantees.report(OF_GUARANTEE, (*GUARANTEES, "exactly-twice")).holds


@pytest.mark.parametrize("experiment", [drift, grouping])
def test_a_barrier_that_keeps_what_was_taken_back(experiment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Barrier, "drop", lambda self, meta, payload: None)
    assert not experiment.run().holds


def test_an_acker_that_looks_at_promises_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AckTable, "minimal_time", property(lambda table: min(table._promised.values())))
    assert not acker.run().holds


def test_a_bucket_that_changes_below_minimal_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "LATE", bucket.CUT - 1)
    assert not bucket.run().holds


def test_a_journal_that_does_not_remember_is_no_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journals, "seal", lambda self, front, fence, cut: [])
    with pytest.raises(SimulationFailure):
        without_journal.table(SEEDS)


def test_a_core_that_came_to_another_state_behind_the_crash_of_table_2_stops() -> None:
    with pytest.raises(UserError, match="was delivered as 'db' and is now"):
        execution.beside(replayed="acbde")
