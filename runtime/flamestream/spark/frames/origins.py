"""Origins: where the items of a batch came from, for its error items, as the streaming engine tells it (core/worker/worker.py).

Keeps: the partition and offset of a record are told by the operations that stand before any door, and by no other. Does not: know them
itself: runs bring theirs (`core.worker.front.RunRecords`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from flamestream.model.failure import located
from flamestream.model.graph import Graph
from flamestream.model.meta import Meta, first_component, time_of_meta
from flamestream.model.payload import ErrorValue
from flamestream.model.time import FrontId, front_of


class Origins:
    """One task's."""

    def __init__(self, graph: Graph, sources: Mapping[FrontId, str] | None = None) -> None:
        """`sources`: by front; without it, front `i` stamps for the graph's source number `i`."""
        self.run: Sequence[Any] = ()
        """The records that are entering."""
        self._graph, self._near = graph, graph.near
        self._sources = sources or {FrontId(number): vertex.name for number, vertex in enumerate(graph.sources)}

    def located(self, vertex: int, meta: Meta, error: ErrorValue, at_door: bool) -> ErrorValue:
        """Of an item that failed in `vertex`, or at the door to it."""
        near = vertex in self._near and (at_door or not self._graph.vertices[vertex].routed)
        return located(error, self._source(meta), self._place(first_component(meta)) if near else None, vertex)

    def unreadable(self, meta: Meta, error: ErrorValue) -> ErrorValue:
        """Of a record that its source could not read."""
        return located(error, self._source(meta), self._place(first_component(meta)))

    def _source(self, meta: Meta) -> str:
        return self._sources.get(front_of(time_of_meta(meta)), "")

    def _place(self, index: int) -> tuple[str, int] | None:
        record = getattr(self.run, "record", None)
        return None if record is None else record(index)
