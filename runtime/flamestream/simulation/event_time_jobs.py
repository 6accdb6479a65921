"""Jobs for the simulator in event time: windows over sources that lag, fall silent, and end.

Times of records go back and ties occur, so items come late, marks come while later items are there already, and both must end where the
reference has them.
"""

from random import Random
from typing import Any

from flamestream.model.graph import Graph
from flamestream.model.windows.shapes import sliding, tumbling
from flamestream.simulation.graphs import DEAD_LETTERS, LETTERS, SimJob, digest, same, spread


def event_time_job(rng: Random) -> SimJob:
    """Windows of counts and of folds that depend on order, and windows over those."""
    graph = Graph("event-time", step=f"{rng.choice([1, 1, 2, 5])}s", shards=rng.choice([1, 3, 8]))
    late, ahead = rng.choice([0, 2, 5, 20]), rng.choice([None, None, "15s"])
    events = graph.source("s0", _decoded, at=_time, unit="s", late=f"{late}s", idle="20ms", max_ahead=ahead)
    if rng.random() < 0.5:
        events = events.balance(spread).map(same)
    shape = rng.choice([tumbling("5s"), tumbling("7s", offset="1s"), sliding("6s", every="2s")])
    results = rng.choice(["final", "final", "each"])
    windows = events.window(shape, key=_key).fold(initial=str, combine=_appended, emit=digest, results=results)
    windows.sink("out", key=lambda window: window.key)
    windows.late.sink("late", key=_key)
    if rng.random() < 0.5:
        windows.window(tumbling("10s"), key=lambda window: len(window.value) % 2).count().sink("over", key=lambda window: window.key)
    return SimJob(graph, DEAD_LETTERS, _record, 1)


def _record(rng: Random, number: int) -> tuple[str, str, int]:
    wild = rng.random()
    time = number // 2 + rng.randint(-6, 3) if wild < 0.97 else rng.choice([-1_000, 10_000])
    return LETTERS[rng.randrange(5)], f"v{number}", time


def _decoded(record: tuple[str, str, int]) -> tuple[str, str, int]:
    if record[1].endswith("13"):
        raise ValueError(f"cannot read {record[1]!r}")
    return record


def _time(event: tuple[str, str, int]) -> Any:
    return event[2] if not event[1].endswith("17") else None


def _key(event: tuple[str, str, int]) -> str:
    return event[0]


def _appended(text: str, event: tuple[str, str, int]) -> str:
    if event[1].endswith("23"):
        raise ValueError(f"cannot fold {event[1]!r}")
    return f"{text[-60:]}{event[1]}."
