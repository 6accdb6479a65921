"""Compositions: random graphs of windows and joins over each other, beside what plain loops over the whole input
say. No record comes too late, so the order in which they enter has no part in any result."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import flamestream as fs
from flamestream.model.windows.panes import Windowed

SECOND = 1_000_000
Row = tuple[Any, int]
"""(item, its event time in microseconds)."""


@fs.event
class Reading:
    number: int
    at: int


@dataclass(frozen=True, slots=True)
class Both:
    """A stream, and the rows that it has to have when all has come."""

    stream: Any
    rows: list[Row]
    name: str


def value_of(item: Any) -> int:
    """A number that any item has."""
    if isinstance(item, Windowed):
        return item.value if isinstance(item.value, int) else len(item.value)
    if isinstance(item, tuple):
        return sum(value_of(part) for part in item if part is not None)
    number: int = item.number
    return number


def key_by(modulus: int) -> Callable[[Any], int]:
    def rest(item: Any) -> int:
        return value_of(item) % modulus

    return rest


# --- windows ------------------------------------------------------------------------------------------------

AGGREGATES: dict[str, Callable[[list[int]], int]] = {
    "count": len,
    "total": sum,
    "max": max,
    "min": min,
    "distinct_count": lambda values: len(set(values)),
}


def _aggregated(windows: Any, name: str) -> Any:
    return windows.count() if name == "count" else getattr(windows, name)(value_of)


def _row(key: Any, start: int, end: int, value: Any) -> Row:
    """A window's result: its bounds enclose it in whole seconds, its time is its last microsecond."""
    shown = -(-end // SECOND)
    return Windowed(key, start // SECOND, shown, value), shown * SECOND - 1


def grid(rng: Random, of: Both, _: Both) -> Both:
    size, every = rng.choice([(4, 4), (4, 1), (6, 3), (6, 6), (12, 12), (12, 6), (12, 3)])
    modulus, name = rng.choice([1, 2, 3]), rng.choice([*AGGREGATES, "top"])
    shape = fs.tumbling(f"{size}s") if size == every else fs.sliding(f"{size}s", every=f"{every}s")
    key, panes = (
        key_by(modulus),
        defaultdict[tuple[int, int], dict[int, list[int]]](lambda: defaultdict(list)),
    )
    for item, time in of.rows:
        for start in range(time // SECOND // every * every, time // SECOND - size, -every):
            panes[start * SECOND, (start + size) * SECOND][key(item)].append(value_of(item))
    windows = of.stream.window(shape, key=key)
    told = f"{of.name}.{name}({size}/{every}, {modulus})"
    if name == "top":
        most = rng.choice([1, 2, 3])
        rows = [
            _row(None, *bounds, tuple(sorted(counts, key=lambda pair: (-pair[1], pair[0]))[:most]))
            for bounds, keys in panes.items()
            for counts in [[(key, len(values)) for key, values in keys.items()]]
        ]
        return Both(windows.top(most, by=fs.size), rows, told)
    rows = [
        _row(key, *bounds, AGGREGATES[name](values))
        for bounds, keys in panes.items()
        for key, values in keys.items()
    ]
    return Both(_aggregated(windows, name), rows, told)


def session(rng: Random, of: Both, _: Both) -> Both:
    gap, modulus, name = rng.choice([1, 3, 7, 20]), rng.choice([1, 2, 3]), rng.choice([*AGGREGATES])
    key, keys = key_by(modulus), defaultdict[int, list[tuple[int, int]]](list)
    for item, time in of.rows:
        keys[key(item)].append((time, value_of(item)))
    rows = [
        _row(key, its[0][0], its[-1][0] + gap * SECOND, AGGREGATES[name]([value for _, value in its]))
        for key, items in keys.items()
        for its in _silences(sorted(items), gap * SECOND)
    ]
    windows = of.stream.window(fs.session(f"{gap}s"), key=key)
    return Both(_aggregated(windows, name), rows, f"{of.name}.session({gap}, {modulus}).{name}")


def _silences(items: list[tuple[int, int]], gap: int) -> Iterator[list[tuple[int, int]]]:
    """Items in order, parted where none comes for `gap`."""
    part: list[tuple[int, int]] = []
    for item in items:
        if part and item[0] >= part[-1][0] + gap:
            yield part
            part = []
        part.append(item)
    yield part


# --- joins --------------------------------------------------------------------------------------------------


def join(rng: Random, left: Both, right: Both) -> Both:
    low, high = sorted(rng.choices([-6, -2, 0, 1, 5, 8], k=2))
    modulus, how = rng.choice([2, 3, 5]), rng.choice(["inner", "left", "full"])
    key, rows, met = key_by(modulus), list[Row](), set[int]()
    for item, time in left.rows:
        found = [
            (number, other, its)
            for number, (other, its) in enumerate(right.rows)
            if key(item) == key(other) and low * SECOND <= its - time <= high * SECOND
        ]
        rows += [((item, other), max(time, its)) for _, other, its in found]
        met.update(number for number, _, _ in found)
        if not found and how != "inner":
            rows.append(((item, None), time + max(0, high * SECOND)))
    if how == "full":
        alone = (row for number, row in enumerate(right.rows) if number not in met)
        rows += [((None, other), time + max(0, -low * SECOND)) for other, time in alone]
    stream = left.stream.join(right.stream, on=key, within=(f"{low}s", f"{high}s"), how=how)
    return Both(stream, rows, f"join({left.name}, {right.name}, {low}, {high}, {modulus}, {how})")


def latest(rng: Random, left: Both, right: Both) -> Both:
    modulus, how = rng.choice([2, 3]), rng.choice(["inner", "left"])
    key, versions = key_by(modulus), defaultdict[int, dict[int, Any]](dict)
    for item, time in right.rows:
        if time in versions[key(item)]:  # the last that came holds: which one is that?
            return left
        versions[key(item)][time] = item
    rows = list[Row]()
    for item, time in left.rows:
        its = sorted(versions[key(item)])
        place = bisect_right(its, time)
        if place or how == "left":
            rows.append(((item, versions[key(item)][its[place - 1]] if place else None), time))
    stream = left.stream.join_latest(right.stream, on=key, how=how)
    return Both(stream, rows, f"latest({left.name}, {right.name}, {modulus}, {how})")


# --- graphs -------------------------------------------------------------------------------------------------


def filtered(rng: Random, of: Both, _: Both) -> Both:
    key = key_by(rng.choice([2, 3]))
    rows = [row for row in of.rows if key(row[0])]
    return Both(of.stream.filter(key), rows, f"{of.name}.filter")


MAKERS = (filtered, grid, grid, session, join, join, latest)
MOST = 2000
"""Rows of a stream that others are made of."""


def readings(rng: Random) -> list[Reading]:
    """Records of a source in the order of their times."""
    at, made = 0, list[Reading]()
    for _ in range(rng.randrange(25)):
        at += rng.choice([0, 0, 1, 1, 2, 3, 15])
        made.append(Reading(rng.randrange(10), at))
    return made


@dataclass(frozen=True, slots=True)
class Composition:
    """A graph and its input, and what each sink has to have."""

    graph: fs.Graph
    records: list[tuple[str, Reading]]
    wanted: dict[str, Counter[str]]
    """Items by their text; a sink of late items has none."""
    names: dict[str, str]

    @classmethod
    def random(cls, seed: int) -> "Composition":
        rng = Random(seed)
        graph = fs.Graph("composed", step=rng.choice(["500ms", "1s", "2s"]), shards=rng.choice([1, 3, 8]))
        late, inputs, streams = rng.choice([0, 2, 5, 10]), dict[str, list[Reading]](), list[Both]()
        for name in [f"s{number}" for number in range(rng.choice([1, 2, 3]))]:
            stream = graph.source(name, Reading, at="at", unit="s", late=f"{late}s")
            made = readings(rng)
            # None is further behind than `late`.
            inputs[name] = sorted(made, key=lambda each: each.at + rng.uniform(0, 0.99 * late))
            streams.append(Both(stream, [(each, each.at * SECOND) for each in made], name))
            stream.sink(f"all-{name}")
        added = _added(rng, streams)
        wanted = {f"all-{name}": _texts(item for item in its) for name, its in inputs.items()}
        for number, both in enumerate(added):
            both.stream.sink(f"o{number}")
            wanted[f"o{number}"] = _texts(item for item, _ in both.rows)
            if hasattr(type(both.stream), "late"):
                both.stream.late.sink(f"late{number}")
                wanted[f"late{number}"] = Counter()
        names = {f"o{number}": both.name for number, both in enumerate(added)}
        return cls(graph, list(_entering(rng, inputs)), wanted, names)


def _added(rng: Random, streams: list[Both]) -> list[Both]:
    """Streams made of those that there are, one of another."""
    added, small = list[Both](), list(streams)
    for _ in range(rng.randrange(1, 6)):
        of, other = rng.choice(small), rng.choice(small)
        made = rng.choice(MAKERS)(rng, of, other)
        if made is not of:
            added.append(made)
            small += [made] if len(made.rows) < MOST else []
    return added


def _entering(rng: Random, inputs: dict[str, list[Reading]]) -> Iterator[tuple[str, Reading]]:
    """Records of all sources, those of each in their order."""
    left = {name: list(its) for name, its in inputs.items() if its}
    while left:
        name = rng.choice(list(left))
        yield name, left[name].pop(0)
        left = {name: its for name, its in left.items() if its}


def _texts(items: Any) -> Counter[str]:
    return Counter(map(repr, items))
