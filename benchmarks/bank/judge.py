"""Judge: is what came what a serial run gives? One outcome for each transaction, each equal to the loop's, and rows
that keep what must be kept.

Keeps: whatever is wrong is counted; a run in which nothing came is lost, not correct. Does not: time anything.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from bank.serial import Outcome, Rows, Serial

Write = tuple[str, Any, Any, Any]
"""Table, key, value before, value now."""


class Faults(NamedTuple):
    """The transactions of each kind of fault."""

    lost: int
    """No outcome."""
    doubled: int
    """Outcomes beyond the first."""
    wrong: int
    """An outcome that the serial run does not have."""


def judged(outcomes: Iterable[Outcome], serial: Serial) -> Faults:
    """The faults of all outcomes that came."""
    expected = serial.outcomes
    seen = bytearray(len(expected))
    doubled = wrong = 0
    for outcome in outcomes:
        number = outcome[0]
        known = 0 <= number < len(expected)
        wrong += not known or expected[number] != outcome
        if known:
            doubled += seen[number]
            seen[number] = 1
    return Faults(len(expected) - sum(seen), doubled, wrong)


def mirrored(writes: Iterable[Write]) -> tuple[Rows, int]:
    """The rows that changes lead to, and how many changes do not begin where the row was."""
    rows, torn = Rows(), 0
    for table, key, before, after in writes:
        torn += (table, key) in rows and rows[table, key] != before
        rows[table, key] = after
    return rows, torn


def overdrawn(rows: Mapping[tuple[str, Any], int]) -> int:
    """Accounts below zero."""
    return sum(balance < 0 for (table, _), balance in rows.items() if table == "accounts")


def money(rows: Mapping[tuple[str, Any], int], initial: int) -> int:
    """More than was there at first: transfers make and lose none."""
    return sum(balance - initial for (table, _), balance in rows.items() if table == "accounts")


def inconsistent(rows: Rows) -> dict[str, int]:
    """Warehouses, districts and orders that break one of TPC-C's conditions (clause 3.3.2, 1 to 4; 5: a district's
    payments are those of its history)."""
    tables = dict[str, dict[Any, Any]]()
    for (table, key), value in rows.items():
        tables.setdefault(table, {})[key] = value
    districts: dict[tuple[int, int], tuple[int, int]] = tables.get("districts", {})
    by_warehouse, by_history = Counter[int](), Counter[tuple[int, int]]()
    for (w, _), (paid, _) in districts.items():
        by_warehouse[w] += paid
    for w, d, _, cents in tables.get("history", {}).values():
        by_history[w, d] += cents
    paid_to: dict[int, int] = tables.get("warehouses", {})
    every = paid_to.keys() | by_warehouse.keys()
    orders, waiting = (_of_districts(tables.get(name, {})) for name in ("orders", "new_orders"))
    placed, lines = tables.get("orders", {}), Counter(key[:3] for key in tables.get("order_lines", {}))
    next_of = {key: following for key, (_, following) in districts.items()}
    return {
        "1": sum(paid_to.get(w, 0) != by_warehouse[w] for w in every),
        "2": sum(
            {following - 1} != {max(its.get(key, [0])) for its in (orders, waiting)}
            for key, following in next_of.items()
        ),
        "3": sum(max(its) - min(its) + 1 != len(its) for its in waiting.values()),
        "4": sum(lines[key] != count for key, (_, count) in placed.items())
        + len(lines.keys() - placed.keys()),
        "5": sum(paid != by_history[key] for key, (paid, _) in districts.items()),
    }


def _of_districts(keys: Iterable[tuple[int, int, int]]) -> dict[tuple[int, int], list[int]]:
    found = dict[tuple[int, int], list[int]]()
    for w, d, number in keys:
        found.setdefault((w, d), []).append(number)
    return found
