"""Jobs for the simulator with every program in event time: sessions, joins, dedup, expiry, users' own.

Two sources lag behind one another and their times go back, so an item meets, replaces or forgets other things
in each order that is not the true one. Functions raise for some items, at their time too.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from flamestream.model.graph import Graph
from flamestream.model.ready import size
from flamestream.model.stream import Stream
from flamestream.model.windows.shapes import session, sliding, tumbling
from flamestream.model.windows.stream import Results
from flamestream.model.windows.windows import Windows
from flamestream.simulation.graphs import DEAD_LETTERS, LETTERS, SimJob, digest, same, spread
from flamestream.simulation.jobs.event_time import Event, appended, key_of, time_of


def program_job(rng: Random) -> SimJob:
    """Any of them."""
    graph = Graph("programs", step=f"{rng.choice([1, 1, 3])}s", shards=rng.choice([1, 3, 8]))
    late = rng.choice([0, 2, 10])
    left, right = (
        graph.source(name, at=time_of, unit="s", late=f"{late}s", idle="20ms") for name in ("s0", "s1")
    )
    if rng.random() < 0.5:
        left = left.balance(spread).map(same)
    build = rng.choice(PROGRAMS)
    out = build(rng, left, right)
    out.sink("out", key=_shape)
    if isinstance(out, Results):
        out.late.sink("late", key=key_of)
    return SimJob(graph, DEAD_LETTERS, _record, 2)


def sessions(rng: Random, left: Stream[Any], right: Stream[Any]) -> Stream[Any]:
    """Sessions of both streams together: with a merge, or with their items kept."""
    windows = left.merge(right).window(session(f"{rng.randint(1, 6)}s"), key=key_of)
    return _aggregated(rng, windows)


def ranked(rng: Random, left: Stream[Any], right: Stream[Any]) -> Stream[Any]:
    """The keys with the most items, over windows that overlap or not."""
    shape = rng.choice([tumbling("7s"), sliding("6s", every="3s")])
    return left.merge(right).window(shape, key=key_of).top(rng.randint(1, 3), by=size)


def aggregated(rng: Random, left: Stream[Any], right: Stream[Any]) -> Stream[Any]:
    """Aggregates of windows of a fixed length."""
    return _aggregated(
        rng, left.merge(right).window(rng.choice([tumbling("5s"), sliding("8s", every="2s")]), key=key_of)
    )


def joined(rng: Random, left: Stream[Any], right: Stream[Any]) -> Stream[Any]:
    """Items that are near each other, and now and then windows over the pairs."""
    low = rng.randint(-5, 2)
    bounds = (
        {"unbounded": True} if rng.random() < 0.2 else {"within": (f"{low}s", f"{low + rng.randint(0, 6)}s")}
    )
    pairs = left.join(right, on=key_of, how=rng.choice(["inner", "left", "full"]), **bounds)
    if "within" not in bounds or rng.random() < 0.6:
        return pairs
    pairs.late.sink("late-of-join", key=key_of)
    return pairs.window(tumbling("6s"), key=lambda pair: None).fold(
        initial=str, combine=lambda a, pair: digest(f"{a}{pair}")
    )


def latest(rng: Random, left: Stream[Any], right: Stream[Any]) -> Stream[Any]:
    """Items with the version of their time."""
    return left.join_latest(right, on=key_of, how=rng.choice(["inner", "left"]))


def tables(rng: Random, left: Stream[Any], right: Stream[Any]) -> Stream[Any]:
    """Two tables that change."""
    return left.join_table(right, on=key_of, how=rng.choice(["inner", "left", "full"]))


def deduplicated(rng: Random, left: Stream[Any], right: Stream[Any]) -> Stream[Any]:
    """The first of each key for a while."""
    return left.merge(right).dedup(key_of, within=f"{rng.randint(0, 8)}s")


def expiring(rng: Random, left: Stream[Any], right: Stream[Any]) -> Stream[Any]:
    """A fold that depends on order and forgets."""
    return left.merge(right).reduce(key=key_of, initial=str, combine=appended, ttl=f"{rng.randint(1, 6)}s")


def own(rng: Random, left: Stream[Any], right: Stream[Any]) -> Stream[Any]:
    """A user's functions, which are called at times and raise at some."""
    return left.merge(right).process(key=key_of, on_item=_on_item, on_time=_on_time, due=_due)


Build = Callable[[Random, Stream[Any], Stream[Any]], Stream[Any]]
PROGRAMS: tuple[Build, ...] = (
    sessions,
    sessions,
    ranked,
    aggregated,
    joined,
    joined,
    latest,
    tables,
    deduplicated,
    expiring,
    own,
)


def _aggregated(rng: Random, windows: Windows[Any, Any]) -> Stream[Any]:
    ask: Callable[[Windows[Any, Any]], Stream[Any]] = rng.choice(
        [
            lambda w: w.fold(initial=str, combine=appended, results=rng.choice(["final", "each"])),
            lambda w: w.collect(),
            lambda w: w.top(2, by=lambda event: event[2] % 3),
            lambda w: w.mean(lambda event: event[2]),
            lambda w: w.distinct_count(lambda event: event[2]),
            lambda w: w.max(lambda event: event[1]),
            lambda w: w.fold(
                initial=str, combine=lambda a, e: digest(a + e[1]), merge=lambda a, b: digest(a + b)
            ),
        ]
    )
    return ask(windows)


def _on_item(state: tuple[str, int] | None, event: Event, now: Any) -> Any:
    text, _ = state or ("", 0)
    return (appended(text, event), now.time), ((event[0], now.late, now.mark is None, digest(text)),)


def _on_time(state: tuple[str, int], time: int) -> Any:
    if time % 5 == 0:
        raise ValueError(f"not at {time}")
    return (None if time % 3 else (state[0], time)), ((state[0][-6:], time),)


def _due(state: tuple[str, int]) -> int:
    return state[1] + 4


def _record(rng: Random, number: int) -> Event:
    time = number // 4 + rng.randint(-5, 3) if rng.random() < 0.97 else rng.choice([-1_000, 10_000])
    return LETTERS[rng.randrange(3)], f"v{number}", time


def _shape(result: Any) -> str:
    return type(result).__name__
