"""The timeline of a run whose code is changed: one graph after another, each from its tick on.

An operation of the next graph begins with the state of the one of its name, made its version's at once; the
rest begins empty. Does not: know when runs enter (oracle.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from flamestream.model.graph import Graph
from flamestream.model.meta import Meta
from flamestream.model.tables.ledger import completed
from flamestream.model.time import FrontId, Time
from flamestream.model.vertex import Kind, Vertex
from flamestream.reference import State, Walk

Tick = tuple[Time, Graph]


class Timeline:
    """The graphs of a run, which `tick` adds to while it goes on."""

    def __init__(self, first: Graph, fronts: Mapping[FrontId, str]) -> None:
        self.first, self.fronts = first, fronts
        self.ticks: list[Tick] = []

    def tick(self, time: Time, graph: Graph) -> None:
        """Runs at or above `time` are of this graph. One that was to be theirs has never run (oracle.py), and has
        made nothing of any state."""
        if self.ticks and self.ticks[-1][0] == time:
            self.ticks.pop()
        self.ticks.append((time, graph))

    @property
    def graph(self) -> Graph:
        """The newest."""
        return self.ticks[-1][1] if self.ticks else self.first


class Walked:
    """The reference interpreter along a timeline."""

    def __init__(self, line: Timeline) -> None:
        self.graph = line.first
        self._line, self._walk, self._made = line, Walk(line.first, fronts=line.fronts), 0
        self._before: tuple[Graph, State] = line.first, {}
        """The graph and the state before the newest tick that was made."""
        self._newest: Tick | None = None

    @property
    def errors(self) -> str:
        """The name that error items have in results."""
        return self._walk.errors

    @property
    def state(self) -> State:
        """The state behind the newest run."""
        return self._walk.state

    @state.setter
    def state(self, state: State) -> None:
        self._walk.state = dict(state)

    def run(self, front: FrontId, time: Time, records: Sequence[Any]) -> list[tuple[str, Meta, Any]]:
        """The items of a run that reach a sink, by the graph of its time."""
        source = self.sources(time)[self._line.fronts[front]]
        return self._walk.run(source, time, records)

    def sources(self, time: Time) -> Mapping[str, Vertex]:
        """The sources that the graph has at `time`, by name."""
        self._go_to(time)
        return {vertex.name: vertex for vertex in self.graph.sources}

    def state_at(self, cut: Time) -> State:
        """The state below `cut`, as the graph of then has it; behind the last run before."""
        self._go_to(cut)
        return self._walk.state

    def _go_to(self, time: Time) -> None:
        if self._made and self._line.ticks[self._made - 1] is not self._newest:  # another took its place
            self.graph, state = self._before
            self._walk, self._made = Walk(self.graph, state, fronts=self._line.fronts), self._made - 1
        while self._made < len(self._line.ticks) and self._line.ticks[self._made][0] <= time:
            self._newest, self._before = self._line.ticks[self._made], (self.graph, self._walk.state)
            before, self.graph = self.graph, self._newest[1]
            places = {each.number: each.place for each in self.graph.operations}
            moved = {each.place: places.get(each.number) for each in before.operations}
            state = {
                (place, key): migrated(self.graph.vertices[place], value, before.vertices[vertex].version)
                for (vertex, key), value in self._walk.state.items()
                if (place := moved.get(vertex)) is not None
            }
            self._walk = Walk(self.graph, completed(self.graph, state), fronts=self._line.fronts)
            self._made += 1


def migrated(vertex: Vertex, state: Any, version: int) -> Any:
    """A state of a version as an operation of another has it."""
    for old in range(version, vertex.version):
        up = vertex.migrate[old]
        state = tuple(map(up, state)) if vertex.kind is Kind.GROUPING else up(state)
    return state
