"""Jobs for the simulator whose code is changed while they run, and when: ticks.

Every version of the graph gives other bytes, folds state in another way, and has other operations around the
ones that it keeps. So a result of the wrong version, a state that was lost on the way, or one that two
versions have folded the same item into ends with other bytes.

In a migrated job each version has its states in a form of its own (`version=`, `migrate=`). A state says its
version and has a map, so most of its rows are changes: what reads a row as of another version, or applies a
change to what it is not of, ends with other bytes.

Does not: start workers (cluster.py), or know what must come out (oracle.py).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from flamestream.core.protocol.settings import FrontSettings
from flamestream.model.collections import Map
from flamestream.model.graph import Graph
from flamestream.model.ids import SourceName
from flamestream.model.stream import Stream
from flamestream.model.time import FrontId
from flamestream.simulation.faults import Fault, FaultPlan
from flamestream.simulation.graphs import (
    DEAD_LETTERS,
    Payload,
    SimJob,
    digest,
    key_of,
    same,
    source_streams,
    spread,
    string_record,
)
from flamestream.simulation.process import kill
from flamestream.simulation.settings import MS, Adjust, Plan, drawn_site
from flamestream.simulation.world import EPOCH_START

LONG_WATCH = 1_500 * MS
State = tuple[str, Map[str, str]]
"""Version and entries of a migrated job's accumulator."""


def edited_job(rng: Random) -> SimJob:
    """A chain with a fold, a grouping and, from its second version on, an operation more."""
    seed, record = rng.getrandbits(32), string_record(rng)
    first = _version(seed, 0)
    return SimJob(first, None, record, len(first.sources), versions=partial(_version, seed))


def mistaken_job(rng: Random) -> SimJob:
    """The same, with every second version raising for some records: it has to be taken back."""
    seed, record, dead = rng.getrandbits(32), string_record(rng), rng.choice([None, DEAD_LETTERS])
    first, versions = _version(seed, 0), partial(_mistaken, seed, _raising)
    return SimJob(first, dead, record, len(first.sources), versions=versions, mistaken=True)


def fatal_job(rng: Random) -> SimJob:
    """The same, with every second version ending its process for some records: nobody hears why."""
    seed, record = rng.getrandbits(32), string_record(rng)
    first, versions = _version(seed, 0), partial(_mistaken, seed, _killing)
    return SimJob(first, None, record, len(first.sources), versions=versions, mistaken=True)


def _mistaken(seed: int, mistake: Callable[[Any], Any], version: int) -> Graph:
    return _version(seed, version, mistake=mistake if version % 2 else None)


def growing_job(rng: Random) -> SimJob:
    """The same, and each of its versions has a source more: before, between or behind the others."""
    seed, record = rng.getrandbits(32), string_record(rng)
    first = _version(seed, 0)
    return SimJob(first, None, record, len(first.sources), versions=partial(_version, seed, grows=True))


def _version(
    seed: int, version: int, *, grows: bool = False, mistake: Callable[[Any], Any] | None = None
) -> Graph:
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
    if mistake is not None:
        stream = stream.map(mistake)
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


def _killing(payload: Any) -> Any:
    if payload[1][-1] in "37":
        kill()
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


def migrated_job(rng: Random) -> SimJob:
    """A fold and, mostly, a grouping, whose states each version of the code has in a form of its own."""
    seed, record = rng.getrandbits(32), string_record(rng)
    first = _migrated(seed, 0)
    return SimJob(first, None, record, len(first.sources), versions=partial(_migrated, seed))


def _migrated(seed: int, version: int) -> Graph:
    drawn = Random(seed)
    graph, stream, _ = source_streams(drawn, "migrated")
    if drawn.random() < 0.7:
        stream = _last(stream, version, drawn.randint(2, 4))
    # Its state is as it was in every other version: what is not touched passes over several.
    step = version // 2 if drawn.random() < 0.3 else version
    _mapped(stream, step).sink("out", key=key_of)
    return graph


def _mapped(stream: Stream[Any], version: int) -> Stream[Any]:
    return stream.reduce(
        key=key_of, initial=partial(_nothing, version), combine=partial(_combined, version), emit=_shown,
        name="fold", version=version + 1, migrate={old + 1: partial(_up, old) for old in range(version)},
    )  # fmt: skip


def _nothing(version: int) -> State:
    return f"v{version}", Map()


def _combined(version: int, state: State, payload: Payload) -> State:
    assert state[0] == f"v{version}", f"a state of {state[0]} is none of v{version}"
    entry = payload[1][-1]
    return state[0], state[1].set(entry, digest(state[1].get(entry, state[0]) + payload[1]))


def _up(version: int, state: State) -> State:
    assert state[0] == f"v{version}", f"a state of {state[0]} is none of v{version}"
    changed = {key: digest(f"{value} up") for key, value in state[1].items() if key > "2"}
    return f"v{version + 1}", Map(changed).set("since", f"v{version}")


def _shown(state: State, payload: Payload) -> Payload:
    return payload[0], digest("|".join(f"{key}{value}" for key, value in state[1].items()) + state[0])


def _last(stream: Stream[Any], version: int, window: int) -> Stream[Any]:
    stream = stream.map(lambda p: (p[0], p[1], f"v{version}"))
    windows = stream.group(
        window, key=key_of, name="last", version=version + 1,
        migrate={old + 1: partial(_item_up, old) for old in range(version)},
    )  # fmt: skip
    return windows.map(partial(_window, version))


def _item_up(version: int, item: tuple[str, str, str]) -> tuple[str, str, str]:
    assert item[2] == f"v{version}", f"an item of {item[2]} is none of v{version}"
    return item[0], digest(f"{item[1]} up"), f"v{version + 1}"


def _window(version: int, window: tuple[tuple[str, str, str], ...]) -> Payload:
    assert {item[2] for item in window} == {f"v{version}"}, "all items of a window are of one version"
    return window[-1][0], digest("|".join(item[1] for item in window))


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


def failing(direct: Adjust | None = None) -> Adjust:
    """Runs whose code is changed once or twice, and watched for long enough to be taken back, directed further
    by `direct`."""

    def adjust(rng: Random, drawn: Plan, chosen: FaultPlan) -> tuple[Plan, FaultPlan]:
        plan, faults = ticking(direct, most=2)(rng, drawn, chosen)
        coordinator = replace(plan.coordinator, watch_us=LONG_WATCH, keep_us=LONG_WATCH)
        return replace(plan, coordinator=coordinator), faults

    return adjust
