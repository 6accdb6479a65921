"""Jobs for the simulator whose code is changed while they run, and when: ticks.

Every version of the graph gives other bytes, folds state in another way, and has other operations around the
ones that it keeps. So a result of the wrong version, a state that was lost on the way, or one that two
versions have folded the same item into ends with other bytes.

Does not: start workers (cluster.py), or know what must come out (oracle.py).
"""

from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from flamestream.core.protocol.settings import FrontSettings
from flamestream.model.graph import Graph
from flamestream.model.ids import SourceName
from flamestream.model.stream import Stream
from flamestream.model.time import FrontId
from flamestream.simulation.faults import Fault, FaultPlan
from flamestream.simulation.graphs import (
    DEAD_LETTERS,
    SimJob,
    digest,
    key_of,
    same,
    source_streams,
    spread,
    string_record,
)
from flamestream.simulation.settings import MS, Adjust, Plan, drawn_site
from flamestream.simulation.world import EPOCH_START


def edited_job(rng: Random) -> SimJob:
    """A chain with a fold, a grouping and, from its second version on, an operation more."""
    seed, record = rng.getrandbits(32), string_record(rng)
    first = _version(seed, 0)
    return SimJob(first, None, record, len(first.sources), versions=partial(_version, seed))


def mistaken_job(rng: Random) -> SimJob:
    """The same, with every second version raising for some records: it has to be taken back."""
    seed, record, dead = rng.getrandbits(32), string_record(rng), rng.choice([None, DEAD_LETTERS])
    first = _version(seed, 0)
    return SimJob(first, dead, record, len(first.sources), versions=partial(_mistaken, seed), mistaken=True)


def _mistaken(seed: int, version: int) -> Graph:
    return _version(seed, version, mistaken=version % 2 == 1)


def growing_job(rng: Random) -> SimJob:
    """The same, and each of its versions has a source more: before, between or behind the others."""
    seed, record = rng.getrandbits(32), string_record(rng)
    first = _version(seed, 0)
    return SimJob(first, None, record, len(first.sources), versions=partial(_version, seed, grows=True))


def _version(seed: int, version: int, *, grows: bool = False, mistaken: bool = False) -> Graph:
    drawn, own = Random(seed), Random(seed + version)
    graph, stream, _ = source_streams(drawn, "edited")
    for number in range(1, version + 1) if grows else ():
        stream = stream.merge(graph.source(new_source(number)))
    if own.random() < 0.5:
        stream = stream.balance(spread).map(same)
    stream = folded(stream, "fold", f"v{version}")
    if drawn.random() < 0.5:
        window = drawn.randint(2, 4)
        stream = stream.group(window, key=key_of, name="last").map(
            lambda w: (w[-1][0], digest("|".join(v for _, v in w)))
        )
    if mistaken:
        stream = stream.map(_raising)
    if version % 2 and own.random() < 0.7:
        stream = folded(stream, f"fresh-{version}", "f")
    if own.random() < 0.3:
        stream = stream.filter(lambda p: p[1][-1] in "02468ace")
    stream.map(lambda p: (p[0], f"{p[1]}v{version}")).sink("out", key=key_of)
    return graph


def _raising(payload: Any) -> Any:
    if payload[1][-1] in "37":
        raise ValueError(f"cannot take {payload[1]!r}")
    return payload


def folded(stream: Stream[Any], name: str, mark: str) -> Stream[Any]:
    """A fold by key, which shows in what it gives; `mark`: of who has folded."""
    return stream.reduce(
        key=key_of, initial=str, combine=lambda a, p: digest(a + p[1] + mark), name=name,
        emit=lambda a, p: (p[0], p[1][-8:] + a),
    )  # fmt: skip


def new_source(version: int) -> str:
    """The source that a version has, and none before."""
    return f"new-{version}"


def growing(direct: Adjust | None = None, *, timed: float = 0.4) -> Adjust:
    """Runs whose code is changed up to three times, and has a source more each time, directed further by
    `direct`. `timed`: how many of these are timed."""

    def adjust(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
        plan, faults = ticking(direct)(rng, drawn, chosen)
        began, sites, fronts = len(plan.worker.fronts), list(plan.sites), list(plan.worker.fronts)
        for number in range(1, len(plan.upgrades) + 1):
            front, records = FrontId(len(fronts)), rng.randint(1, 10)
            is_timed = rng.random() < timed and not plan.job.journalled
            site = drawn_site(rng, plan.job, front, records, plan.heal_at, timed=is_timed)
            sites.append(site)
            its = front, SourceName(new_source(number)), site.timed, site.run_length, site.replayable
            fronts.append(FrontSettings(*its, step=site.step))
        worker = replace(plan.worker, fronts=tuple(fronts))
        plan = replace(plan, sites=sites, worker=worker, began_with=began)
        return replace(plan, coordinator=plan.coordinator_of(0)), faults

    return adjust


def ticking(direct: Adjust | None = None, *, most: int = 3) -> Adjust:
    """Runs whose code is changed up to `most` times, directed further by `direct`."""

    def adjust(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
        plan, faults = (drawn, chosen) if direct is None else direct(rng, drawn, chosen)
        # Nobody can know what a consumer had and has lost: it comes again, of the code that runs then.
        faults.moments = [each for each in faults.moments if each.fault is not Fault.CONSUMER_LOSS]
        moments = [rng.randint(EPOCH_START + MS, plan.heal_at + 50 * MS) for _ in range(rng.randint(1, most))]
        watch = rng.choice([0, 30 * MS, 150 * MS])
        coordinator = replace(plan.coordinator, watch_us=watch, keep_us=rng.choice([0, watch, 100 * MS]))
        return replace(plan, coordinator=coordinator).upgraded_at(moments), faults

    return adjust
