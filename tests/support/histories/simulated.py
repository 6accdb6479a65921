"""Histories of a simulated bank: what its producers have sent, its consumers taken, and its clients been told, in
virtual time.

A record is under way from when it can be read to when a consumer has its receipt; those of one partition come in their
order. A stale answer that was to have all below a time needs what receipts say is below it.
"""

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, cast

from flamestream.core.dataflow.parts import REFERENCE, Parts
from flamestream.core.protocol.actions import Bundle
from flamestream.model import payload as codec
from flamestream.model.ids import SinkName
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.time import Time
from flamestream.simulation.clients import Told
from flamestream.simulation.faults import FaultPlan
from flamestream.simulation.graphs import DEAD_LETTERS, LETTERS, SimJob, source_streams
from flamestream.simulation.settings import Adjust, Plan
from flamestream.simulation.simulator import SimulationFailure, Timing, Variant, simulate
from support.histories.history import Operation, Outcome, Put, Transfer

Line = tuple[str, str, str, int]
"""Its id, whose and to whom an amount goes; from "": that is what the target has from now on."""
ACCOUNTS = LETTERS[:5]


def judged_bank(rng: Random) -> SimJob:
    """Transfers and deposits, all with receipts."""
    graph, lines, sources = source_streams(rng, "bank")
    accounts = graph.table("accounts", initial=int, check=lambda _, balance: balance >= 0)

    def transfer(state: Any, line: Line) -> tuple[str, int]:
        number, source, target, amount = line
        if not source:
            state[accounts, target] = amount
            return number, 0
        state[accounts, source] -= amount
        state[accounts, target] += amount
        return number, state[accounts, source]

    moved = lines.transact(transfer)
    moved.committed.sink("committed", key=lambda receipt: receipt[0])
    moved.aborted.map(lambda aborted: (aborted.transaction[0], 0)).sink(
        "refused", key=lambda receipt: receipt[0]
    )
    return SimJob(graph, DEAD_LETTERS, _line, sources)


def _line(rng: Random, number: int) -> Line:
    source, target = rng.choice(ACCOUNTS), rng.choice(ACCOUNTS)
    put = rng.random() < 0.3
    return str(number), "" if put else source, target, rng.randrange(30) if put else rng.randrange(12)


@dataclass
class Recorded:
    """All of a run."""

    plan: Plan | None = None
    receipts: dict[str, tuple[int, Time, str, int]] = field(default_factory=dict)
    """When that of a record was first taken, the time of its run, which sink has it, and what is left."""
    answers: list[tuple[int, Told]] = field(default_factory=list)

    def taken(self, now: int, sink: SinkName, bundle: Bundle) -> None:
        for meta, receipt in codec.decode_items(bundle.items):
            number, left = cast("tuple[str, int]", receipt)
            self.receipts.setdefault(number, (now, time_of_meta(Meta(meta)), sink, left))

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
                    found.append(replace(self._record(line, record.available), needs=before))
                    before = {line[0]: 1}
        return found + [self._answer(now, told) for now, told in self.answers]

    def _record(self, line: Line, available: int) -> Operation:
        number, source, target, amount = line
        moves = Transfer(source, target, amount) if source else None
        puts = None if source else Put(target, amount)
        operation = Operation(available, None, number, moves=moves, puts=puts)
        if number not in self.receipts:
            return operation
        back, _, sink, left = self.receipts[number]
        return replace(operation, back=back, outcome=cast("Outcome", sink) if source else "", left=left)

    def _answer(self, now: int, told: Told) -> Operation:
        answer, query = told.answer, told.query
        keys = [lookup.key for lookup in query.lookups] if query.scan is None else answer.keys
        seen = {codec.decode(key)[1]: state for key, state in zip(keys, answer.states, strict=True)}
        reads = {name: 0 if state is None else codec.decode(state) for name, state in seen.items()}
        if query.strict:
            return Operation(told.asked, now, "strict", reads=reads)
        below = [number for number, (_, time, _, _) in self.receipts.items() if time < query.at_least]
        return Operation(0, now, "stale", dict.fromkeys(below, 1), reads=reads)


def recorded(
    seed: int,
    direct: Adjust | None = None,
    *,
    broken: Variant | None = None,
    parts: Parts = REFERENCE,
) -> tuple[Recorded, SimulationFailure | None]:
    """A run, up to where the simulator's own oracle finds fault with it."""
    found = Recorded()

    def adjust(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
        found.plan, faults = (drawn, chosen) if direct is None else direct(rng, drawn, chosen)
        return found.plan, faults

    timing = Timing(lambda events, actions: 0, found.taken, found.told)
    try:
        simulate(
            seed, broken=broken, adjust=adjust, job=judged_bank(Random(seed)), parts=parts, timing=timing
        )
    except SimulationFailure as failure:
        return found, failure
    return found, None
