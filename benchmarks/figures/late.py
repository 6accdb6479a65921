"""Late data: what it costs that items come out of order.

    python benchmarks late                # the table: CPU a record and latencies, in order and out of order
    python benchmarks late --documents 1000 --share 0.2 --lateness 50

The engine's order is that in which runs enter (docs/explanation/architecture.md), so there are two kinds of
lateness:

    own times go back    a share of the records has an own time up to `--lateness` ms back. An own time is a
                         hint: nothing waits for it, and nothing is late
    items come late      two fronts on two workers, and the way between these is slow now and then, by up to
                         `--lateness` ms, so that items come to their worker behind items of later times
                         (`late`), some of them behind one of the same key: these are inserted at their place,
                         and what was computed without them is called back (`inserted`)

Two workers of the real core (with its native parts, where they are there) run the inverted index in the
simulator's virtual time, in which passes and messages take what `scaling.py` has measured. Whatever a
consumer takes is compared there, byte by byte, with the sequential reference interpreter (invariant 2), and a
difference ends the run: so a row is a proof that the output is equal. CPU is real: of the workers' passes,
measured. Latency is of virtual time, from a record's arrival at its front to its last result at the consumer;
a result is final only when nothing below it is still on its way, so it has to wait for items that are late.
`there` is the floor: from the arrival to the last of the document's items at its worker, before which no
system could know the result.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import workload
from harness.corpus import documents

from figures.scaling import BEGIN, SECOND, SLOTS, Costs, charge, core_costs, plan_of
from flamestream.core.dataflow.native import FASTEST
from flamestream.core.protocol import actions as a
from flamestream.core.protocol import events as e
from flamestream.core.protocol.messages import Data
from flamestream.core.worker.worker import Worker
from flamestream.model import payload as codec
from flamestream.model.ids import SinkName, WorkerId
from flamestream.model.meta import Meta, time_of_meta
from flamestream.model.slot import slot_of
from flamestream.model.time import Instant, Time, Timestamp
from flamestream.simulation.faults import Fault, FaultPlan
from flamestream.simulation.graphs import SimJob
from flamestream.simulation.outside.producers import SimRecord
from flamestream.simulation.process import CLOCKS_BEGIN
from flamestream.simulation.settings import MS, Plan
from flamestream.testing import Timing, simulate

DELAY = 100
"""Microseconds of a message between workers, as the simulator draws it: from half of it to twice."""


@dataclass
class Seen:
    """What went through the workers."""

    cpu: float = 0.0
    items: int = 0
    late: int = 0
    """Behind an item of a later time at the same worker."""
    inserted: int = 0
    """Behind one of the same key: inserted at its place, and what came after it computed again."""
    newest: dict[str, Time] = field(default_factory=dict)
    there: dict[int, int] = field(default_factory=dict)
    """When the last item of a document reached its worker: before that nobody could know the results."""

    def received(self, now: int, worker: WorkerId, message: Data) -> None:
        """From the other worker."""
        for meta, dead, item in zip(
            message.metas, message.tombstones, codec.decode_many(message.payloads), strict=True
        ):
            if not dead:
                self.reached(now, worker, item, time_of_meta(Meta(meta)))

    def entered(self, now: int, worker: WorkerId, entry: e.Entry, owners: Sequence[WorkerId]) -> None:
        """At a front of this worker."""
        for posting in (
            posting for line in codec.decode_many(entry.payloads) for posting in workload.words(line)
        ):
            if owners[slot_of(codec.encode(posting.word), SLOTS)] == worker:
                self.reached(now, worker, posting, entry.time)

    def reached(self, now: int, worker: WorkerId, item: workload.Posting, at: Time) -> None:
        """An item is where its word's bucket is."""
        self.items += 1
        self.late += self._behind(f"/{worker}", at)
        self.inserted += self._behind(item.word, at)
        self.there[item.document] = now - CLOCKS_BEGIN  # no clock is skewed here

    def _behind(self, place: str, at: Time) -> bool:
        newest = self.newest.get(place, Time(0))
        self.newest[place] = max(at, newest)
        return at < newest


def watched(seen: Seen) -> type[Worker]:
    """Workers whose passes are timed, and whose items are counted outside of that."""

    class Watched(Worker):
        def step(
            self, now: Timestamp, instant: Instant, events: Sequence[e.Event], took: int | None = None
        ) -> list[a.Action]:
            start = time.thread_time_ns()
            actions = super().step(now, instant, events, took)
            seen.cpu += (time.thread_time_ns() - start) / 1e9
            came = [
                message
                for event in events
                if type(event) is e.FromPeer
                for message in event.frame.messages
                if type(message) is Data
            ]
            for message in came:
                seen.received(now, self.me, message)
            for action in actions:
                if type(action) is a.Append:
                    seen.entered(now, self.me, action.entry, self._layout.owners)
            return actions

    return Watched


@dataclass(frozen=True)
class Case:
    """How records come."""

    name: str
    fronts: int = 1
    own: bool = False
    late: float = 0.0
    """The rate of late frames."""


def measured(case: Case, costs: Costs, lines: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """A row. Raises SimulationFailure if a byte is not the reference's."""
    import flamestream.simulation.worker_node as node

    rng, seen, last = Random(1), Seen(), dict[int, int]()
    moments = [BEGIN + int(i * SECOND / options.rate) for i in range(len(lines))]
    back = [
        rng.randrange(options.lateness * MS) if case.own and rng.random() < options.share else 0
        for _ in lines
    ]
    records = [
        SimRecord(line, at, Timestamp(at - lag)) for line, at, lag in zip(lines, moments, back, strict=True)
    ]

    def adjust(_rng: Random, plan: Plan, faults: FaultPlan) -> tuple[Plan, FaultPlan]:
        faults.heal()
        if case.late:
            faults.rates, faults.late = {Fault.FRAME_DELAY: case.late}, options.lateness * MS // (2 * DELAY)
        return replace(
            plan_of(plan, 2, records, options.interval * MS, DELAY, case.fronts), delay=DELAY
        ), faults

    def taken(now: int, _sink: SinkName, bundle: a.Bundle) -> None:
        last.update((change.document, now) for _, change in codec.decode_items(bundle.items))

    job = SimJob(workload.graph, None, lambda _rng, _number: lines[0], 1)
    kept, node.Worker = node.Worker, watched(seen)  # type: ignore[attr-defined]
    try:
        simulate(0, adjust=adjust, job=job, parts=FASTEST, timing=Timing(charge(costs), taken))
    finally:
        node.Worker = kept  # type: ignore[attr-defined]
    numbers = [int(line.partition("\t")[0]) for line in lines]
    quantiles, floor = (
        statistics.quantiles(
            [(ends[number] - at) / 1e3 for number, at in zip(numbers, moments, strict=True)], n=100
        )
        for ends in (last, seen.there)
    )
    return {
        "case": case.name, "items": seen.items, "late": round(seen.late / seen.items, 3),
        "inserted": round(seen.inserted / seen.items, 3), "cpu_us": round(seen.cpu / seen.items * 1e6, 2),
        "p50": round(quantiles[49], 2), "p99": round(quantiles[98], 2),
        "there_p50": round(floor[49], 2), "there_p99": round(floor[98], 2), "output": "equal",
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=600)
    parser.add_argument("--rate", type=float, default=50.0, help="documents a second")
    parser.add_argument("--share", type=float, default=0.2, help="of records whose own time goes back")
    parser.add_argument(
        "--frames", type=float, default=0.1, help="the share of frames between workers that are late"
    )
    parser.add_argument("--lateness", type=int, default=50, help="ms at most")
    parser.add_argument("--interval", type=int, default=1000, help="ms between checkpoints")
    options = parser.parse_args()
    lines = list(documents(options.documents))
    costs = replace(core_costs(300), deliver=5.0, delay=DELAY)
    cases = [
        Case("in order"), Case("own times go back", own=True), Case("two fronts", fronts=2),
        Case("items come late", fronts=2, late=options.frames),
    ]  # fmt: skip
    bases: dict[int, dict[str, Any]] = {}
    for case in cases:
        row = measured(case, costs, lines, options)
        base = bases.setdefault(case.fronts, row)  # the first with as many fronts
        ratios = {
            "throughput_x": round(base["cpu_us"] / row["cpu_us"], 2),
            "p99_x": round(row["p99"] / base["p99"], 2),
        }
        print(json.dumps(row | ratios), flush=True)


if __name__ == "__main__":
    main()
