"""Entrances: where the runs of sources with event time enter a worker, and how far those sources have come.

Does not: decide anything by that: progress is items (model/event_time.py).
"""

from collections.abc import Iterable, Sequence

from flamestream.core.protocol.events import Entry
from flamestream.core.protocol.settings import WorkerSettings
from flamestream.model.event_time import END_OF_TIME, entrance
from flamestream.model.graph import Graph
from flamestream.model.ids import SourceName
from flamestream.model.time import FrontId, front_of


class Entrances:
    """Those of a graph."""

    def __init__(self, graph: Graph, settings: WorkerSettings) -> None:
        names = {front.front: front.source for front in settings.fronts}
        self._doors = {front: door for front in names if (door := entrance(graph, front, names)) is not None}
        self.timings = {SourceName(vertex.name): vertex.timing for vertex in graph.sources if vertex.timing is not None}
        """Of the sources with event time."""

    def entering(self, entry: Entry, payloads: Sequence[object]) -> Sequence[object]:
        """The records of a run as they enter."""
        door = self._doors.get(front_of(entry.time))
        return payloads if door is None else door.entering(entry.partition, payloads)

    def event_times(self, fronts: Iterable[FrontId]) -> dict[SourceName, int | None]:
        """How far the last of these fronts has come, by source; None: one has told nothing."""
        told: dict[SourceName, int | None] = {}
        for door in (self._doors[front] for front in fronts if front in self._doors):
            before = told.get(SourceName(door.source), END_OF_TIME)
            told[SourceName(door.source)] = None if before is None or door.newest is None else min(before, door.newest)
        return told
