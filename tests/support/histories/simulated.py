"""Histories of a simulated bank: what its producers have sent, its consumers taken, and its clients been told, in
virtual time.

A record is under way from when it can be read to when a consumer has its receipt; those of one partition come in their
order. A stale answer that was to have all below a time needs what receipts say is below it.

Transfers may come out of folds, which take them back and give them another amount when something comes late: the
receipt says which it was, and without one it may be any. Such a bank has an index of who has how much: who is found
there has that much.
"""

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, cast

from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.core.protocol.actions import Bundle
from flamestream.model import payload as codec
from flamestream.model.ids import SinkName
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.stream import Stream
from flamestream.model.time import Time
from flamestream.simulation.clients import Told
from flamestream.simulation.faults import FaultPlan
from flamestream.simulation.graphs import DEAD_LETTERS, LETTERS, SimJob, scatter, source_streams
from flamestream.simulation.settings import Adjust, Plan
from flamestream.simulation.simulator import SimulationFailure, Timing, Variant, simulate
from support.histories.history import Operation, Outcome, Put, Transfer

Line = tuple[str, str, str, int]
"""Its id, whose and to whom an amount goes; from "": that is what the target has from now on."""
Receipt = tuple[str, int, int]
"""The id of a line, its amount, and what is left."""
ACCOUNTS = LETTERS[:5]
FOLDS = 2
"""Each may add one to an amount."""
TORN = -1
"""Nobody ever has it."""


def judged_bank(rng: Random, *, retracted: bool = False) -> SimJob:
    """Transfers and deposits, all with receipts. `retracted`: out of folds, with an index."""
    graph, lines, sources = source_streams(rng, "bank")
    for place in range(1, FOLDS + 1) if retracted else ():
        lines = _counted(scatter(rng, lines), place)
    accounts = graph.table("accounts", initial=int, check=lambda _, balance: balance >= 0)
    if retracted:
        accounts.index("by_amount", key=lambda balance: balance)

    def transfer(state: Any, line: Line) -> Receipt:
        number, source, target, amount = line
        if not source:
            state[accounts, target] = amount
            return number, amount, 0
        state[accounts, source] -= amount
        state[accounts, target] += amount
        return number, amount, state[accounts, source]

    moved = lines.transact(transfer)
    moved.committed.sink("committed", key=lambda receipt: receipt[0])
    moved.aborted.map(lambda aborted: (aborted.transaction[0], aborted.transaction[3], 0)).sink(
        "refused", key=lambda receipt: receipt[0]
    )
    return SimJob(graph, DEAD_LETTERS, _line, sources, journalled=retracted)


def _counted(lines: Stream[Line], place: int) -> Stream[Line]:
    """Every second one of whom it is of, from or to, is of one more."""
    return lines.reduce(
        key=lambda line: line[place], initial=int, combine=lambda count, _: count + 1,
        emit=lambda count, line: (*line[:3], line[3] + count % 2),
    )  # fmt: skip


def _line(rng: Random, number: int) -> Line:
    source, target = rng.choice(ACCOUNTS), rng.choice(ACCOUNTS)
    put = rng.random() < 0.3
    return str(number), "" if put else source, target, rng.randrange(30) if put else rng.randrange(12)


@dataclass
class Recorded:
    """All of a run."""

    retracted: bool = False
    plan: Plan | None = None
    receipts: dict[str, tuple[int, Time, SinkName, Receipt]] = field(default_factory=dict)
    """When that of a record was first taken, the time of its run, and which sink has it."""
    answers: list[tuple[int, Told]] = field(default_factory=list)

    def taken(self, now: int, sink: SinkName, bundle: Bundle) -> None:
        for meta, receipt in codec.decode_items(bundle.items):
            its = cast("Receipt", receipt)
            self.receipts.setdefault(its[0], (now, time_of_meta(Meta(meta)), sink, its))

    def told(self, now: int, told: Told) -> None:
        self.answers.append((now, told))

    def operations(self) -> list[Operation]:
        """Its history."""
        assert self.plan is not None
        found = list[Operation]()
        for site in self.plan.sites:
            for records in site.partitions.values():
                before = dict[str, int]()
                for record in records:
                    line = cast("Line", record.payload)
                    found += [replace(each, needs=before) for each in self._record(line, record.available)]
                    before = {line[0]: 1}
        return found + [self._answer(now, told) for now, told in self.answers]

    def _record(self, line: Line, available: int) -> list[Operation]:
        """What it does; without a receipt all that it may do."""
        number, *_, amount = line
        if number in self.receipts:
            back, _, sink, (_, amount, left) = self.receipts[number]
            its = _operation(line, amount, available)
            outcome = "" if its.puts else cast("Outcome", sink)
            return [replace(its, back=back, outcome=outcome, left=left)]
        most = amount + FOLDS * self.retracted
        return [_operation(line, each, available) for each in range(amount, most + 1)]

    def _answer(self, now: int, told: Told) -> Operation:
        answer, query = told.answer, told.query
        keys = [lookup.key for lookup in query.lookups] if query.scan is None else answer.keys
        reads = dict[str, int]()
        for key, state in zip(keys, answer.states, strict=True):
            for account, amount in _seen(codec.decode(key), None if state is None else codec.decode(state)):
                reads[account] = amount if reads.get(account, amount) == amount else TORN
        if query.strict:
            return Operation(told.asked, now, "strict", reads=reads)
        below = [number for number, (_, time, *_) in self.receipts.items() if time < query.at_least]
        return Operation(0, now, "stale", dict.fromkeys(below, 1), reads=reads)


def _operation(line: Line, amount: int, available: int) -> Operation:
    number, source, target, _ = line
    moves = Transfer(source, target, amount) if source else None
    puts = None if source else Put(target, amount)
    return Operation(available, None, number, moves=moves, puts=puts)


def _seen(key: Any, value: Any) -> list[tuple[str, int]]:
    """What a state says of accounts: a row of the fold over lines nothing, one of the index of all that are in it."""
    if type(key) is not tuple:
        return []
    table, of = key
    return [(of, value or 0)] if table == "accounts" else [(account, of) for account in value or ()]


def recorded(
    seed: int,
    direct: Adjust | None = None,
    *,
    broken: Variant | None = None,
    parts: Parts = REFERENCE,
    retracted: bool = False,
) -> tuple[Recorded, SimulationFailure | None]:
    """A run, up to where the simulator's own oracle finds fault with it."""
    found = Recorded(retracted)

    def adjust(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
        found.plan, faults = (drawn, chosen) if direct is None else direct(rng, drawn, chosen)
        return found.plan, faults

    timing = Timing(lambda events, actions: 0, found.taken, found.told)
    try:
        job = judged_bank(Random(seed), retracted=retracted)
        simulate(seed, broken=broken, adjust=adjust, job=job, parts=parts, timing=timing)
    except SimulationFailure as failure:
        return found, failure
    return found, None
