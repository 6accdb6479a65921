"""Origins: where the items of a batch came from, for its error items, as the streaming engine tells it
(core/worker/worker.py).

Keeps: the partition and offset of a record are told by the operations that stand before any door, and by no
other. Does not: know them itself: runs bring theirs (`core.worker.front.RunRecords`).
"""

from collections.abc import Mapping
from typing import Any

from flamestream.model.entrances import Entrances, partition_of
from flamestream.model.failure import located
from flamestream.model.graph import Graph
from flamestream.model.meta import Meta, child, first_component, time_of_meta
from flamestream.model.payload import ErrorValue
from flamestream.model.time import FrontId, front_of


class Origins:
    """Where the items of one task came from."""

    def __init__(self, graph: Graph, sources: Mapping[FrontId, str] | None = None) -> None:
        """`sources`: by front; without it, front `i` stamps for the graph's source number `i`."""
        self._run: list[Any] = []
        """The records that are entering."""
        self._graph, self._near = graph, graph.near
        self._sources = sources or {
            FrontId(number): vertex.name for number, vertex in enumerate(graph.sources)
        }
        self._entrances = Entrances(graph, self._sources)

    def entering(self, start: bytes, first: int, records: list[Any]) -> list[Any]:
        """The records of a run, the first of which is child `first` of `start`; what could not be read says
        where it is."""
        self._run = records
        records = self._entrances.entering(time_of_meta(Meta(start)), partition_of(records), records)
        if not any(type(record) is ErrorValue for record in records):
            return records
        return [
            self._unreadable(child(Meta(start), index), record) if type(record) is ErrorValue else record
            for index, record in enumerate(records, first)
        ]

    def located(self, vertex: int, meta: Meta, error: ErrorValue, at_door: bool) -> ErrorValue:
        """`error` with the origin of its item, which failed in `vertex`, or at the door to it."""
        near = vertex in self._near and (at_door or not self._graph.vertices[vertex].routed)
        return located(
            error, self._source(meta), self._place(first_component(meta)) if near else None, vertex
        )

    def _unreadable(self, meta: Meta, error: ErrorValue) -> ErrorValue:
        return located(error, self._source(meta), self._place(first_component(meta)))

    def _source(self, meta: Meta) -> str:
        return self._sources.get(front_of(time_of_meta(meta)), "")

    def _place(self, index: int) -> tuple[str, int] | None:
        record = getattr(self._run, "record", None)
        return None if record is None else record(index)
