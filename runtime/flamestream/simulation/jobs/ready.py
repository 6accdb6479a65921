"""Jobs for the simulator whose functions are ready-made or vectorised: what the native kernel does without
objects.

They hold everything that such functions meet: fields that are missing or of another type, sums that no
payload can hold, floats among ints, results that are accumulators, a reduce behind a reduce, and functions
over arrays that raise for one item of a batch.
"""

from dataclasses import dataclass
from random import Random
from typing import Any
from zlib import crc32

import pyarrow as pa

from flamestream.columns import vectorized
from flamestream.model import ready
from flamestream.model.graph import Graph
from flamestream.model.payload import payload_type
from flamestream.model.stream import Stream
from flamestream.simulation.graphs import DEAD_LETTERS, LETTERS, SimJob, same, scatter, spread
from flamestream.simulation.jobs import chains


@payload_type
@dataclass(frozen=True, slots=True)
class Reading:
    key: str
    value: str
    amount: Any


@payload_type
@dataclass(frozen=True, slots=True)
class Bare:
    """Like a Reading, but for the amount."""

    value: str
    key: str


@payload_type
@dataclass(frozen=True, slots=True)
class Sum:
    amount: Any
    key: str


@payload_type
@dataclass(frozen=True, slots=True)
class Measured:
    """A result of vectorised functions: a field of every type that has an Arrow type."""

    key: str
    value: str
    amount: int
    share: float
    raw: bytes
    odd: bool
    parts: tuple[int, ...]
    note: str | None


AMOUNTS = (1, 2, 300, -7, 70_000, True, 0.5, float("nan"), 1 << 63, -(1 << 62), "text", None, -0.0, 1 << 40)


def reading(payload: tuple[str, str]) -> Reading | Bare:
    chance = crc32(payload[1].encode())
    return (
        Bare(payload[1], payload[0])
        if chance % 17 == 0
        else Reading(payload[0], payload[1], AMOUNTS[chance % len(AMOUNTS)])
    )


def measured(payload: tuple[str, str]) -> list[Measured]:
    """None, one or two."""
    chance = crc32(payload[1].encode())
    if chance % 11 == 0:
        raise ValueError(f"cannot measure {payload[1]!r}")
    note = None if chance % 2 else "ä" * (chance % 50)
    made = Measured(
        payload[0],
        payload[1],
        chance - (1 << 31),
        chance / 7,
        payload[1].encode(),
        chance % 2 == 1,
        tuple(range(chance % 4)),
        note,
    )
    return [made] * (chance % 3)


@vectorized(takes=tuple[str, ...], makes=Measured)
def measured_together(pairs: Any) -> Any:
    """`measured`, over arrays."""
    lists = [
        [{f: getattr(one, f) for f in Measured.__slots__} for one in measured((key, value))]
        for key, value in pairs.to_pylist()
    ]
    # In another order and of other widths than the fields of Measured, which are found by name.
    return pa.array(lists, pa.list_(pa.struct([
        ("note", pa.string()), ("key", pa.large_string()), ("value", pa.string()), ("amount", pa.int32()),
        ("share", pa.float64()), ("raw", pa.binary()), ("odd", pa.bool_()),
        ("parts", pa.large_list(pa.int16())),
    ])))  # fmt: skip


@vectorized(takes=Measured, makes=Measured)
def without_notes(values: Any) -> Any:
    columns = {one.name: values.field(one.name) for one in values.type}
    return pa.StructArray.from_arrays(
        [*(columns[name] for name in columns if name != "note"), pa.nulls(len(values), pa.string())],
        [*(name for name in columns if name != "note"), "note"],
    )


@vectorized(takes=Measured, makes=bool)
def not_every_fifth(values: Any) -> Any:
    return pa.array([crc32(value.encode()) % 5 > 0 for value in values.field("value").to_pylist()])


def ready_job(rng: Random) -> SimJob:
    """Any of them."""
    return rng.choice([sums, lists, columns, chains.chains, chains.behind_state])(rng)


def sums(rng: Random) -> SimJob:
    """Counts and totals, of all that can be added and of what cannot."""
    graph, stream = _source(rng, "sums")
    combine: Any = rng.choice([ready.count(), ready.total("amount")])
    emit = rng.choice(
        [
            None,
            ready.record(Sum, "key", amount=ready.state),
            ready.record(Reading, "key", "value", amount=ready.state),
        ]
    )
    out = scatter(rng, stream.map(reading)).reduce(key=_key(rng), combine=combine, emit=emit)
    out.sink("out", key=None if emit is None else ready.field("key"))
    return SimJob(graph, DEAD_LETTERS, chains.record, 1)


def lists(rng: Random) -> SimJob:
    """Lists of fields, then totals of how long these are; every item crosses workers twice, and so do its
    tombstones."""
    graph, stream = _source(rng, "lists")
    names = rng.choice([("value",), ("value", "amount"), ("amount", "key", "value")])
    amount: Any = rng.choice([ready.size, ready.size, ready.state, ready.field("amount")])
    emit = ready.record(Reading, "key", "value", amount=amount)
    longer = scatter(rng, stream.map(reading)).reduce(key=_key(rng), combine=ready.append(*names), emit=emit)
    total: Any = rng.choice([ready.total("amount"), ready.append("amount"), ready.count()])
    key = ready.field("value") if rng.random() < 0.3 else _by_letter
    other = longer.reduce(key=key, combine=total, emit=ready.record(Sum, "key", amount=ready.state))
    other.sink("out", key=ready.field("key"))
    return SimJob(graph, DEAD_LETTERS, chains.record, 1)


def columns(rng: Random) -> SimJob:
    """A vectorised function at the source, others behind it, and a ready-made fold."""
    graph = Graph("columns")
    stream: Stream[Any] = graph.source("s0")
    made = stream.flat_map(measured_together)
    if rng.random() < 0.5:
        made = made.map(without_notes).filter(not_every_fifth)
    if rng.random() < 0.5:
        made = made.balance(spread).map(same)
    if rng.random() < 0.3:
        made.sink("measured", key=ready.field("key"))
    names = tuple(rng.sample(Measured.__slots__, rng.randint(1, 4)))
    emit = rng.choice(
        [
            None,
            ready.record(Reading, "key", "value", amount=ready.size),
            ready.record(Sum, "key", amount=ready.field("parts")),
        ]
    )
    out = made.reduce(key=_key(rng), combine=ready.append(*names), emit=emit)
    by_key: Any = rng.choice([ready.field("key"), lambda result: result.key])
    out.sink("out", key=None if emit is None else by_key)
    return SimJob(graph, DEAD_LETTERS, chains.record, 1)


def _source(rng: Random, name: str) -> tuple[Graph, Stream[Any]]:
    graph = Graph(name)
    return graph, scatter(rng, graph.source("s0"))


def _key(rng: Random) -> Any:
    return rng.choice([ready.field("key"), ready.field("key"), lambda payload: payload.key])


def _by_letter(result: Any) -> str:
    return LETTERS[crc32(str(result.value).encode()) % 3]
