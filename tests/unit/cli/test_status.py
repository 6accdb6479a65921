"""What `flamestream status` says of a source's event time, and of transactions."""

import pytest
from msgspec.structs import replace

from flamestream.cli.status import _event_time, _transactions
from flamestream.job.status import WorkerFigures
from flamestream.model.event_time import END_OF_TIME

MOMENT = 1_772_445_600_000_000


@pytest.mark.parametrize(
    ("micros", "idle", "late", "line"),
    [
        (MOMENT, 0, 0, "2026-03-02T10:00:00.000Z, 0:01:30 behind the clock"),
        (MOMENT, 1, 0, "2026-03-02T10:00:00.000Z, 0:01:30 behind the clock; 1 idle partition"),
        (
            MOMENT,
            2,
            1_700,
            "2026-03-02T10:00:00.000Z, 0:01:30 behind the clock; 2 idle partitions; 1,700 late",
        ),
        (END_OF_TIME, 0, 1, "its input has ended, all windows are closed; 1 late"),
        (
            None,
            0,
            0,
            "not known, one of its fronts has had no record that says one; windows stay open until it has",
        ),
    ],
)
def test_it_says_time_lag_idleness_and_late_items(
    micros: int | None, idle: int, late: int, line: str
) -> None:
    assert _event_time("clicks", micros, MOMENT + 90_000_000, idle, late) == f"event time of clicks: {line}"


def test_it_says_how_often_transactions_were_decided_and_what_for() -> None:
    rows = [("accounts['a']", 1_200), ("accounts['b']", 7), ("accounts['c']", 2), ("accounts['d']", 1)]
    worker = WorkerFigures(
        worker="w1", connected=True, transactions=4_000, decisions=5_000, aborted=1_000, contended=rows
    )
    rows_told = "looked at again for accounts['a'] (1,200), accounts['b'] (7), accounts['c'] (2)"
    told = "transactions on w1: 4,000, 25.0% aborted, decided 1.25 times each, now"
    assert _transactions(worker) == f"{told} when it comes; {rows_told}"
    waits = replace(worker, deciding_waits=True)
    assert _transactions(waits) == f"{told} when nothing can come before it; {rows_told}"
