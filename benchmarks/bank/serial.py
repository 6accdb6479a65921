"""Serial: what each transaction comes to if all run one after the other, as loops over dicts that share no code with
what is measured.

>>> run("bank", [b'{"id":0,"source":1,"target":2,"amount":7}']).outcomes
[(0, 99993, 100007)]

An outcome is the fields of the result, or (number, reason, table, key) of a transaction that was refused.

Keeps: a refused transaction leaves every row as it was. Does not: judge anybody (judge.py).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

INITIAL: Final = 100_000
"""Of an account that nobody has touched."""
Outcome = tuple[Any, ...]
Rows = dict[tuple[str, Any], Any]
"""The rows by table and key."""


@dataclass(slots=True)
class Serial:
    """The end of a serial run."""

    outcomes: list[Outcome] = field(default_factory=list)
    """In the order of the transactions, which is that of their numbers."""
    rows: Rows = field(default_factory=dict)


def run(graph: str, lines: Iterable[bytes]) -> Serial:
    """Every line, by the loop of a graph of jobs/bank_graphs.py."""
    step, found = STEPS[graph], Serial()
    found.outcomes = [step(found.rows, msgspec.json.decode(line)) for line in lines]
    return found


def transfer(rows: Rows, t: dict[str, int]) -> Outcome:
    """Two accounts."""
    number, amount = t["id"], t["amount"]
    source, target = ("accounts", t["source"]), ("accounts", t["target"])
    left = rows.get(source, INITIAL) - amount
    if left < 0:
        return number, "a check", "accounts", t["source"]
    right = rows.get(target, INITIAL) + amount
    rows[source], rows[target] = left, right
    return number, left, right


def spend(rows: Rows, t: dict[str, int]) -> Outcome:
    """The reduce: one account, which may be overdrawn."""
    account = ("accounts", t["source"])
    rows[account] = left = rows.get(account, INITIAL) - t["amount"]
    return t["id"], left, 0


def order(rows: Rows, o: dict[str, Any]) -> Outcome:
    """The things of a basket, or what is in it."""
    number, count, basket = o["id"], o["count"], ("baskets", o["basket"])
    if "things" in o:
        rows[basket] = tuple(o["things"])
        return number, ()
    things = rows.get(basket, ())
    left = [rows.get(("stock", thing), 1_000_000) - count for thing in things]
    for thing, its in zip(things, left, strict=True):
        if its < 0:
            return number, "a check", "stock", thing
    rows.update({("stock", thing): its for thing, its in zip(things, left, strict=True)})
    return number, tuple(left)


def serve(rows: Rows, b: dict[str, Any]) -> Outcome:
    """A New-Order or a Payment."""
    w, d, c, number = b["warehouse"], b["district"], b["customer"], b["id"]
    paid, following = rows.get(("districts", (w, d)), (0, 1))
    if "lines" not in b:
        cents = b["cents"]
        balance, payments = rows.get(("customers", (w, d, c)), (0, 0))
        rows["warehouses", w] = rows.get(("warehouses", w), 0) + cents
        rows["districts", (w, d)] = (paid + cents, following)
        rows["customers", (w, d, c)] = (balance - cents, payments + 1)
        rows["history", number] = (w, d, c, cents)
        return number, 0, balance - cents
    if any(thing == 0 for thing, _, _ in b["lines"]):
        return number, "unknown thing", "", None
    total = 0
    for at, (thing, supplier, count) in enumerate(b["lines"]):
        left, sold = rows.get(("stocks", (supplier, thing)), (100, 0))
        left -= count
        rows["stocks", (supplier, thing)] = (left + (91 if left < 10 else 0), sold + count)
        cents = count * (100 + thing * 7919 % 9900)
        rows["order_lines", (w, d, following, at)] = (thing, supplier, count, cents)
        total += cents
    rows["districts", (w, d)] = (paid, following + 1)
    rows["orders", (w, d, following)] = (c, len(b["lines"]))
    rows["new_orders", (w, d, following)] = True
    return number, following, total


STEPS: Final[dict[str, Callable[[Rows, dict[str, Any]], Outcome]]] = {
    "bank": transfer, "reduced": spend, "orders": order, "tpcc": serve, "tpcc_mirrored": serve,
}  # fmt: skip
