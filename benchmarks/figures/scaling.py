"""Median and tail of latency over 1, 2, 4, 8 workers: measured as far as a machine's cores carry, past them
modelled by the simulator.

    python benchmarks suite workers                 # measures, models, draws
    python benchmarks scaling                       # the model alone: what it costs, and what comes out, as
                                                    JSON

The model runs the engine's real core in the simulator's virtual time: every pass of a worker takes what its
items cost (`Costs`), a message takes a delay, and each worker has a core to itself. Costs of the core are CPU
times measured here, item by item. What the shell around it adds an item (sockets, encoding) is the rest of
the slope of a measured run's latency over the sizes of its documents, with one worker; the delay is the one
at which the modelled median of one worker is the measured one. So one worker is fitted, and two workers are
the test of the model: both are shown, measured and modelled.

Does not: model the noise of a machine (other processes, pauses), so modelled tails are too good; or a network
between machines.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any

import workload
from harness.corpus import documents

from figures.core import Alone
from flamestream.core.dataflow.native import FASTEST
from flamestream.core.protocol import actions as a
from flamestream.core.protocol import events as e
from flamestream.core.protocol.inventory import inventory_of
from flamestream.core.protocol.messages import Data
from flamestream.core.protocol.settings import FrontSettings
from flamestream.model import payload as codec
from flamestream.model.ids import Partition, SinkName, SourceName
from flamestream.model.time import FrontId, Instant, Timestamp
from flamestream.simulation.faults import FaultPlan
from flamestream.simulation.graphs import SimJob
from flamestream.simulation.outside.producers import SimRecord, SourceSite
from flamestream.simulation.settings import MS, Plan
from flamestream.simulation.world import EPOCH_START
from flamestream.testing import Charge, Timing, simulate

WORKERS = (1, 2, 4, 8)
SECOND = 1_000_000
SLOTS = 256
LEAST_DELAY, MOST_DELAY = 2, 5_000
BEGIN = EPOCH_START + SECOND
"""When the first document is sent: the workers have found each other by then."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds."""

    a_pass: float
    """What a pass of the core costs without any item."""
    a_chore: float
    """What a slice of a snapshot or of trimming costs."""
    enter: float
    """A record that a document makes: the user's function."""
    reduce: float
    """A record that is folded in, and its result."""
    hop: float
    """A record that leaves for another worker, or comes from one, on each side."""
    deliver: float
    """A result that leaves for the consumer: what the shell adds."""
    delay: int
    """Of a message, one way, as the simulator draws it: from half of it to twice."""


# --- what it costs ------------------------------------------------------------------------------------------


def core_costs(count: int, mean: int = 250) -> Costs:
    """Measured in this process, with the kernel that a worker would use; nothing of the shell yet."""
    lines = list(documents(count, mean))
    alone = _Timed()
    gc.disable()  # as in a worker process, where it runs when there is nothing to do
    sizes, spent = [], []
    for number, line in enumerate(lines):
        alone.reset()
        alone.documents(number, [line])
        sizes.append(_records(line))
        spent.append(alone.spent)
        if number % 50 == 49:
            alone.epoch()
    passes = alone.passes / (count + count // 50)
    whole, fixed = slope(sizes[count // 4 :], spent[count // 4 :])
    enter = _cpu(lambda: [len(workload.words(line)) for line in lines]) / sum(sizes)
    postings = [posting for line in lines[:100] for posting in workload.words(line)]
    hop = _cpu(lambda: codec.decode_many(codec.encode_many(postings))) / len(postings) / 2
    gc.enable()
    return Costs(max(1.0, fixed / passes), alone.chore, enter, max(0.0, whole - enter), hop, 0.0, LEAST_DELAY)


def slope(sizes: Sequence[float], times: Sequence[float]) -> tuple[float, float]:
    """Of a line through the middle of all points, and where it begins: medians of groups by size, so that
    outliers do not pull.

    >>> slope([1, 2, 3, 4] * 10, [12, 14, 16, 18] * 10)
    (2.0, 10.0)
    """
    points = sorted(zip(sizes, times, strict=True))
    width = max(1, len(points) // 10)
    groups = [points[at : at + width] for at in range(0, len(points) - width + 1, width)]
    line = statistics.linear_regression(
        *zip(
            *((statistics.mean(s for s, _ in g), statistics.median(t for _, t in g)) for g in groups),
            strict=True,
        )
    )
    return line.slope, line.intercept


class _Timed(Alone):
    """The core alone, with the CPU time of each pass."""

    def __init__(self) -> None:
        self.spent, self.passes, self._chores = 0.0, 0, [0.0]
        super().__init__(workload.graph, FASTEST)
        step = self.worker.step

        def timed(now: Timestamp, instant: Instant, events: Sequence[e.Event]) -> Sequence[a.Action]:
            start = time.process_time_ns()
            actions = step(now, instant, events)
            spent = (time.process_time_ns() - start) / 1e3
            if all(type(event) is e.Woken for event in events):
                self._chores.append(spent)
            else:
                self.spent, self.passes = self.spent + spent, self.passes + 1
            return actions

        self.worker.step = timed  # type: ignore[method-assign,assignment]

    def reset(self) -> None:
        self.spent = 0.0

    @property
    def chore(self) -> float:
        """The mean: one is as good as another."""
        return statistics.mean(self._chores)


def with_shell(
    costs: Costs, sizes: Sequence[int], latencies: Sequence[float], run: Callable[[Costs], Sequence[float]]
) -> Costs:
    """With what the shell adds, from documents and their latencies (ms), measured with one worker; `run`
    models the first of them."""
    measured, _ = slope(sizes, [latency * 1e3 for latency in latencies])
    costs = replace(costs, deliver=max(0.0, measured - costs.enter - costs.reduce))
    low, high = LEAST_DELAY, MOST_DELAY
    while high - low > max(2, low // 20):
        middle = (low + high) // 2
        found = run(replace(costs, delay=middle))
        low, high = (
            (middle, high)
            if statistics.median(found) < statistics.median(latencies[: len(found)])
            else (low, middle)
        )
    if low == LEAST_DELAY or high == MOST_DELAY:
        print(
            "the model does not fit: no delay makes one worker as measured (a busy machine?)", file=sys.stderr
        )
    return replace(costs, delay=low)


# --- the model ----------------------------------------------------------------------------------------------


def charge(costs: Costs) -> Charge:
    """What a worker's pass takes."""

    def of_pass(events: Sequence[e.Event], actions: Sequence[a.Action]) -> int:
        entered = sum(
            _records(str(line))
            for event in events
            if type(event) is e.RecordsArrived
            for line in event.payloads
        )
        received = sum(_items(event.frame.messages) for event in events if type(event) is e.FromPeer)
        sent = sum(_items(action.frame.messages) for action in actions if type(action) is a.ToPeer)
        delivered = sum(_delivered(action) for action in actions if type(action) is a.Deliver)
        chores = sum(type(event) is e.Woken for event in events)
        spent = (
            costs.a_pass
            + chores * costs.a_chore
            + entered * costs.enter
            + (entered + received - sent) * costs.reduce
        )
        return max(1, round(spent + (sent + received) * costs.hop + delivered * costs.deliver))

    return of_pass


def modelled(
    costs: Costs, workers: int, lines: Sequence[str], rate: float, interval_ms: int, seed: int = 0
) -> list[float]:
    """Latencies of the documents, ms."""
    records = [SimRecord(line, BEGIN + int(i * SECOND / rate), Timestamp(1)) for i, line in enumerate(lines)]
    last: dict[int, int] = {}

    def taken(now: int, _sink: SinkName, bundle: a.Bundle) -> None:
        for _, change in codec.decode_items(bundle.items):
            assert isinstance(change, workload.Change)
            last[change.document] = now

    def adjust(_rng: Random, plan: Plan, faults: FaultPlan) -> tuple[Plan, FaultPlan]:
        faults.heal()
        return plan_of(plan, workers, records, interval_ms * MS, costs.delay), faults

    # what is drawn is replaced by `adjust`
    job = SimJob(workload.graph, None, lambda _rng, _number: lines[0], 1)
    simulate(seed, adjust=adjust, job=job, parts=FASTEST, timing=Timing(charge(costs), taken))
    return [
        (last[int(line.partition("\t")[0])] - record.available) / 1e3
        for line, record in zip(lines, records, strict=True)
    ]


def plan_of(
    drawn: Plan, workers: int, records: list[SimRecord], interval: int, delay: int, fronts: int = 1
) -> Plan:
    """Nothing by chance but delays: no faults, no timeout that a busy worker would meet. Fronts take the
    records in turns."""
    source = SourceName("docs")
    settings = tuple(
        FrontSettings(FrontId(number), source, timed=False, replayable=False) for number in range(fronts)
    )
    worker = replace(
        drawn.worker, slots=SLOTS, fronts=settings, dead_letter=None,
        credit_runs=1024, credit_bytes=8 << 20, delivery_items=8192, heartbeat=100 * MS, slice_size=128,
        slice_bytes=64 << 10, upload_bytes=64 << 20, debug=False,
    )  # fmt: skip
    coordinator = replace(
        drawn.coordinator, workers=workers, fronts=fronts, slots=SLOTS, interval_us=interval,
        epoch_timeout_us=60 * SECOND, heartbeat_us=60 * SECOND, stuck_us=60 * SECOND, drain_us=60 * SECOND,
        last_epoch_us=3 * SECOND, graph=workload.graph.identity,
        inventory=inventory_of(workload.graph, None, settings),
    )  # fmt: skip
    sites = [
        SourceSite(front.front, False, False, {Partition(""): records[front.front :: fronts]})
        for front in settings
    ]
    return replace(
        drawn, sites=sites, worker=worker, coordinator=coordinator, workers=workers, standbys=0, delay=delay,
        turn=2, heal_at=records[-1].available, encode=False, stop_at=None,
    )  # fmt: skip


def _records(line: str) -> int:
    return len(set(line.partition("\t")[2].split()))


def _items(messages: Sequence[object]) -> int:
    return sum(len(message.vertices) for message in messages if type(message) is Data)


def _delivered(action: a.Deliver) -> int:
    return sum(len(codec.decode_items(bundle.items)) for bundle in action.bundles)


def _cpu(work: Callable[[], object]) -> float:
    start = time.process_time_ns()
    work()
    return (time.process_time_ns() - start) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=300)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--interval", type=int, default=1000)
    parser.add_argument("--deliver", type=float, default=5.0, help="what the shell adds a result, us")
    parser.add_argument("--delay", type=int, default=100, help="of a message, us")
    options = parser.parse_args()
    lines = list(documents(options.documents))
    costs = replace(core_costs(1000), deliver=options.deliver, delay=options.delay)
    print(json.dumps(asdict(costs)))
    for workers in WORKERS:
        latencies = sorted(modelled(costs, workers, lines, options.rate, options.interval))
        row: dict[str, Any] = {
            "workers": workers,
            "p50": statistics.median(latencies),
            "p99": latencies[int(0.99 * len(latencies))],
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
