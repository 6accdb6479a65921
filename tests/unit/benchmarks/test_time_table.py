"""The table of programs in event time has the newest line of each measure, and what is asked beside it."""

from typing import Any

from harness.tables.time import Row, time_table


def row(measure: str, load: float = 1.0, **result: Any) -> Row:
    return {"measure": measure, "result": result, "noise": {"load": load}}


def hour(number: int, memory: int, snapshot: int) -> dict[str, int]:
    return {
        "hour": number, "memory": memory, "memory_most": 2 * memory, "snapshot": snapshot, "snapshot_most": snapshot,
    }  # fmt: skip


def test_a_measure_that_was_taken_again_has_its_newest_line() -> None:
    rows = [
        row("count", us_an_event=9.0, events_per_core_second=1),
        row("count", us_an_event=4.0, events_per_core_second=250_000),
    ]
    (line,) = time_table(rows).splitlines()[2:]
    assert line.endswith(" | 4.0 us, 250,000/s | 200,000/s | 1.0 |")


def test_what_expiring_keys_hold_is_told_beside_the_third_hour() -> None:
    hours = [hour(1, 10, 1), hour(2, 50, 2), hour(3, 100, 40), hour(4, 90, 44), hour(5, 110, 30)]
    lines = time_table([row("ttl", keys=1000, us_an_event=1.0, hours=hours)]).splitlines()
    assert "| 100 MB, then up to 110 MB: 1.10 |" in lines[3] and "memory, the median" in lines[3]
    assert "| 200 MB, then up to 220 MB: 1.10 |" in lines[4] and "memory, the most" in lines[4]
    assert "| 40 MB, then up to 44 MB: 1.10 |" in lines[5] and "snapshot, the median" in lines[5]


def test_a_latency_that_is_not_there_has_its_reason() -> None:
    assert "| only 3 rows say their event |" in time_table(
        [row("latency", rate=5000, reason="only 3 rows say their event")]
    )
