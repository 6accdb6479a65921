"""Passage: one item's way through a transactional subgraph, as the function of a transaction.

    opened -> flat_map -> fold "balances" -> fold "tellers" -> closed
    (state, Transfer("ann", "bob", 4))   rows of balances and tellers;  what has come to the end

Each fold of the subgraph keeps its accumulators in rows of a table that has its name. The walk is depth first, each
result down each way before the next one: the total order of items, as outside.

Keeps: where nothing is aborted, folds and results are those of the same operations outside of a transaction. Does
not: say what may stand in a subgraph (subgraph.py).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from flamestream.model.errors import too_many_results
from flamestream.model.failure import blame, called
from flamestream.model.tables.transaction import State
from flamestream.model.vertex import Function, Kind, Vertex, name_of


@dataclass(frozen=True, slots=True)
class OverRows:
    """An operation of a subgraph that is given the rows of all tables beside its item."""

    function: Function

    @property
    def written(self) -> str:
        """For messages and plans."""
        return name_of(self.function)

    def __call__(self, state: State, item: Any) -> Any:
        return called(self.function, state, item)


@dataclass(eq=False, slots=True)
class Passage:
    """(state, item) -> all that has come to the end, in order. Raises what the users' functions raise, blamed on
    them, and ResultLimit for more than `most` results of all operations together."""

    vertices: list[Vertex]
    """The first is where items enter, the last one where they come out."""
    most: int

    @property
    def written(self) -> str:
        """For messages and plans."""
        return f"transaction({', '.join(_shown(vertex) for vertex in self.vertices[1:-1])})"

    def __call__(self, state: State, item: Any) -> tuple[Any, ...]:
        last, found, room = self.vertices[-1].id, list[Any](), self.most
        waiting = [(0, item)]
        while waiting:
            at, payload = waiting.pop()
            if at == last:
                found.append(payload)
                continue
            vertex = self.vertices[at]
            results = list(islice(self._results(vertex, state, payload), room + 1))
            room -= len(results)
            if room < 0:
                raise too_many_results(self.most)
            waiting += [(end, result) for result in reversed(results) for end in reversed(vertex.outputs)]
        return tuple(found)

    def _results(self, vertex: Vertex, state: State, item: Any) -> Iterable[Any]:
        function = vertex.function
        match vertex.kind:
            case Kind.MAP if isinstance(function, OverRows):
                return (function(state, item),)
            case Kind.MAP:
                return (called(_of(function), item),)
            case Kind.FLAT_MAP:
                return _each(_of(function), item)
            case Kind.FILTER:
                return (item,) if called(_of(function), item) else ()
            case Kind.GROUPING | Kind.REDUCE:
                return (_folded(vertex, state, item),)
        return (item,)


def _folded(vertex: Vertex, state: State, item: Any) -> Any:
    """The result of a fold for an item, whose row has changed."""
    row = vertex.given, called(_of(vertex.key), item)
    before = state[row]
    if vertex.kind is Kind.GROUPING:
        state[row] = last = (*before, item)[-vertex.window :]
        return last
    state[row] = after = called(_of(vertex.combine), before, item)
    return after if vertex.emit is None else called(vertex.emit, after, item)


def _each(function: Function, item: Any) -> Iterator[Any]:
    """The results of a flat_map, one after the other: a generator may raise at any."""
    results, end = iter(called(function, item)), object()
    try:
        while (result := next(results, end)) is not end:
            yield result
    except Exception as error:
        raise blame(function, error, item) from error


def _of(function: Function | None) -> Function:
    assert function is not None, "the graph's builder gives every operation its functions"
    return function


def _shown(vertex: Vertex) -> str:
    return vertex.given or vertex.name
