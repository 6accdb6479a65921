"""What the load generators of the peers say is read, and accounts that their transfers cannot have left are refused."""

from typing import Any

import pytest
from bank import servers
from bank.serial import INITIAL
from bank.workloads import ACCOUNTS
from systems.base import Failed

SAID = """
transaction type: transfer.sql
number of clients: 16
number of transactions actually processed: 1200
number of failed transactions: 0 (0.000%)
number of transactions retried: 3 (0.250%)
total number of retries: 4
latency average = 0.790 ms
initial connection time = 12.301 ms
tps = 9890.437215 (without initial connection time)
"""


class Server:
    """Answers with these sums."""

    def __init__(self, *sums: int) -> None:
        self._sums = sums

    def execute(self, _: str) -> list[tuple[int, ...]]:
        return [self._sums]


def test_pgbench_says_its_rate_and_how_often_it_tried_again() -> None:
    found = servers._of_pgbench(SAID, [1.0, 2.0, 6.0])
    assert (found["per_s"], found["retries"], found["mean_ms"], found["p99_ms"]) == (9890, 4, 3.0, 6.0)


def test_accounts_that_so_many_transfers_leave_are_right() -> None:
    server: Any = Server(ACCOUNTS * INITIAL, 3, 2400)
    assert servers._checked(server, SAID) == {"checked": 1200}


@pytest.mark.parametrize(
    "sums",
    [(ACCOUNTS * INITIAL + 1, 3, 2400), (ACCOUNTS * INITIAL, -1, 2400), (ACCOUNTS * INITIAL, 3, 2399)],
    ids=["money made", "overdrawn", "half a transfer"],
)
def test_accounts_that_no_transfers_leave_are_a_failure(sums: tuple[int, int, int]) -> None:
    server: Any = Server(*sums)
    with pytest.raises(Failed, match="after 1200 transfers"):
        servers._checked(server, SAID)
