"""The table of a fleet has the newest line of each number of jobs and of leaders, the smallest fleet first."""

from typing import Any

from harness.tables.fleet import Row, fleet_table


def row(jobs: int, rate: float, decision: dict[str, float]) -> Row:
    figures: dict[str, Any] = {
        "cpu_ms_a_job": 40.0, "resident_mb": [140.2, 151.0], "decision_ms": decision, "epochs_a_second": 98.8,
        "cores": 0.51, "requests_to_run": 27.6, "requests_an_hour": 33.0, "load": 2.0,
    }  # fmt: skip
    return {"jobs": jobs, "jobs_a_minute": rate, **figures}


def test_a_fleet_that_was_measured_again_has_its_newest_line() -> None:
    told = {"p50": 40.0, "p90": 60.0, "p99": 80.0}
    killed = {"jobs": 330, "again_s": {"p50": 6.0, "p100": 8.04}, "recovered": 0}
    asked = {"jobs": 330, "again_s": {"p50": 2.0, "p100": 3.61}, "recovered": 2}
    divided = row(1000, 900.0, told) | {"shards": 3, "hand_overs": [killed, asked]}
    rows = [row(1000, 500.0, told), row(100, 700.0, {}), divided, row(1000, 800.0, told)]
    lines = fleet_table(rows).splitlines()[2:]
    assert lines == [
        "| 100 | 1 | 700 | 40 | 151 | - | 99 | 0.51 | 28; 33 | - | 2.0 |",
        "| 1,000 | 1 | 800 | 40 | 151 | 40 / 80 | 99 | 0.51 | 28; 33 | - | 2.0 |",
        "| 1,000 | 3 | 900 | 40 | 151 | 40 / 80 | 99 | 0.51 | 28; 33 | 330: 8.0; 330: 3.6, 2 stood still | 2.0 |",
    ]
