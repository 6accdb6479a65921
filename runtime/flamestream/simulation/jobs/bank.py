"""Jobs for the simulator with transactions: a bank, whose accounts have balances, limits and a ledger of their
owners.

Transfers touch one to eight accounts, find some of them by reading others, are aborted by their function or by a
check, raise, only read, or close an account; deposits come from an ordinary stream. A few accounts have most of them.
Or they come out of folds, which take them back when something comes late. Or they go through folds, one behind the
other or side by side, in one transactional subgraph or in several. Or they read an index, which comes, goes and is back
while the job runs.
"""

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from flamestream.model.collections import Vector
from flamestream.model.graph import Graph
from flamestream.model.stream import Stream
from flamestream.model.tables.ledger import Table
from flamestream.model.tables.transaction import Abort, State
from flamestream.simulation.graphs import (
    DEAD_LETTERS,
    LETTERS,
    Payload,
    SimJob,
    concatenation,
    digest,
    key_of,
    rekey,
    scatter,
    source_streams,
)

JUDGED = 4
"""Few, so that what is measured of some dozens of transfers changes how the next ones are decided."""


def bank_job(rng: Random, *, retracted: bool = False) -> SimJob:
    """A bank; what becomes of a transfer depends on all before it. `retracted`: transfers come out of folds, by
    several ways: each may be taken back and come again, as another one or as the same."""
    graph, stream, sources = source_streams(rng, "bank")
    for stage in (scatter, concatenation, rekey, concatenation) if retracted else ():
        stream = stage(rng, stream)
    # a transfer is never allowed to take what is not there
    accounts = graph.table("accounts", initial=int, check=lambda _, balance: balance >= 0)
    owners: Table[str, Vector[int]] = graph.table("owners", initial=Vector, was="holders")
    most = rng.choice([1, 2, 8])
    closing = rng.choice([0, 5, 16])

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
        if amount == closing:
            del state[accounts, account]
            del state[owners, LETTERS[len(text) % 16]]
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
    return SimJob(
        graph, DEAD_LETTERS, drawn_record(rng), sources, patience=drawn_patience(rng), judged=JUDGED
    )


def retracted_job(rng: Random) -> SimJob:
    """A bank whose transfers come out of folds."""
    return bank_job(rng, retracted=True)


def row_job(rng: Random) -> SimJob:
    """Transactions of one row: each changes what all above it have read."""
    return _of_one_row(*source_streams(rng, "bank"))


def retracted_row_job(rng: Random) -> SimJob:
    """Transactions of one row that come out of folds, by several ways."""
    graph, stream, sources = source_streams(rng, "bank")
    for stage in (scatter, concatenation, rekey, concatenation, scatter):
        stream = stage(rng, stream)
    return _of_one_row(graph, stream, sources)


def _of_one_row(graph: Graph, stream: Stream[Payload], sources: int) -> SimJob:
    chained = graph.table("chained", initial=str)

    def chain(state: State, payload: Payload) -> Payload:
        state[chained, "all"] = digest(f"{state[chained, 'all']}{payload[1]}")
        return payload[0], state[chained, "all"]

    stream.transact(chain).committed.sink("out", key=key_of)
    return SimJob(graph, DEAD_LETTERS, lambda r, n: (LETTERS[r.randrange(16)], f"{n}"), sources)


def live_job(rng: Random) -> SimJob:
    """Such a bank with an index, for clients who may ask for all of it strictly: no front of it is timed."""
    return replace(with_index(retracted_job(rng)), journalled=True)


def with_index(job: SimJob) -> SimJob:
    """A bank that has an index of its accounts by how much they have."""
    assert job.graph.ledger is not None
    accounts: Table[str, int] = Table(job.graph.ledger, "accounts")
    tens = accounts.index("by_tens", key=lambda balance: min(balance // 10, 5))
    tens.changes().map(lambda write: (str(write.key), repr(write.after))).sink("tens", key=key_of)
    return job


def subgraph_job(rng: Random) -> SimJob:
    """A bank of subgraphs: the second one is opened by what the first one has committed."""
    graph, stream, sources = source_streams(rng, "bank")
    refused = list[Stream[Payload]]()
    for number in range(rng.choice([1, 1, 2])):
        with graph.transaction() as transaction:
            halves = transaction.open(stream).flat_map(_halves)
            ends, beside = [halves], rng.random() < 0.5
            for fold in range(rng.choice([1, 2, 3])):
                before = halves if beside else ends[-1]
                if rng.random() < 0.2:
                    before = before.filter(lambda half: "5" not in half[1])
                ends.append(_fold(before, f"state{number}{fold}", rng.choice([5, 50, 500])))
            moved = transaction.close(*ends[1:] if beside else ends[-1:])
        stream = moved.committed
        refused.append(moved.aborted.map(lambda a: (a.transaction[0], f"{a.reason}{a.table}{a.key}")))
        if rng.random() < 0.5:
            changes = transaction.table(f"state{number}0").changes()
            changes.map(_told).sink(f"state{number}0", key=key_of)
    stream.sink("out", key=key_of)
    refused[0].merge(*refused[1:]).sink("refused", key=key_of)
    return SimJob(
        graph, DEAD_LETTERS, drawn_record(rng), sources, patience=drawn_patience(rng), judged=JUDGED
    )


def indexed_job(rng: Random) -> SimJob:
    """A bank whose every second version has an index of the balances that are there, and tells who has as much."""
    seed, record = rng.getrandbits(32), drawn_record(rng)
    first = _indexed(seed, 0)
    return SimJob(first, None, record, len(first.sources), versions=partial(_indexed, seed))


def _indexed(seed: int, version: int) -> Graph:
    graph, stream, _ = source_streams(Random(seed), "bank")
    accounts = graph.table("accounts", initial=int)
    by_tens = accounts.index("fresh-1", key=lambda balance: balance // 10) if version % 2 else None

    def move(state: State, payload: Payload) -> Payload:
        account, text = payload
        amount = int(digest(text), 36) % 25
        state[accounts, account] += amount - 8
        if amount == 3:
            del state[accounts, account]
        balance = state[accounts, account]
        alike = () if by_tens is None else sorted(state[by_tens, balance // 10])
        return account, digest(f"{balance}{alike}{version}")

    stream.transact(move).committed.sink("out", key=key_of)
    return graph


def _halves(payload: Payload) -> list[Payload]:
    account, text = payload
    amount = int(digest(text), 36) % 20
    if amount == 19:
        raise ValueError(f"nobody moves {amount}")
    others = [LETTERS[int(digest(f"{text}{each}"), 36) % 16] for each in range(amount % 3)]
    return [(account, f"{text}-{amount}"), *((other, f"{text}+{amount}") for other in others)]


def _fold(halves: Stream[Payload], name: str, limit: int) -> Stream[Payload]:
    def added(balance: int, half: Payload) -> int:
        return balance + int(digest(half[1]), 36) % 9 - 4

    return halves.reduce(
        name=name, key=key_of, initial=int, combine=added,
        emit=lambda balance, half: (half[0], digest(f"{half[1]}{balance}")),
        check=lambda _, balance: abs(balance) < limit,
    )  # fmt: skip


def _told(write: Any) -> Payload:
    return write.key, f"{write.before}-{write.after}" + "-deleted" * write.deleted


def drawn_patience(rng: Random) -> int | None:
    """A bound of the runs of a transaction; None: by what is measured."""
    return rng.choice([None, 0, 1, 2])


def drawn_record(rng: Random) -> Any:
    """Records of a few accounts more than of others."""
    skew = rng.choice([0.15, 0.5, 2.0])
    return lambda r, number: (LETTERS[min(int(r.expovariate(skew)), 15)], f"{number}")
