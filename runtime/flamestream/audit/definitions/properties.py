"""Properties: definitions 9 and 10, of a graph's functions on the items of a history.

Both are tried on what there was and can be shown to be broken or not: that a swap changes something is a
proof, that none did is not one.

Keeps: bounded, by pairs a door and by records. Does not: look at the output of a system.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any, Final

from flamestream.audit.definitions.records import Fronts, Record, doors_of, entered
from flamestream.model.failure import shortened
from flamestream.model.graph import Graph
from flamestream.model.payloads.exact import exact
from flamestream.model.vertex import Vertex
from flamestream.reference import End, State, Walk

PAIRS: Final = 1000
"""Neighbours of a key that are swapped, a door."""
SWAPPED: Final = 100_000
"""Records whose items are looked at for it."""
TWICE: Final = 10_000
"""Records that are interpreted twice."""
SHOWN: Final = 80
"""Characters of an item in words."""
Bucket = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class Swap:
    """The outcome of swapping neighbours."""

    tried: int
    door: str = ""
    """The first vertex with state where that changed what came out; "": nowhere."""
    kind: str = ""
    first: str = ""
    second: str = ""
    """The two items."""


def swapped(
    graph: Graph, records: Iterable[Record], fronts: Fronts | None = None, state: State | None = None
) -> Swap:
    """Swap neighbours of a key at each door, up to the first swap that changes what comes out or what is
    kept."""
    last: dict[Bucket, tuple[Mapping[Bucket, Any], End]] = {}
    tried: Counter[int] = Counter()
    doors = doors_of(graph)
    for bucket, before, end in _at_doors(graph, islice(records, SWAPPED), fronts, state):
        vertex = graph.vertices[bucket[0]]
        if tried[vertex.id] < PAIRS:
            behind = last.get(bucket)
            if behind is not None and exact(behind[1].payload) != exact(end.payload):
                tried[vertex.id] += 1
                if _matters(graph, fronts, *behind, end):
                    return Swap(
                        tried.total(),
                        vertex.name,
                        vertex.kind.value,
                        shortened(behind[1].payload, SHOWN),
                        shortened(end.payload, SHOWN),
                    )
            last[bucket] = (before, end)
        elif all(tried[door] >= PAIRS for door in doors):
            break
    return Swap(tried.total())


def differs_twice(
    graph: Graph, records: Iterable[Record], fronts: Fronts | None = None, state: State | None = None
) -> tuple[int, str]:
    """Interpret the first records twice. How many records those were, and the first result that differs, in
    words ("": none does)."""
    some = list(islice(records, TWICE))
    runs = (_results(graph, some, fronts, state) for _ in range(2))
    for first, second in zip_longest(*runs):
        if first is None or second is None:
            return len(some), "more results, then fewer"
        if (first.vertex, exact(first.payload)) != (second.vertex, exact(second.payload)):
            return len(some), f"{shortened(first.payload, SHOWN)}, then {shortened(second.payload, SHOWN)}"
    return len(some), ""


def _results(
    graph: Graph, records: Iterable[Record], fronts: Fronts | None, state: State | None
) -> Iterator[End]:
    sources = _sources(graph)
    walk = Walk(graph, state, fronts=fronts)
    for record in records:
        yield from entered(walk, sources, record)


def _at_doors(
    graph: Graph, records: Iterable[Record], fronts: Fronts | None, state: State | None
) -> Iterator[tuple[Bucket, Mapping[Bucket, Any], End]]:
    """Each item at each door that it comes to, with the state of its key before it."""
    doors, sources = doors_of(graph), _sources(graph)
    walk = Walk(graph, state, doors, fronts)
    for record in records:
        todo = entered(walk, sources, record)[::-1]
        while todo:
            end = todo.pop()
            if end.vertex in doors:
                door = graph.vertices[end.vertex]
                bucket = (door.id, walk.key_at(door, end.payload))
                yield bucket, {bucket: walk.state[bucket]} if bucket in walk.state else {}, end
                todo += walk.follow(door, end.meta, end.depth, end.payload)[::-1]


def _matters(graph: Graph, fronts: Fronts | None, before: Mapping[Bucket, Any], one: End, other: End) -> bool:
    """Whether two items of a key do something else in the other order."""
    return _done(graph, fronts, before, one, other) != _done(graph, fronts, before, other, one)


def _done(
    graph: Graph, fronts: Fronts | None, before: Mapping[Bucket, Any], *items: End
) -> tuple[Counter[Hashable], list[Hashable]]:
    """Results of items of a key, as a multiset, and the state that they leave."""
    walk = Walk(graph, before, doors_of(graph), fronts)
    out: Counter[Hashable] = Counter()
    for item in items:
        assert item.vertex is not None, "it stands at a door"
        for end in walk.follow(graph.vertices[item.vertex], item.meta, item.depth, item.payload):
            out[end.vertex, exact(end.payload)] += 1
    return out, [exact(value) for value in walk.state.values()]


def _sources(graph: Graph) -> dict[str, Vertex]:
    return {vertex.name: vertex for vertex in graph.sources}
