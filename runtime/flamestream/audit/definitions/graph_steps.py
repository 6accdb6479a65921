"""Graph steps: a graph as a function of the items at its doors, and a history of records as one of such
items.

Records are walked to the first doors, where an item goes to the state of one key. What has touched the same
state, or comes out at the same place, is one key of the history: all others have no influence on it.

Keeps: that a key is by itself is looked at in every step, for it was found by the items' order of entering.
Does not: do graphs with event time or calls in another order than theirs (judged_history.py refuses them).
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final, TypeAlias

import immutables

from flamestream.audit.definitions.components import Components
from flamestream.audit.definitions.history import Crashed, Entered, Event, History, Left, Recovered
from flamestream.audit.definitions.records import (
    Emitted,
    Fronts,
    Outlet,
    Record,
    doors_of,
    entered,
    sink_of,
)
from flamestream.audit.definitions.steps import Result
from flamestream.model.errors import UserError
from flamestream.model.graph import Graph
from flamestream.model.payloads.exact import exact
from flamestream.model.vertex import Kind
from flamestream.reference import End, State, Walk

Bucket = tuple[int, bytes]
"""Vertex and canonical key: where state is."""
Kept: TypeAlias = "immutables.Map[Bucket, _Cell]"
_MISSING: Final = object()


class GraphSteps:
    """A graph as steps whose items are ends of walks: at a door, at a sink, or errors. `state`: what is there
    before the first item."""

    def __init__(
        self, graph: Graph, outlet: Outlet, fronts: Fronts | None = None, state: State | None = None
    ) -> None:
        self._graph, self._outlet, self._fronts, self._before = graph, outlet, fronts, state or {}
        self._walk = Walk(graph, fronts=fronts)
        self._keys = Components()

    def initial(self) -> Kept:
        """Nothing but what was there before."""
        return immutables.Map()

    def step(self, state: Kept, value: End) -> tuple[Any, Sequence[Result]]:
        """Through a door, and all that is behind it. Raises UserError if that leads to another key."""
        written = _Written(state, self._before)
        results = self._followed(value, written)
        touched = {self._keys.of(node) for node in (*written.new, *(to for to, _ in results))}
        if len(touched) > 1:
            raise UserError(
                f"graph {self._graph.name!r}: in another order of its items a result comes out under another "
                "key, so keys cannot be judged one by one: give the results without keys"
            )
        for bucket, after in written.new.items():
            state = state.set(bucket, _Cell(after))
        return state, results

    def mark(self, state: Kept) -> Hashable:
        """The state itself: its cells compare by exact forms."""
        return state

    def history(
        self,
        records: Iterable[Record],
        emitted: Iterable[Emitted],
        ended: bool,
        failures: Iterable[Crashed | Recovered] = (),
    ) -> History:
        """The history of the items at the doors, key by key."""
        items = list(self._items(records))
        events: list[Event] = [
            Entered(place, self._keys.of(node), partition, end) for place, partition, end, node in items
        ]
        events += [Left(each.place, self._keys.of(each.to), each.to, each.value) for each in emitted]
        events += failures
        events.sort(key=lambda event: event.place)  # items of a record stay in their order
        return History(events, ended)

    def _items(self, records: Iterable[Record]) -> Iterator[tuple[int, Hashable, End, Hashable]]:
        """Each item at a door in the order of entering, with a node of its key. What leads nowhere is left
        out."""
        sources = {vertex.name: vertex for vertex in self._graph.sources}
        entering = Walk(self._graph, doors=doors_of(self._graph), fronts=self._fronts)
        written = _Written({}, self._before)
        for record in records:
            for end in entered(entering, sources, record):
                written.touched.clear()
                results = self._followed(end, written)
                nodes = [*written.touched, *(to for to, _ in results)]
                if nodes:
                    self._keys.join(nodes)
                    yield record.place, record.partition, end, nodes[0]

    def _followed(self, end: End, state: "_Written") -> list[Result]:
        """Results of an item that goes through the graph; `state` is changed by it."""
        vertex = sink_of(self._graph, end)
        ends = [end]
        if vertex is not None and vertex.kind is not Kind.SINK:
            self._walk.state = state
            ends = self._walk.follow(vertex, end.meta, end.depth, end.payload)
        results = (self._outlet(sink_of(self._graph, each), each.payload) for each in ends)
        return [result for result in results if result is not None]


class _Cell:
    """A value as part of a mark. Its hash is made once, and only if somebody compares."""

    __slots__ = ("_hash", "value")

    def __init__(self, value: Any) -> None:
        self.value, self._hash = value, 0

    def __hash__(self) -> int:
        self._hash = self._hash or hash(exact(self.value))
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Cell):
            return NotImplemented
        if self.value is other.value:
            return True
        return hash(self) == hash(other) and exact(self.value) == exact(other.value)


class _Written(MutableMapping[Bucket, Any]):
    """State that is written beside what it is read from."""

    __slots__ = ("_before", "_below", "new", "touched")

    def __init__(self, below: Mapping[Bucket, _Cell], before: Mapping[Bucket, Any]) -> None:
        self._below, self._before = below, before
        self.new: dict[Bucket, Any] = {}
        self.touched: list[Bucket] = []

    def __getitem__(self, bucket: Bucket) -> Any:
        if (found := self.new.get(bucket, _MISSING)) is not _MISSING:
            return found
        cell = self._below.get(bucket)
        return self._before[bucket] if cell is None else cell.value

    def __setitem__(self, bucket: Bucket, value: Any) -> None:
        self.new[bucket] = value
        self.touched.append(bucket)

    def __delitem__(self, bucket: Bucket) -> None:
        raise AssertionError("a walk takes no state away")

    def __iter__(self) -> Iterator[Bucket]:
        return iter(self.new)

    def __len__(self) -> int:
        return len(self.new)
