"""The figures of changes without a stop: what their tables say, and that what they measure is what they say."""

from typing import Any, cast

import pytest
from autoscaling.figure import day
from balance.figure import moved
from figures.core import Alone
from first_touch import figure as first_touch
from harness.tables.balance import balance_table
from harness.tables.first_touch import first_touch_table
from harness.tables.tracing import tracing_table
from harness.tables.ui import ui_table
from harness.tables.upgrades import flink_upgrades_table, upgrades_table

from flamestream.core.dataflow.native import FASTEST
from flamestream.model.payload import encode
from flamestream.model.time import END


def test_a_result_of_the_wrong_code_is_shown() -> None:
    row = {
        "figure": "audited",
        "n": 10,
        "delivered": 12_345,
        "codes": 13,
        "foreign": 2,
        "lost": 0,
        "doubled": 1,
    }
    shown = upgrades_table([row | {"load": 1.0}]).splitlines()[2]
    assert "12,345 results of 13 codes: 2 of the wrong code" in shown and "0, 1" in shown


def test_flink_is_compared_with_the_upgrades_that_were_not_taken_back() -> None:
    row = {"calm_ms": 30.0, "clean": True, "load": 7.0}
    ours = [
        row | {"what": "upgrade 1, then kill_worker", "gap_ms": 300.0},
        row | {"what": "upgrade 2, then kill_leader", "gap_ms": 500.0},
        row | {"what": "upgrade 3 taken back, then kill_leader", "gap_ms": 5000.0},
    ]
    its = [
        row | {"what": "Flink, savepoint and restart", "gap_ms": gap, "stop_ms": 1.0} for gap in (5e3, 7e3)
    ]
    lines = flink_upgrades_table([*ours, *its]).splitlines()
    assert lines[2].startswith("| FlameStream | 2 | 400 (300 to 500) | - |")
    assert lines[3].startswith("| Flink, savepoint and restart | 2 | 6,000 (5,000 to 7,000) | 1 (1 to 1) |")
    assert lines[3].endswith("| 1/15.0 |") and len(lines) == 4


def test_slots_that_have_moved_leave_the_fullest_near_the_mean() -> None:
    before, after, slots = moved(seed=1)
    assert before > 1.4 and after < 1.1 and slots <= 25


def test_the_table_of_the_page_has_a_line_for_each_number_of_viewers() -> None:
    rows = [
        {"viewers": viewers, "calls": 1000, "p50_ms": p50, "p99_ms": 9.0}
        for viewers, p50 in ((10, 2.5), (0, 2.0), (10, 3.5), (10, 3.0), (0, 2.2))
    ]
    assert ui_table(rows).splitlines()[2:] == [
        "| 0 | 2 | 2,000 | 2.10 (2.00 to 2.20) | 9.00 (9.00 to 9.00) |",
        "| 10 | 3 | 3,000 | 3.00 (2.50 to 3.50) | 9.00 (9.00 to 9.00) |",
    ]


def test_the_table_of_traces_says_what_is_noise_and_what_is_beyond() -> None:
    figures = {"off": (2.0, 10.0), "off again": (2.2, 10.2), "on, 1/1000": (2.1, 11.11)}
    rows = [
        {"what": what, "items": 1000, "p50_ms": p50, "p99_ms": 5.0, "us_an_item": used}
        for what, (p50, used) in figures.items()
    ]
    lines = tracing_table(rows).splitlines()
    assert lines[2].startswith("| off | 1 | 1,000 | 2.00 (2.00 to 2.00) |") and len(lines) == 7
    assert lines[-1].endswith(
        "p50 +10.0% and +0.0%; p99 +0.0% and +0.0%; processor time an item +2.0% and +10.0%."
    )


def test_the_table_of_balance_has_the_newest_alone() -> None:
    row = {"workers": 8, "keys": 100, "n": 3, "before": [1.6, 1.5, 1.7], "after": [1.02, 1.01, 1.03]}
    lines = balance_table([row | {"moved": [30, 1, 40]}, row | {"moved": [17, 12, 22]}]).splitlines()
    assert lines[2:] == [
        "| 8, 100 | 3 | 1.60 (1.50 to 1.70) | 1.02 (1.01 to 1.03) | 17 (12 to 22) | 1.1, better 1.04 |"
    ]


@pytest.mark.parametrize("kind", first_touch.KINDS)
def test_what_the_code_before_has_stored_gives_the_results_of_code_that_always_was(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_touch, "KEYS", 70)
    code, _ = first_touch.KINDS[kind]
    older = first_touch.stored(code(False))
    now = code(True)
    keys = [encode(f"k{number}") for number in range(70)]
    states = []
    for index, chains in (older, first_touch.stored(now)):
        alone = Alone(now.graph, FASTEST, index, chains)
        alone.documents(0, [f"k{number}" for number in range(70)])
        (state,) = alone.worker.flow.states.values()
        states.append({key: cast(Any, state).state_at(key, END) for key in keys})
    assert states[0] == states[1]
    row = {"measure": kind, "us": 1.0, "least_us": 0.5, "most_us": 2.0, "noise": {"load": 1.0}}
    assert "| 1.0 (0.5 to 2.0) | 20 | 1.0 |" in first_touch_table([row])


def test_a_day_ends_as_it_began() -> None:
    words = [line.count(" ") + 1 for line in day(60.0)]
    assert words[0] == words[-1] == min(words) and max(words) > 8 * words[0]
