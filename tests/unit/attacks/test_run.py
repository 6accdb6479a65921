"""The table of attacks says what went wrong, and counts what falls into its windows."""

import json
from pathlib import Path
from typing import Any

import pytest

from attacks import run
from attacks.attack import Attack
from attacks.catalogue import ATTACKS
from attacks.run import SETTLE, Done, kept, measured, staged, troubles
from attacks.stage import Report

CALM, UNTIL, OVER = 10.0, 20.0, 30.0


def done(*, ends: bool = False, **changes: Any) -> Done:
    """Ten calm seconds, and ten of attack."""
    attack = Attack("somebody", "does it", lambda *_: None, ends=ends)
    whole = {"times": 5, "code": 0, "recoveries": (0, 0), "runs": (True, True)}
    return Done(attack, CALM, UNTIL, OVER + SETTLE, **{**whole, **changes})


def report(
    *points: tuple[float, float | None], doubled: int = 0, disorder: int = 0, wrong: int = 0
) -> Report:
    return Report(list(points), doubled, disorder, wrong)


def test_there_are_more_than_sixty_attacks_each_by_a_name_of_its_own() -> None:
    assert len(ATTACKS) > 60
    assert all(attack.name == name for name, attack in ATTACKS.items())
    assert {attack.who for attack in ATTACKS.values()} >= {
        "an HTTP port",
        "a link's port",
        "ZooKeeper's port",
    }


def test_latencies_are_of_what_was_due_in_each_window() -> None:
    its = report((9.9, 500.0), (10.0, 1.0), (19.9, 3.0), (20.0, 7.0), (29.9, 9.0), (30.0, 500.0))
    assert run.cost(its, done()) == {"before": [1.0, 3.0], "during": [7.0, 9.0]}


def test_a_window_in_which_nothing_came_has_no_figures() -> None:
    assert run.cost(report((15.0, 2.0), (25.0, None)), done()) == {"before": [2.0, 2.0], "during": []}


GOOD = report((15.0, 1.0), (25.0, 1.0))


@pytest.mark.parametrize(
    ("what", "neighbour", "client", "said"),
    [
        (done(), GOOD, GOOD, []),
        (done(), report((25.0, None)), GOOD, ["neighbour: 1 lost"]),
        (done(), GOOD, report((30.5, None)), ["attacked: 1 lost"]),
        (done(), report((5.0, None)), GOOD, []),
        (done(), report(doubled=2), report(disorder=3), ["neighbour: 2 doubled", "attacked: 3 out of order"]),
        (done(), report(wrong=1), GOOD, ["neighbour: 1 not once in the output"]),
        (done(recoveries=(4, 0)), GOOD, GOOD, []),
        (done(recoveries=(0, 1)), GOOD, GOOD, ["the neighbour recovered"]),
        (done(runs=(False, True)), GOOD, GOOD, ["attacked does not run"]),
        (done(runs=(False, True), ends=True), GOOD, report((25.0, None)), []),
        (done(runs=(True, False), ends=True), GOOD, GOOD, ["neighbour does not run"]),
        (done(code=1), GOOD, GOOD, ["the attacker broke down, or found a door open"]),
        (done(code=-9), GOOD, GOOD, ["the attacker did not end in time: the machine is too busy"]),
    ],
)
def test_what_should_not_have_happened_is_said(
    what: Done, neighbour: Report, client: Report, said: list[str]
) -> None:
    assert troubles(what, neighbour, client) == said
    assert run.row(what, neighbour, client)["clean"] is (not said)


def test_an_attack_that_ends_the_job_is_the_last_of_its_stage() -> None:
    plain, last = done().attack, done(ends=True).attack
    assert [len(each) for each in staged([plain, last, plain, *[plain] * run.A_STAGE])] == [2, run.A_STAGE, 1]


def test_what_an_ended_job_has_left_undone_is_done_on_another_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of three attacks ends the job though it should not."""
    stages: list[int] = []

    def rows_of(attacks: list[Attack], _: float, __: Path) -> list[dict[str, Any]]:
        stages.append(len(attacks))
        return [{"attack": attack.name} for attack in attacks[: 2 if len(stages) == 1 else None]]

    monkeypatch.setattr(run, "rows_of", rows_of)
    assert len(measured([done().attack] * 3, 1.0)) == 3
    assert stages == [3, 1]


def test_fresh_rows_take_the_place_of_old_ones_in_the_order_of_the_catalogue(tmp_path: Path) -> None:
    first, second, third = list(ATTACKS)[:3]
    kept(tmp_path / "rows", [{"attack": third, "times": 1}, {"attack": first, "times": 1}])
    kept(tmp_path / "rows", [{"attack": third, "times": 2}, {"attack": second, "times": 2}])
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert rows == [
        {"attack": first, "times": 1},
        {"attack": second, "times": 2},
        {"attack": third, "times": 2},
    ]
