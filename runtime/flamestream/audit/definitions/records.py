"""Records of any system, or of a run of ours, as they enter a graph; and the graph's doors.

A door is a vertex with state. Up to the first doors an item's way depends on the item alone.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, NamedTuple

from flamestream.audit.definitions.steps import Result
from flamestream.model.graph import Graph
from flamestream.model.meta import Meta
from flamestream.model.time import FrontId
from flamestream.model.vertex import Kind, Vertex
from flamestream.reference import End, Walk

STATEFUL: Final = frozenset({Kind.GROUPING, Kind.REDUCE})
Outlet = Callable[[Vertex | None, Any], Result | None]
"""Where a sink's payload comes out, and as which value; None: nobody sees it. For a vertex of None the
payload is an error item."""
Fronts = Mapping[FrontId, str]
"""The source that each front stamps for."""


class Record(NamedTuple):
    """A record."""

    place: int
    partition: Hashable
    source: str
    meta: Meta
    value: Any
    at: tuple[str, int] | None = None
    """Partition and offset at its source, if they are known."""


class Emitted(NamedTuple):
    """A result that was seen."""

    place: int
    to: Hashable
    value: Hashable


def doors_of(graph: Graph) -> frozenset[int]:
    """The ids of its vertices with state."""
    return frozenset(vertex.id for vertex in graph.vertices if vertex.kind in STATEFUL)


def sink_of(graph: Graph, end: End) -> Vertex | None:
    """The sink that an item has come to; None for an error item."""
    return None if end.vertex is None else graph.vertices[end.vertex]


def entered(walk: Walk, sources: Mapping[str, Vertex], record: Record) -> list[End]:
    """Where a record comes to at first."""
    return walk.enter(sources[record.source], record.meta, record.value, record.at)
