"""Jobs for the simulator with chains of vectorised functions, which the kernel asks about whole batches, and
columns go between them.

They hold what such chains meet: functions that raise for one item, nulls with something behind them, lists
with more than they show, types that differ between two functions, ordinary functions in between, ways that
part and meet, and results of state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from flamestream.columns import vectorized
from flamestream.model import ready
from flamestream.model.errors import UserError
from flamestream.model.graph import Graph
from flamestream.model.payload import payload_type
from flamestream.model.stream import Stream
from flamestream.simulation.graphs import DEAD_LETTERS, LETTERS, SimJob, same, spread

Stage = Callable[[Stream[Any]], Stream[Any]]


@payload_type
@dataclass(frozen=True, slots=True)
class Item:
    key: str
    value: str
    amount: int | None
    parts: tuple[int, ...]


@payload_type
@dataclass(frozen=True, slots=True)
class Count:
    key: str
    amount: int


FIELDS = list(Item.__slots__)


def chance(values: Any) -> list[int]:
    """A number for each item, from itself alone."""
    return [crc32(f"{one}".encode()) for one in values.field("value").to_pylist()]


def refuse(chances: list[int], share: int) -> None:
    """Some items are at fault."""
    if (found := next((one for one in chances if one % share == 0), None)) is not None:
        raise ValueError(f"cannot work on {found}")


def items_of(columns: list[Any], missing: Any = None) -> Any:
    return pa.StructArray.from_arrays(columns, FIELDS, mask=missing)


@vectorized(takes=tuple[str, ...], makes=Item)
def entered(pairs: Any) -> Any:
    keys, values = zip(*pairs.to_pylist(), strict=True)
    chances = [crc32(value.encode()) for value in values]
    refuse(chances, 23)
    # Narrower types than declared, and a dictionary: what a function gives has to mean the same.
    amounts = pa.array([None if one % 5 == 0 else one % 1000 for one in chances], pa.int16())
    parts = pa.array([range(one % 4) for one in chances], pa.list_(pa.int32()))
    return items_of([pa.array(keys), pa.array(values).dictionary_encode(), amounts, parts])


@vectorized(takes=Item, makes=Item)
def doubled(items: Any) -> Any:
    """flat_map: none, one or two, in a list that begins behind its first element and ends before its last."""
    chances = chance(items)
    refuse(chances, 29)
    places = [0, *(place for place, one in enumerate(chances) for _ in range(one % 3)), 0]
    sizes = pa.array([1, *(one % 3 for one in chances)])
    return pa.ListArray.from_arrays(pc.cumulative_sum(sizes).cast(pa.int32()), items.take(pa.array(places)))


@vectorized(takes=Item, makes=Item)
def renamed(items: Any) -> Any:
    return items_of(
        [items.field(0), pc.binary_join_element_wise(items.field(1), "x", ""), items.field(2), items.field(3)]
    )


@vectorized(takes=Item, makes=Item)
def refusing(items: Any) -> Any:
    refuse(chance(items), 11)
    return items


@vectorized(takes=Item, makes=Item | None)
def sometimes_none(items: Any) -> Any:
    """Items of which some are null, with something behind the nulls that must not be seen."""
    missing = pa.array([one % 7 == 0 for one in chance(items)])
    return items_of([items.field(name) for name in FIELDS], missing)


@vectorized(takes=Item | None, makes=str)
def seen(items: Any) -> Any:
    """All that there is to see, also behind nulls."""
    columns = zip(*(items.field(name).to_pylist() for name in FIELDS), strict=True)
    return pa.array([f"{items[place].is_valid} {column}" for place, column in enumerate(columns)])


@vectorized(takes=str, makes=Item)
def again(texts: Any) -> Any:
    key = pa.array([LETTERS[crc32(text.encode()) % 5] for text in texts.to_pylist()])
    return items_of(
        [key, texts, pa.nulls(len(texts), pa.int64()), pa.array([[]] * len(texts), pa.list_(pa.int64()))]
    )


@vectorized(takes=Item | None, makes=bool | None)
def kept(items: Any) -> Any:
    """Also None, which is not kept."""
    texts = items.field("value").to_pylist()
    chances = [crc32((text or "").encode()) for text in texts]
    refuse(chances, 31)
    return pa.array([None if one % 4 == 0 else one % 4 > 1 for one in chances])


@vectorized(takes=Item, makes=Count)
def counted(items: Any) -> Any:
    return pa.StructArray.from_arrays(
        [items.field("key"), items.field("amount").fill_null(-1)], ["key", "amount"]
    )


@vectorized(takes=Count, makes=Count)
def halved(counts: Any) -> Any:
    if 6 in counts.field("amount").to_pylist():
        raise UserError("cannot halve six")
    return pa.StructArray.from_arrays(
        [counts.field("key"), pc.divide(counts.field("amount"), 2)], ["key", "amount"]
    )


@vectorized(takes=Count, makes=bool)
def not_three(counts: Any) -> Any:
    return pc.not_equal(counts.field("amount"), 3)


@vectorized(takes=tuple[Count, ...], makes=Count)
def widths(windows: Any) -> Any:
    sums = [(window[-1]["key"], sum(one["amount"] for one in window)) for window in windows.to_pylist()]
    return pa.array(
        [{"key": key, "amount": amount} for key, amount in sums],
        pa.struct([("key", pa.string()), ("amount", pa.int64())]),
    )


def plain(item: Item) -> Item:
    if crc32(item.value.encode()) % 13 == 0:
        raise KeyError(item.value)
    return Item(item.key, item.value + "p", item.amount, item.parts)


def plain_some(item: Item) -> list[Item]:
    return [item] * (crc32(item.value.encode()) % 3)


def parted(stream: Stream[Any]) -> Stream[Any]:
    """Two ways that meet again, where one function follows both."""
    return stream.map(renamed).merge(stream.filter(kept)).map(renamed)


STAGES: list[Stage] = [
    lambda s: s.flat_map(doubled), lambda s: s.map(renamed), lambda s: s.map(refusing),
    lambda s: s.filter(kept), lambda s: s.map(plain), lambda s: s.flat_map(plain_some),
    lambda s: s.filter(lambda item: item.key != "b"), lambda s: s.map(seen).map(again), parted,
    lambda s: s.map(sometimes_none).filter(kept).map(refusing),
    lambda s: s.map(sometimes_none).map(seen).map(again), lambda s: s.balance(spread).map(renamed),
    lambda s: s.balance(spread).map(same), lambda s: s.map(sometimes_none).map(renamed),
]  # fmt: skip


def chains(rng: Random) -> SimJob:
    """Several functions in a row, then a fold."""
    graph, stream = _items(rng, rng.randint(1, 5))
    if rng.random() < 0.5:
        stream.filter(kept).sink("items", key=ready.field("key"))
    stream.reduce(key=ready.field("key"), combine=ready.append("value", "amount")).sink("out")
    return SimJob(graph, DEAD_LETTERS, record, 1)


def behind_state(rng: Random) -> SimJob:
    """Functions behind one or several folds, whose late items bring tombstones."""
    graph, stream = _items(rng, rng.randint(0, 2))
    stream = stream.balance(spread).map(counted)
    for _ in range(rng.randint(1, 2)):
        stream = rng.choice([_windows, _sizes, _own])(stream)
        stream = rng.choice([_nothing, _halves, _branches, _halves])(stream)
    by_key: Any = rng.choice([ready.field("key"), lambda count: count.key])
    stream.sink("out", key=by_key)
    if rng.random() < 0.3:
        stream.map(halved).filter(not_three).sink("more")
    return SimJob(graph, DEAD_LETTERS, record, 1)


def _windows(stream: Stream[Any]) -> Stream[Any]:
    return stream.group(2, key=ready.field("key")).map(widths)


def _sizes(stream: Stream[Any]) -> Stream[Any]:
    return stream.reduce(
        key=ready.field("key"),
        combine=ready.append("amount"),
        emit=ready.record(Count, "key", amount=ready.size),
    )


def _own(stream: Stream[Any]) -> Stream[Any]:
    return stream.reduce(
        key=lambda count: count.amount % 3,
        initial=int,
        combine=lambda total, _: total + 1,
        emit=lambda total, one: Count(one.key, total),
    )


def _nothing(stream: Stream[Any]) -> Stream[Any]:
    return stream


def _halves(stream: Stream[Any]) -> Stream[Any]:
    return stream.map(halved).filter(not_three)


def _branches(stream: Stream[Any]) -> Stream[Any]:
    """Two ways that meet, one of them in a later pass than the other."""
    return stream.map(same).merge(stream.filter(not_three).map(halved))


def _items(rng: Random, stages: int) -> tuple[Graph, Stream[Any]]:
    graph = Graph("chains")
    stream: Stream[Any] = graph.source("s0")
    if rng.random() < 0.3:
        stream = stream.map(same)
    stream = stream.map(entered)
    for stage in rng.sample(STAGES, stages):
        stream = stage(stream)
    return graph, stream


def record(rng: Random, number: int) -> object:
    """A letter, some far more often than others, and the number."""
    return LETTERS[min(int(rng.expovariate(0.5)), 15)], f"{number}"
