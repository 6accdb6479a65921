"""The transactions that `python benchmarks bank` measures, as graphs of an application.

| graph | transactions |
|---|---|
| `bank` | transfers between two accounts, none of which may be overdrawn (Affetti 2017; YCSB-T's, with other keys) |
| `bank_mirrored` | the same, with each row that changes as a result: those of a transaction leave together |
| `reduced` | the same lines through a plain reduce: what a stream without transactions costs |
| `orders` | orders of 2 to 8 things that are found by reading a basket |
| `tpcc`, `tpcc_mirrored` | New-Order and Payment after TPC-C; with each row that changes as a result |

Every line is one JSON object with the transaction's number as `id`. What is drawn: bank/workloads.py.
"""

from typing import Any

import flamestream as fs

INITIAL = 100_000
"""Of an account that nobody has touched."""
STOCKED = 1_000_000
"""Of a thing that nobody has ordered."""


@fs.event
class Transfer:
    id: int
    source: int
    target: int
    amount: int


@fs.event
class Receipt:
    id: int
    left: int
    right: int


def not_negative(_key: object, value: int) -> bool:
    return value >= 0


def first_balance() -> int:
    return INITIAL


def nothing() -> tuple[int, ...]:
    return ()


def number_of_aborted(refused: fs.Aborted[Any]) -> int:
    number: int = refused.transaction.id
    return number


def bank_graph(name: str, *, mirrored: bool) -> fs.Graph:
    graph = fs.Graph(name)
    accounts = graph.table("accounts", initial=first_balance, check=not_negative)

    def transfer(state: Any, t: Transfer) -> Receipt:
        state[accounts, t.source] -= t.amount
        state[accounts, t.target] += t.amount
        return Receipt(t.id, state[accounts, t.source], state[accounts, t.target])

    moved = graph.source("lines", Transfer).transact(transfer)
    if mirrored:
        accounts.changes().sink("balances", key="table")
    else:
        moved.committed.sink("done", key="id")
        moved.aborted.sink("refused", key=number_of_aborted)
    return graph


bank = bank_graph("bank", mirrored=False)
bank_mirrored = bank_graph("bank-mirrored", mirrored=True)


def spent(left: int, t: Transfer) -> int:
    return left - t.amount


def receipt(left: int, t: Transfer) -> Receipt:
    return Receipt(t.id, left, 0)


reduced = fs.Graph("reduced")
reduced.source("lines", Transfer).reduce(
    key="source", initial=first_balance, combine=spent, emit=receipt
).sink("done", key="id")


@fs.event
class Order:
    id: int
    basket: int
    count: int
    things: tuple[int, ...] = ()
    """Given: the basket has these from now on."""


@fs.event
class Placed:
    id: int
    left: tuple[int, ...]


orders = fs.Graph("orders")
baskets = orders.table("baskets", initial=nothing)
stock = orders.table("stock", initial=lambda: STOCKED, check=not_negative)


def order(state: Any, o: Order) -> Placed:
    if o.things:
        state[baskets, o.basket] = o.things
        return Placed(o.id, ())
    things = state[baskets, o.basket]
    for thing in things:
        state[stock, thing] -= o.count
    return Placed(o.id, tuple(state[stock, thing] for thing in things))


_placed = orders.source("lines", Order).transact(order)
_placed.committed.sink("done", key="id")
_placed.aborted.sink("refused", key=number_of_aborted)


@fs.event
class Business:
    """A New-Order if it has lines, else a Payment."""

    id: int
    warehouse: int
    district: int
    customer: int
    cents: int
    lines: tuple[tuple[int, int, int], ...] = ()
    """Thing, warehouse that supplies it, count; an unknown thing is number 0."""


@fs.event
class Served:
    id: int
    order: int
    cents: int


def price(thing: int) -> int:
    return 100 + thing * 7919 % 9_900


def tpcc_graph(name: str, *, mirrored: bool) -> fs.Graph:
    graph = fs.Graph(name)
    warehouses = graph.table("warehouses", initial=int)
    districts = graph.table("districts", initial=lambda: (0, 1))
    customers = graph.table("customers", initial=lambda: (0, 0))
    stocks = graph.table("stocks", initial=lambda: (100, 0))
    placed = graph.table("orders", initial=nothing)
    waiting = graph.table("new_orders", initial=bool)
    lines = graph.table("order_lines", initial=nothing)
    history = graph.table("history", initial=nothing)

    def new_order(state: Any, b: Business) -> Served:
        w, d, total = b.warehouse, b.district, 0
        paid, number = state[districts, w, d]
        state[districts, w, d] = (paid, number + 1)
        for at, (thing, supplier, count) in enumerate(b.lines):
            if not thing:
                raise fs.Abort("unknown thing")
            left, sold = state[stocks, supplier, thing]
            left -= count
            state[stocks, supplier, thing] = (left + 91 if left < 10 else left, sold + count)
            state[lines, w, d, number, at] = (thing, supplier, count, count * price(thing))
            total += count * price(thing)
        state[placed, w, d, number] = (b.customer, len(b.lines))
        state[waiting, w, d, number] = True
        return Served(b.id, number, total)

    def payment(state: Any, b: Business) -> Served:
        w, d, c = b.warehouse, b.district, b.customer
        state[warehouses, w] += b.cents
        paid, number = state[districts, w, d]
        state[districts, w, d] = (paid + b.cents, number)
        balance, payments = state[customers, w, d, c]
        state[customers, w, d, c] = (balance - b.cents, payments + 1)
        state[history, b.id] = (w, d, c, b.cents)
        return Served(b.id, 0, balance - b.cents)

    def served(state: Any, b: Business) -> Served:
        return new_order(state, b) if b.lines else payment(state, b)

    outcomes = graph.source("lines", Business).transact(served)
    outcomes.committed.sink("done", key="id")
    outcomes.aborted.sink("refused", key=number_of_aborted)
    if mirrored:
        tables = (warehouses, districts, customers, stocks, placed, waiting, lines, history)
        changes: list[fs.Stream[Any]] = [table.changes() for table in tables]
        changes[0].merge(*changes[1:]).sink("changes", key=lambda write: write.key)
    return graph


tpcc = tpcc_graph("tpcc", mirrored=False)
tpcc_mirrored = tpcc_graph("tpcc-mirrored", mirrored=True)
