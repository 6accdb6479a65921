"""Jobs for the simulator in event time: windows over sources that lag, fall silent, and end.

Times of records go back and ties occur, so items come late, marks come while later items are there already,
and both must end where the reference has them.
"""

from datetime import datetime
from random import Random
from typing import Any

from flamestream.model.graph import Graph
from flamestream.model.payloads.values import EPOCH, MICROSECOND
from flamestream.model.windows.shapes import session, sliding, tumbling
from flamestream.simulation.graphs import DEAD_LETTERS, LETTERS, SimJob, digest, same, spread

Event = tuple[str, str, int]
"""(key, value, time)."""


def event_time_job(rng: Random) -> SimJob:
    """Windows of counts and of folds that depend on order, and windows over those."""
    graph = Graph("event-time", step=f"{rng.choice([1, 1, 2, 5])}s", shards=rng.choice([1, 3, 8]))
    late, ahead = rng.choice([0, 2, 5, 20]), rng.choice([None, None, "15s"])
    events = graph.source("s0", _decoded, at=time_of, unit="s", late=f"{late}s", idle="20ms", max_ahead=ahead)
    if rng.random() < 0.5:
        events = events.balance(spread).map(same)
    shape = rng.choice([tumbling("5s"), tumbling("7s", offset="1s"), sliding("6s", every="2s")])
    results = rng.choice(["final", "final", "each"])
    windows = events.window(shape, key=key_of).fold(
        initial=str, combine=appended, emit=digest, results=results
    )
    windows.sink("out", key=lambda window: window.key)
    windows.late.sink("late", key=key_of)
    if rng.random() < 0.5:
        windows.window(tumbling("10s"), key=lambda window: len(window.value) % 2).count().sink(
            "over", key=lambda window: window.key
        )
    return SimJob(graph, DEAD_LETTERS, _record, 1)


def arrival_job(rng: Random) -> SimJob:
    """Windows, sessions and joins whose event time is when records arrive: what they give depends on the
    journal's times alone."""
    graph = Graph("arrivals", step=f"{rng.choice([3, 7, 20])}ms", shards=rng.choice([1, 3, 8]))
    events = graph.source("s0", _decoded, clock="arrival")
    if rng.random() < 0.5:
        events = events.map(_marked).balance(spread).filter(bool)
    shape = rng.choice(
        [tumbling("10ms"), tumbling("7ms", offset="1ms"), sliding("30ms", every="10ms"), session("12ms")]
    )
    windows = events.window(shape, key=key_of).fold(initial=str, combine=appended, emit=digest)
    windows.sink("out", key=lambda window: window.key)
    windows.late.sink("late", key=key_of)
    if rng.random() < 0.4:
        windows.window(tumbling("50ms"), key=lambda window: len(window.value) % 2).count().sink(
            "over", key=lambda window: window.key
        )
    if rng.random() < 0.4:
        others = graph.source("s1", clock="arrival")
        events.join(others, on=key_of, within=("-9ms", "5ms"), how=rng.choice(["inner", "full"])).sink(
            "pairs", key=repr
        )
        return SimJob(graph, DEAD_LETTERS, _record, 2, journalled=True)
    return SimJob(graph, DEAD_LETTERS, _record, 1, journalled=True)


def clock_job(rng: Random) -> SimJob:
    """A graph's clock, whose readings come once: windows over it and a program that it drives beside what
    arrives."""
    graph = Graph("clock", step=f"{rng.choice([1, 5])}ms", shards=rng.choice([1, 3]))
    ticks = graph.clock("s0", every="1ms")
    windows = ticks.window(tumbling("4ms"), key=_parity).fold(
        initial=str, combine=lambda text, moment: f"{text}{moment}", emit=digest
    )
    windows.sink("out", key=lambda window: window.key)
    ticks.balance(spread).map(str).sink("ticks", key=same)
    return SimJob(
        graph,
        DEAD_LETTERS,
        lambda rng, number: EPOCH + number * 1_000 * MICROSECOND,
        1,
        one_partition=True,
        journalled=True,
    )


def _parity(moment: datetime) -> int:
    return moment.microsecond // 1_000 % 2


def _marked(event: Event) -> Event:
    return event[0], f"{event[1]}m", event[2]


def _record(rng: Random, number: int) -> Event:
    wild = rng.random()
    time = number // 2 + rng.randint(-6, 3) if wild < 0.97 else rng.choice([-1_000, 10_000])
    return LETTERS[rng.randrange(5)], f"v{number}", time


def _decoded(record: Event) -> Event:
    if record[1].endswith("13"):
        raise ValueError(f"cannot read {record[1]!r}")
    return record


def time_of(event: Event) -> Any:
    """Event time of an event; None for some, which do not say it."""
    return event[2] if not event[1].endswith("17") else None


def key_of(event: Event) -> str:
    """Whose event it is."""
    return event[0]


def appended(text: str, event: Event) -> str:
    """A fold that depends on the order of events, and raises for some."""
    if event[1].endswith("23"):
        raise ValueError(f"cannot fold {event[1]!r}")
    return f"{text[-60:]}{event[1]}."
