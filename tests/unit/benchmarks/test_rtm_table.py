"""The table of the real-time jobs has the newest line of each job and system, beside Spark's real-time
mode."""

from typing import Any

from harness.tables.rtm import rtm_table


def row(system: str, p99: float = 100.0, job: str = "count", **more: Any) -> dict[str, Any]:
    result = {f"{name}_p{q}_ms": p99 for name in ("appended", "received") for q in (50, 99)}
    return {
        "measure": job, "system": system, "guarantee": "g", "noise": {"load": 1.0, "load_after": 2.0},
        "result": more or result | {"lost": 0, "doubled": 1, "wrong": 2},
    }  # fmt: skip


def test_a_p99_stands_beside_that_of_real_time_mode_for_the_same_job() -> None:
    lines = rtm_table(
        [row("spark real-time"), row("spark real-time", 7.0, "dedup"), row("flamestream", 25.0)]
    )
    assert lines.splitlines()[-1] == (
        "| count | flamestream | g | 25.0 / 25.0 | 25.0 / 25.0 | 0.25 | 0, 1, 2 | 1.0-2.0 |"
    )


def test_a_run_that_was_measured_again_has_its_newest_line() -> None:
    lines = rtm_table([row("spark real-time", 50.0), row("flamestream", 25.0), row("spark real-time", 100.0)])
    assert len(lines.splitlines()) == 4 and "| 0.25 |" in lines


def test_a_run_without_result_says_why() -> None:
    assert "| no result came |" in rtm_table([row("flamestream", reason="no result came")])
