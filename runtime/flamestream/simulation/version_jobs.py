"""Jobs for the simulator whose state becomes another one with each edit: `version=` and `migrate=`.

A state says its version and has a map, so most of its rows are changes. Whatever reads a row as of another
version, applies a change to what it is not of, or lets a step be applied twice or never, ends with other bytes.

Does not: change code (tick_jobs.py), or say what a migrated state is (timeline.py).
"""

from functools import partial
from random import Random
from typing import Any

from flamestream.model.collections import Map
from flamestream.model.graph import Graph
from flamestream.model.stream import Stream
from flamestream.simulation.graphs import Payload, SimJob, digest, key_of, source_streams, string_record

State = tuple[str, Map[str, str]]


def migrated_job(rng: Random) -> SimJob:
    """A fold and, mostly, a grouping, whose states each version of the code has in a form of its own."""
    seed, record = rng.getrandbits(32), string_record(rng)
    first = _version(seed, 0)
    return SimJob(first, None, record, len(first.sources), versions=partial(_version, seed))


def _version(seed: int, version: int) -> Graph:
    drawn = Random(seed)
    graph, stream, _ = source_streams(drawn, "migrated")
    if drawn.random() < 0.7:
        stream = _last(stream, version, drawn.randint(2, 4))
    # Its state is as it was in every other version: what is not touched passes over several.
    step = version // 2 if drawn.random() < 0.3 else version
    _folded(stream, step).sink("out", key=key_of)
    return graph


def _folded(stream: Stream[Any], version: int) -> Stream[Any]:
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
