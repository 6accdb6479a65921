"""What early keys could give: results that wait only for what may still come to their own worker's keys.

    python benchmarks early_keys                        # the model, and the acker's share: a minute or two

The model of figures/scaling.py, the engine's real core in virtual time, on three workers of which one is slower than
the others and reads no source. Results of the other two wait for it, since minimal time is one for all. With a
minimal time for each worker they would not: then they would come as they do where all are as fast, for nothing
that the slow one does leads to them. So the difference is the most that early keys can give, on this job,
whose items pass their last door behind the source.

The acker's share: CPU time in its table and role, of all that the core of two workers spends on a record.
"""

import argparse
import cProfile
import json
import pstats
import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from random import Random
from typing import Any, Final
from unittest.mock import patch

import workload
from figures.scaling import BEGIN, SECOND, Costs, charge, core_costs, modelled, plan_of
from harness.corpus import documents

from flamestream.core.dataflow.native import FASTEST
from flamestream.core.protocol.messages import Acks, Cut, MinimalTime, Promise, Settled
from flamestream.model import payload as codec
from flamestream.model.ids import WorkerId
from flamestream.model.time import Timestamp
from flamestream.simulation.graphs import SimJob
from flamestream.simulation.outside.producers import SimRecord
from flamestream.simulation.settings import MS
from flamestream.simulation.worker_node import WorkerNode
from flamestream.testing import Timing, simulate

WORKERS: Final = 3
INTERVAL_MS: Final = 1000
SLOWER: Final = (1.0, 1.5, 2.0, 3.0)


class Seen:
    """Who makes a pass, and who owns which slot."""

    def __init__(self) -> None:
        self.me, self.slow = "", ""
        self.owners: Sequence[WorkerId] = ()
        self.told: dict[str, int] = {}
        """Messages to and from the acker, by kind."""

    def step(self, original: Any, node: WorkerNode, events: Sequence[Any]) -> Any:
        """`WorkerNode.step`."""
        self.me = node.id
        actions = original(node, events)
        layout = node.core._layout
        self.owners = layout.owners
        readers = {layout.fronts[front] for front in range(len(layout.fronts))}
        busy_with_more = {*readers, layout.acker}
        self.slow = max((name for name in layout.workers if name not in busy_with_more), default="")
        for message in (m for action in actions if hasattr(action, "frame") for m in action.frame.messages):
            if isinstance(message, Acks | Promise | MinimalTime | Settled | Cut):
                self.told[type(message).__name__] = self.told.get(type(message).__name__, 0) + 1
        return actions


def latencies(
    costs: Costs, lines: Sequence[str], rate: float, slower: float
) -> tuple[list[float], list[float], Seen]:
    """Of each result, in ms: those of workers that are as fast as ever, and those of the slow one."""
    due = [BEGIN + int(i * SECOND / rate) for i in range(len(lines))]
    records = [SimRecord(line, at, Timestamp(1)) for line, at in zip(lines, due, strict=True)]
    seen, fast, slow = Seen(), list[float](), list[float]()
    usual = charge(costs)

    def charged(events: Sequence[Any], actions: Sequence[Any]) -> int:
        return round(usual(events, actions) * (slower if seen.me == seen.slow else 1.0))

    def taken(now: int, _sink: Any, bundle: Any) -> None:
        its = slow if seen.owners[bundle.slot] == seen.slow else fast
        its.extend((now - due[change.document]) / 1e3 for _, change in codec.decode_items(bundle.items))

    def adjust(_rng: Random, plan: Any, faults: Any) -> Any:
        faults.heal()
        return plan_of(plan, WORKERS, records, INTERVAL_MS * MS, costs.delay), faults

    job = SimJob(workload.graph, None, lambda _rng, _number: lines[0], 1)
    original = WorkerNode.step
    with patch.object(WorkerNode, "step", lambda node, events: seen.step(original, node, events)):
        simulate(0, adjust=adjust, job=job, parts=FASTEST, timing=Timing(charged, taken))
    return fast, slow, seen


def share_of_the_acker(costs: Costs, lines: Sequence[str], rate: float) -> float:
    """Of the core's CPU time of two workers."""
    profile = cProfile.Profile()
    profile.runcall(partial(modelled, costs, 2, lines, rate, INTERVAL_MS))
    stats: Any = pstats.Stats(profile)
    core = acker = 0.0
    for (file, _, name), (_, _, own, whole, _) in stats.stats.items():
        core += whole if (name, file.endswith("core/worker/worker.py")) == ("step", True) else 0.0
        acker += own if file.endswith(("worker/acker.py", "worker/acker_role.py")) else 0.0
    return acker / core


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--rates", default="50,400", help="documents a second")
    parser.add_argument("--deliver", type=float, default=5.0, help="what the shell adds a result, us")
    parser.add_argument("--delay", type=int, default=100, help="of a message, us")
    options = parser.parse_args()
    lines = list(documents(options.documents))
    costs = replace(core_costs(1000), deliver=options.deliver, delay=options.delay)
    print(json.dumps(asdict(costs)), flush=True)
    for rate in map(float, options.rates.split(",")):
        base = 0.0
        for slower in SLOWER:
            fast, slow, seen = latencies(costs, lines, rate, slower)
            found: dict[str, Any] = {"rate": rate, "slower": slower}
            for name, its in (("others", fast), ("slow", slow)):
                found |= {
                    f"{name}_p50_ms": round(statistics.median(its), 2),
                    f"{name}_mean_ms": round(statistics.mean(its), 2),
                }
            base = base or statistics.mean(fast)
            found["at_most_sooner"] = round(1 - base / statistics.mean(fast), 3)
            found["told_a_document"] = {name: round(n / len(lines), 1) for name, n in seen.told.items()}
            print(json.dumps(found), flush=True)
    print(json.dumps({"ackers_share": round(share_of_the_acker(costs, lines, 50.0), 3)}))


if __name__ == "__main__":
    main()
