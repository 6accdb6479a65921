"""Workloads: the lines of each, from a seed alone, and the graph that takes them.

    lines(WORKLOADS["uniform"], 1000)      # 1,000 transfers, as bytes of JSON without an end of line

Keeps: the same workload gives the same lines, of which fewer are the first ones. Does not: know what becomes of them
(serial.py).
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np

CHUNK: Final = 1 << 16
SEED: Final = 7
TOO_MUCH: Final = 1_000_000_000
"""An amount that no account has: the transfer is refused by the table's check."""
BASKETS: Final = 5_000
THINGS: Final = 100_000
WAREHOUSES: Final = 4
DISTRICTS: Final = 10
CUSTOMERS: Final = 3_000
"""Of a district."""
Drawn = Iterator[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Workload:
    """Lines of one kind."""

    name: str
    graph: str
    """Of jobs/bank_graphs.py."""
    drawn: Callable[[np.random.Generator], Drawn]
    sinks: tuple[str, ...] = ("done", "refused")


def lines(workload: Workload, count: int) -> Iterator[bytes]:
    """The first `count` of them."""
    drawn = workload.drawn(np.random.default_rng(SEED))
    for number, fields in enumerate(islice(drawn, count)):
        yield json.dumps({"id": number, **fields}, separators=(",", ":")).encode()


def transfers(
    accounts: int, *, zipf: float = 0.0, aborts: float = 0.0
) -> Callable[[np.random.Generator], Drawn]:
    """Transfers between two of so many accounts: the first is drawn by Zipf's law, the second is any other. A share
    of them is refused."""

    def drawn(rng: np.random.Generator) -> Drawn:
        share = np.cumsum(np.arange(1, accounts + 1, dtype=float) ** -zipf)
        names = rng.permutation(accounts)
        while True:
            ranks = np.searchsorted(share, rng.random(CHUNK) * share[-1])
            yield from pairs(rng, names[ranks], accounts, aborts)

    return drawn


def pairs(rng: np.random.Generator, sources: Any, accounts: int, aborts: float = 0.0) -> Drawn:
    """A transfer from each of these accounts to any other."""
    targets = (sources + rng.integers(1, accounts, len(sources))) % accounts
    amounts = np.where(rng.random(len(sources)) < aborts, TOO_MUCH, rng.integers(1, 10, len(sources)))
    for source, target, amount in zip(sources.tolist(), targets.tolist(), amounts.tolist(), strict=True):
        yield {"source": source, "target": target, "amount": amount}


def one_hot(accounts: int) -> Callable[[np.random.Generator], Drawn]:
    """Account 0 is in every transfer: it pays in one, and is paid in the next."""

    def drawn(rng: np.random.Generator) -> Drawn:
        while True:
            others, amounts = rng.integers(1, accounts, CHUNK).tolist(), rng.integers(1, 10, CHUNK).tolist()
            for at, (other, amount) in enumerate(zip(others, amounts, strict=True)):
                yield {"source": other if at % 2 else 0, "target": 0 if at % 2 else other, "amount": amount}

    return drawn


def filling(accounts: int) -> Callable[[np.random.Generator], Drawn]:
    """First each account is in one transfer, by pairs; then transfers between any two."""

    def drawn(rng: np.random.Generator) -> Drawn:
        for source in range(0, accounts, 2):
            yield {"source": source, "target": source + 1, "amount": 1}
        yield from transfers(accounts)(rng)

    return drawn


def orders(rng: np.random.Generator) -> Drawn:
    """First what is in each basket, then orders of baskets, of which a tenth is refused."""
    for basket in range(BASKETS):
        things = rng.choice(THINGS, rng.integers(2, 9), replace=False).tolist()
        yield {"basket": basket, "count": 0, "things": things}
    while True:
        baskets, counts = rng.integers(0, BASKETS, CHUNK), rng.integers(1, 6, CHUNK)
        counts = np.where(rng.random(CHUNK) < 0.1, TOO_MUCH, counts)
        for basket, count in zip(baskets.tolist(), counts.tolist(), strict=True):
            yield {"basket": basket, "count": count}


def business(rng: np.random.Generator) -> Drawn:
    """New-Orders and Payments in turn. One line in a hundred is of another warehouse, and one New-Order in a hundred
    ends with a thing that nobody has, as TPC-C asks."""
    while True:
        yield {**_customer(rng), "cents": 0, "lines": _order_lines(rng)}
        yield {**_customer(rng), "cents": int(rng.integers(100, 500_000))}


def _customer(rng: np.random.Generator) -> dict[str, int]:
    w, d, c = (int(each) for each in rng.integers(0, (WAREHOUSES, DISTRICTS, CUSTOMERS)))
    return {"warehouse": w, "district": d, "customer": c}


def _order_lines(rng: np.random.Generator) -> list[list[int]]:
    count, home = int(rng.integers(5, 16)), int(rng.integers(0, WAREHOUSES))
    things = (1 + rng.choice(THINGS, count, replace=False)).tolist()
    remote = rng.random(count) < 0.01
    suppliers = np.where(remote, rng.integers(0, WAREHOUSES, count), home).tolist()
    lines = [
        [thing, w, n]
        for thing, w, n in zip(things, suppliers, rng.integers(1, 11, count).tolist(), strict=True)
    ]
    if rng.random() < 0.01:
        lines[-1][0] = 0
    return lines


ACCOUNTS: Final = 100_000
KEYS: Final = 1_000_000
FILLED: Final = KEYS // 2
"""Transfers behind which each of so many accounts is there."""
ZIPF: Final = (0.0, 0.5, 0.9, 0.99)
ABORTS: Final = (0.0, 0.1, 0.5)


def _all() -> Iterator[Workload]:
    yield Workload("uniform", "bank", transfers(ACCOUNTS))
    yield Workload("reduce", "reduced", transfers(ACCOUNTS), ("done",))
    yield Workload("one hot account", "bank", one_hot(ACCOUNTS))
    yield Workload("four accounts", "bank", transfers(4))
    for zipf in ZIPF:
        yield Workload(f"zipf {zipf}", "bank", transfers(KEYS, zipf=zipf))
    for aborts in ABORTS:
        yield Workload(f"aborts {aborts:.0%}", "bank", transfers(KEYS, aborts=aborts))
    yield Workload("a million accounts", "bank", filling(KEYS))
    yield Workload("orders", "orders", orders)
    yield Workload("tpcc", "tpcc", business)
    yield Workload("tpcc mirrored", "tpcc_mirrored", business, ("done", "refused", "changes"))


WORKLOADS: Final = {each.name: each for each in _all()}
