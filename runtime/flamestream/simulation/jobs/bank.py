"""Jobs for the simulator with transactions: a bank, whose accounts have balances, limits and a ledger of their
owners.

Transfers touch one to eight accounts, find some of them by reading others, are aborted by their function or by a
check, raise, or only read; deposits come from an ordinary stream. A few accounts have most of them.
"""

from random import Random
from typing import Any

from flamestream.model.collections import Vector
from flamestream.model.tables.ledger import Table
from flamestream.model.tables.transaction import Abort, State
from flamestream.simulation.graphs import (
    DEAD_LETTERS,
    LETTERS,
    Payload,
    SimJob,
    digest,
    key_of,
    source_streams,
)


def bank_job(rng: Random) -> SimJob:
    """A bank; what becomes of a transfer depends on all before it."""
    graph, stream, sources = source_streams(rng, "bank")
    # a transfer is never allowed to take what is not there
    accounts = graph.table("accounts", initial=int, check=lambda _, balance: balance >= 0)
    owners: Table[str, Vector[int]] = graph.table("owners", initial=Vector)
    most = rng.choice([1, 2, 8])

    def transfer(state: State, payload: Payload) -> Payload:
        account, text = payload
        amount = int(digest(text), 36) % 20
        if amount == 19:
            raise ValueError(f"nobody moves {amount}")
        if amount == 18:
            raise Abort("too much")
        others = [LETTERS[int(digest(f"{text}{each}"), 36) % 16] for each in range(amount % most)]
        if amount == 17:  # reads alone
            return account, digest(f"{[state[accounts, each] for each in (account, *others)]}")
        for other in others:
            state[accounts, account] -= amount
            state[accounts, other] += amount
        # found by reading: who owns it says which account is told
        told = LETTERS[len(state[owners, account]) % 16]
        state[owners, told] = state[owners, told].append(amount)
        return account, f"{state[accounts, account]}-{len(state[owners, told])}"

    deposits, transfers = stream.broadcast(2)
    few = rng.choice([2, 3])
    deposits.filter(lambda p: len(p[1]) % few == 0).upsert(
        accounts, key=lambda p: p[0], value=lambda p: len(p[1]) * 7
    )
    moved = transfers.transact(transfer)
    moved.committed.sink("out", key=key_of)
    moved.aborted.map(lambda a: (a.transaction[0], a.reason)).sink("refused", key=key_of)
    if rng.random() < 0.5:
        accounts.changes().map(_told).sink("balances", key=key_of)
    return SimJob(graph, DEAD_LETTERS, _record(rng), sources)


def _told(write: Any) -> Payload:
    return write.key, f"{write.before}-{write.after}"


def _record(rng: Random) -> Any:
    skew = rng.choice([0.15, 0.5, 2.0])
    return lambda r, number: (LETTERS[min(int(r.expovariate(skew)), 15)], f"{number}")
