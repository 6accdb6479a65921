"""Whatever is wrong with the outcomes or the rows of a run is found and counted."""

from collections.abc import Callable

import pytest
from bank import serial
from bank.judge import Faults, inconsistent, judged, mirrored, money, overdrawn
from bank.serial import Outcome, Rows
from bank.workloads import WORKLOADS, lines

SERIAL = serial.run("bank", lines(WORKLOADS["aborts 10%"], 100))
BUSINESS = serial.run("tpcc", lines(WORKLOADS["tpcc"], 2_000)).rows


def test_the_loops_own_outcomes_are_without_fault_in_any_order() -> None:
    assert judged(reversed(SERIAL.outcomes), SERIAL) == Faults(0, 0, 0)


def test_a_run_in_which_nothing_came_is_lost() -> None:
    assert judged([], SERIAL) == Faults(lost=100, doubled=0, wrong=0)


def test_an_outcome_that_comes_twice_is_doubled() -> None:
    assert judged([*SERIAL.outcomes, SERIAL.outcomes[7]], SERIAL) == Faults(lost=0, doubled=1, wrong=0)


@pytest.mark.parametrize(
    "instead", [(7, 1, 1), (7, "a check", "accounts", 0)], ids=["other balances", "refused"]
)
def test_another_outcome_is_wrong(instead: Outcome) -> None:
    came = [instead if outcome[0] == 7 else outcome for outcome in SERIAL.outcomes]
    assert judged(came, SERIAL) == Faults(lost=0, doubled=0, wrong=1)


@pytest.mark.parametrize("number", [-1, 100])
def test_an_outcome_of_a_transaction_that_nobody_sent_is_wrong(number: int) -> None:
    assert judged([*SERIAL.outcomes, (number, 1, 1)], SERIAL) == Faults(lost=0, doubled=0, wrong=1)


def test_money_that_is_made_and_an_account_below_zero_are_seen() -> None:
    assert (money({("accounts", 1): 12, ("accounts", 2): 9}, 10), overdrawn({("accounts", 1): -1})) == (1, 1)


def test_a_change_that_does_not_begin_where_its_row_was_is_torn() -> None:
    writes = [("a", 1, 0, 5), ("a", 2, 0, 5), ("a", 1, 4, 6)]
    assert mirrored(writes) == ({("a", 1): 6, ("a", 2): 5}, 1)


def without(table: str) -> Callable[[Rows], Rows]:
    """The rows with one of this table missing: the last by its key."""

    def damage(rows: Rows) -> Rows:
        last = max(key for name, key in rows if name == table)
        return {row: value for row, value in rows.items() if row != (table, last)}

    return damage


def paid_more(table: str) -> Callable[[Rows], Rows]:
    def damage(rows: Rows) -> Rows:
        row = next(row for row in rows if row[0] == table)
        value = rows[row]
        return rows | {row: value + 1 if isinstance(value, int) else (value[0] + 1, *value[1:])}

    return damage


def no_middle_order(rows: Rows) -> Rows:
    gone = ("new_orders", next(key for name, key in rows if name == "new_orders" and key[2] == 2))
    return {row: value for row, value in rows.items() if row != gone}


def test_the_rows_of_a_serial_run_keep_every_condition() -> None:
    assert inconsistent(BUSINESS) == dict.fromkeys("12345", 0)


DAMAGES = [
    ("1", paid_more("warehouses")), ("1", paid_more("districts")), ("2", without("orders")),
    ("2", without("new_orders")), ("3", no_middle_order), ("4", without("order_lines")), ("4", without("orders")),
    ("5", without("history")), ("5", paid_more("districts")),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "damage"), DAMAGES)
def test_a_damaged_row_breaks_its_condition(condition: str, damage: Callable[[Rows], Rows]) -> None:
    assert inconsistent(damage(BUSINESS))[condition] > 0
