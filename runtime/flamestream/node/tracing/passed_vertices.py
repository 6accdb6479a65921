"""Passed vertices: which ones an item passes on one worker, in words, and what an item takes at each.

An item is not timed: two readings of a clock would cost more than many a vertex. The worker's meter samples (of so
many entrances one, core/dataflow/meter.py), and the mean of its last report stands for the item. A vertex without a
door is timed with the door, or the source, before it.

Keeps: words are made once for each place and report. Does not: measure.
"""

from collections.abc import Callable, Mapping, Sequence

from flamestream.core.protocol.messages import Operation
from flamestream.model.graph import Graph
from flamestream.model.ids import SourceName
from flamestream.model.vertex import Kind
from flamestream.node.tracing.span import Attribute


class PassedVertices:
    """The vertices of one worker's graph. `measured`: what each has done lately, in the order of the graph."""

    def __init__(self, graph: Graph, measured: Callable[[], Sequence[Operation]]) -> None:
        self._graph, self._measured = graph, measured
        self._sources = {vertex.name: vertex.id for vertex in graph.sources}
        self._report: Sequence[Operation] = ()
        self._told: dict[tuple[int, ...], Mapping[str, Attribute]] = {}
        """Attributes by the last report, and by where items came in."""

    def behind(self, source: SourceName) -> Mapping[str, Attribute]:
        """From a source to where items may leave for another worker."""
        return self.of([self._sources[source]])

    def of(self, vertices: Sequence[int]) -> Mapping[str, Attribute]:
        """From where items came in from another worker."""
        if (report := self._measured()) is not self._report:
            self._report = report
            self._told.clear()
        starts = tuple(sorted(set(vertices)))
        if starts not in self._told:
            self._told[starts] = self._attributes(starts)
        return self._told[starts]

    def _attributes(self, starts: Sequence[int]) -> Mapping[str, Attribute]:
        passed = self._reached(starts, through_doors=False)
        told: dict[str, Attribute] = {"flamestream.vertices": tuple(map(self._name, passed))}
        known = [vertex for vertex in self._reached(starts, through_doors=True) if vertex < len(self._report)]
        times = [
            f"{self._name(vertex)}: {took.recent_us / took.recent_in:.1f}"
            for vertex, took in ((vertex, self._report[vertex]) for vertex in known)
            if took.recent_in and took.recent_us
        ]
        return {**told, "flamestream.vertex_us": tuple(times)} if times else told

    def _name(self, number: int) -> str:
        vertex = self._graph.vertices[number]
        return f"{vertex.kind.value} {vertex.name}"

    def _reached(self, starts: Sequence[int], *, through_doors: bool) -> list[int]:
        """In the order in which they are come to, each once."""
        passed, ahead = dict.fromkeys(starts), list(starts)
        while ahead:
            for output in self._graph.vertices[ahead.pop(0)].outputs:
                vertex = self._graph.vertices[output]
                stops = vertex.routed or vertex.kind is Kind.SINK
                if output not in passed and (through_doors or not stops):
                    passed[output] = None
                    ahead.append(output)
        return list(passed)
