"""The report's arithmetic."""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from harness.report import (
    TABLES,
    failures_table,
    latency_table,
    markdown,
    settings_list,
    throughput_table,
    with_tables,
)
from harness.results import Case, Row, cases, over_rounds, percentile, quantile
from harness.tables.attacks import attacks_table


def row(
    system: str = "flink",
    guarantee: str = "exactly-once",
    interval: int = 500,
    latencies: Sequence[float] = (1.0, 2.0, 3.0, 4.0),
    kind: str = "latency",
    **more: Any,
) -> Row:
    return {
        "kind": kind,
        "system": system,
        "cell": {"guarantee": guarantee, "interval_ms": interval, "rate": 50.0},
        "latencies_ms": list(latencies),
        "result": {"lost": 0, "doubled": 0, "disorder": 0, "steady_per_s": 1000} | more.pop("result", {}),
        "noise": {"load": 1.0},
        "versions": {"it": "1"},
        "settings": more.pop("settings", []),
        "machine": {"processor": "P", "cores": 2, "memory_gb": 8, "kernel": "6"},
        "when": "2026-01-02T03:04:05Z",
    } | more


@pytest.mark.parametrize(
    ("q", "expected"),
    [(0, 1), (25, 1), (26, 2), (50, 2), (75, 3), (99, 4), (100, 4)],
)
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(q: float, expected: float) -> None:
    assert percentile([3, 1, 4, 2], q) == expected


def test_the_99th_percentile_of_a_hundred_is_the_second_largest() -> None:
    assert percentile(range(1, 101), 99) == 99


def test_rounds_give_the_median_of_their_percentiles_not_the_percentile_of_all() -> None:
    rounds = [row(latencies=[1, 1, 1]), row(latencies=[2, 2, 2]), row(latencies=[900, 900, 900])]
    assert over_rounds(rounds, quantile(50)) == (2, 1, 900)


def test_runs_without_checkpoints_are_one_case_whatever_their_interval() -> None:
    rows = [
        row(guarantee="none", interval=50),
        row(guarantee="none", interval=1000),
        row(interval=50),
        row(interval=1000),
    ]
    assert {case: len(rounds) for case, rounds in cases(rows, "latency").items()} == {
        Case("flink", "none", None): 2,
        Case("flink", "exactly-once", 50): 1,
        Case("flink", "exactly-once", 1000): 1,
    }


def test_kinds_of_measurement_do_not_mix() -> None:
    assert list(cases([row(kind="throughput"), row(system="ours")], "latency")) == [
        Case("ours", "exactly-once", 500)
    ]


def test_the_latency_table_has_a_line_a_case_with_the_spread_of_the_rounds() -> None:
    table = latency_table([row(latencies=[1, 2]), row(latencies=[3, 4])]).splitlines()
    assert (
        table[2]
        == "| flink | exactly-once | 500 ms | 50 | 2.0 (1.0-3.0) | 3.0 (2.0-4.0) | 3.0 (2.0-4.0) | 3.0 "
        "(2.0-4.0) | 0, 0, 0 | 2 | 1.0 |"
    )


def test_the_latency_table_shows_what_was_lost_over_all_rounds() -> None:
    assert "| 3, 0, 1 | 2 |" in latency_table(
        [row(result={"lost": 1}), row(result={"lost": 2, "disorder": 1})]
    )


def test_a_run_that_delivered_nothing_is_a_line_without_figures() -> None:
    assert "| - | - | - | - | 9, 0, 0 |" in latency_table([row(latencies=[], result={"lost": 9})])


def test_what_was_not_there_before_the_deadline_is_told_from_what_was_lost() -> None:
    assert "| 5, 0, 0 (unfinished) |" in latency_table([row(result={"lost": 5, "unfinished": True})])


def test_throughput_is_the_rate_behind_the_warm_up() -> None:
    rows = [
        row(kind="throughput", result={"steady_per_s": each, "records_per_s": 9})
        for each in (1000, 3000, 2000)
    ]
    assert "| flink | exactly-once | 500 ms | 2,000 (1,000-3,000) | 9 |" in throughput_table(rows)


def test_what_came_in_one_piece_has_the_rate_of_the_whole_run() -> None:
    assert "| in one piece | 70 |" in throughput_table(
        [row(kind="throughput", result={"steady_per_s": 0, "records_per_s": 70})]
    )


def test_every_kill_is_a_line() -> None:
    kills = [
        {"victim": "w1", "at_s": 4.0, "gap_ms": 99.6, "recovery_ms": 20.2},
        {"victim": "w2", "at_s": 9, "gap_ms": 50, "recovery_ms": 9},
    ]
    table = failures_table([row(kind="failures", kind_of_kill="standby", kills=kills)])
    assert table.splitlines()[2:] == [
        "| standby | w1 | 4.0 s | 100 ms | 20 ms |",
        "| standby | w2 | 9.0 s | 50 ms | 9 ms |",
    ]


def test_a_setting_is_listed_once_with_all_values_that_it_had() -> None:
    rows = [
        row(settings=[{"name": "interval", "value": value, "reason": "asked for"}])
        for value in ("50 ms", "1 s", "50 ms")
    ]
    assert settings_list(rows).splitlines()[2:] == ["- `interval` = `50 ms`, `1 s`: asked for"]


def test_the_report_has_no_heading_for_what_was_not_measured() -> None:
    text = markdown([row()])
    assert "## Latency" in text and "## Throughput" not in text and "P, 2 cores, 8 GB" in text


@pytest.mark.parametrize("page", TABLES, ids=lambda page: page.name)
def test_the_tables_of_a_page_are_those_of_the_results_that_are_kept(page: Path) -> None:
    text = page.read_text()
    assert with_tables(text, TABLES[page]) == text, "python benchmarks report --docs"


def test_the_figures_of_the_front_page_are_those_of_the_tables() -> None:
    page = next(page for page in TABLES if page.name == "performance.md")
    lines = [line for line in page.read_text().splitlines() if line.startswith("| ")]
    figures = (page.parents[2] / "README.md").read_text().partition("## Figures")[2].partition("\n## ")[0]
    numbers = set(re.findall(r"\d[\d,.]+\d", figures))
    measured = set(re.findall(r"\d[\d,.]+\d", "\n".join(lines)))
    assert len(numbers) > 15 and numbers <= measured


def test_an_attack_is_a_line_with_what_it_cost_others_and_whether_it_was_clean() -> None:
    cost = {"before": [2.0, 3.04], "during": [2.5, 9.0]}
    attack = {
        "who": "a stranger",
        "does": "knocks",
        "times": 7,
        "neighbour": cost,
        "client": cost,
        "recoveries": 0,
        "clean": True,
    }
    assert attacks_table([attack]).splitlines()[2] == (
        "| a stranger | knocks | 7 | 2.0 / 3.0 -> 2.5 / 9.0 | 2.0 / 3.0 -> 2.5 / 9.0 | 0 | yes |"
    )
    ended = attack | {"client": None, "neighbour": {"before": [], "during": []}, "clean": False}
    assert (
        attacks_table([ended]).splitlines()[2]
        == "| a stranger | knocks | 7 | nothing came -> nothing came | the job ends | 0 | NO |"
    )


def test_a_table_without_results_is_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("harness.report.KEPT", tmp_path)
    tables = {name: table for its in TABLES.values() for name, table in its.items()}
    marks = "".join(f"<!-- {name} -->\nold\n<!-- end -->\n" for name in tables)
    page = with_tables(marks, tables)
    assert "old" not in page and page.count("Not measured yet.") == len(tables)
    assert sum(line.startswith("| ") for line in page.splitlines()) == 2 * len(tables), "heads alone"


def test_whoever_draws_needs_nothing_but_the_benchmarks() -> None:
    """Figures are drawn in an environment of their own."""
    code = "import sys; import harness.results; assert not [n for n in sys.modules if n.startswith('flamestream')]"
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parents[3] / "benchmarks")},
    )
    drawing = (Path(__file__).parents[3] / "benchmarks" / "harness" / "drawing.py").read_text()
    assert set(re.findall(r"^from (harness[.\w]*)", drawing, re.MULTILINE)) == {"harness.results"}
