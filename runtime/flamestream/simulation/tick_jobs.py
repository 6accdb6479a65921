"""Jobs for the simulator whose code is changed while they run, and when: ticks.

Every version of the graph gives other bytes, folds state in another way, and has other operations around the
ones that it keeps. So a result of the wrong version, a state that was lost on the way, or one that two
versions have folded the same item into ends with other bytes.

Does not: start workers (cluster.py), or know what must come out (oracle.py).
"""

from functools import partial
from random import Random
from typing import Any

from flamestream.model.graph import Graph
from flamestream.model.stream import Stream
from flamestream.simulation.faults import Fault, FaultPlan
from flamestream.simulation.graphs import SimJob, digest, key_of, same, source_streams, spread, string_record
from flamestream.simulation.settings import MS, Adjust, Plan
from flamestream.simulation.world import EPOCH_START


def edited_job(rng: Random) -> SimJob:
    """A chain with a fold, a grouping and, from its second version on, an operation more."""
    seed, record = rng.getrandbits(32), string_record(rng)
    first = _version(seed, 0)
    return SimJob(first, None, record, len(first.sources), versions=partial(_version, seed))


def _version(seed: int, version: int) -> Graph:
    drawn, own = Random(seed), Random(seed + version)
    graph, stream, _ = source_streams(drawn, "edited")
    if own.random() < 0.5:
        stream = stream.balance(spread).map(same)
    stream = _folded(stream, "fold", f"v{version}")
    if drawn.random() < 0.5:
        window = drawn.randint(2, 4)
        stream = stream.group(window, key=key_of, name="last").map(
            lambda w: (w[-1][0], digest("|".join(v for _, v in w)))
        )
    if version % 2 and own.random() < 0.7:
        stream = _folded(stream, f"fresh-{version}", "f")
    if own.random() < 0.3:
        stream = stream.filter(lambda p: p[1][-1] in "02468ace")
    stream.map(lambda p: (p[0], f"{p[1]}v{version}")).sink("out", key=key_of)
    return graph


def _folded(stream: Stream[Any], name: str, mark: str) -> Stream[Any]:
    return stream.reduce(
        key=key_of, initial=str, combine=lambda a, p: digest(a + p[1] + mark), name=name,
        emit=lambda a, p: (p[0], p[1][-8:] + a),
    )  # fmt: skip


def ticking(direct: Adjust | None = None, *, most: int = 3) -> Adjust:
    """Runs whose code is changed up to `most` times, directed further by `direct`."""

    def adjust(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
        plan, faults = (drawn, chosen) if direct is None else direct(rng, drawn, chosen)
        # Nobody can know what a consumer had and has lost: it comes again, of the code that runs then.
        faults.moments = [each for each in faults.moments if each.fault is not Fault.CONSUMER_LOSS]
        moments = [rng.randint(EPOCH_START + MS, plan.heal_at + 50 * MS) for _ in range(rng.randint(1, most))]
        return plan.upgraded_at(moments), faults

    return adjust
