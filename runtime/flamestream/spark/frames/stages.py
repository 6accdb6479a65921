"""Stages: how a graph is cut into DataFrame jobs.

What needs no state runs where the item is. A stage is a keyed vertex (a grouping or a reduce), or several
that one cycle holds together: it wants all items of a key in one place and in the order of metas, which is
one shuffle. Stages that do not feed each other share one.

    source -> flat_map -> reduce A -> map -> reduce B -> sink
    level 0: source, flat_map   1: A, map   2: B   3: the sink

A cycle without a keyed vertex is a walk inside one task. A cycle with keyed vertices is a walk inside one
key, if what comes round has the key that it left with: then no other key can matter to it. If the keys
differ, an item's place among those of another key is only known when that key is done, and the other way
round; no order of whole keys is right, so such a cycle is refused. Two key functions in one cycle are refused
before anything runs; one function that gives another key in the middle of a round is found out by keyed.py.

>>> graph = Graph("count")
>>> graph.source("words").reduce(key=str, initial=int, combine=lambda n, w: n + 1).sink("counts")
>>> stages_of(graph).levels
{1: 1}

Keeps: everything that can reach a stage from outside is of a lower level. Does not: run anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flamestream.model.errors import GraphError
from flamestream.model.graph import Graph
from flamestream.model.vertex import Kind, name_of

KEYED = (Kind.GROUPING, Kind.REDUCE)


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a graph and their levels."""

    of: Mapping[int, int]
    """Keyed vertex -> its stage, called like its first keyed vertex."""
    levels: Mapping[int, int]
    """Stage -> its level, from 1."""
    cyclic: frozenset[int]
    """Stages whose results may come back to them."""

    @property
    def depth(self) -> int:
        """The number of shuffles before the sinks'."""
        return max(self.levels.values(), default=0)

    def at(self, level: int) -> list[int]:
        """The stages of a level."""
        return sorted(stage for stage, its in self.levels.items() if its == level)


def stages_of(graph: Graph) -> Stages:
    """The stages of a validated graph. Raises GraphError that says why if whole keys cannot be done one after
    another."""
    components = _components(graph)
    of: dict[int, int] = {}
    cyclic = set()
    for component in components:
        keyed = sorted(v for v in component if graph.vertices[v].kind in KEYED)
        if keyed:
            of.update(dict.fromkeys(keyed, keyed[0]))
            if len(component) > 1:
                _check_cycle(graph, component, keyed)
                cyclic.add(keyed[0])
    return Stages(of, _levels(graph, components, of), frozenset(cyclic))


def _check_cycle(graph: Graph, component: Sequence[int], keyed: Sequence[int]) -> None:
    first, *others = (graph.vertices[v] for v in keyed)
    loops = ", ".join(repr(graph.vertices[v].name) for v in component if graph.vertices[v].kind is Kind.LOOP)
    for other in others:
        if other.key is not first.key:
            assert first.key is not None and other.key is not None, (
                "the graph's builder gives every keyed vertex its key"
            )
            raise GraphError(
                f"graph {graph.name!r} cannot run as Spark batches: loop {loops} goes through operations "
                "with different keys "
                f"({name_of(first.key)} and {name_of(other.key)}), and batches finish one key before they "
                "look at the next. "
                "Run it with the streaming runner, or give the operations in the loop one key function"
            )
        if other.balance is not first.balance:
            raise GraphError(
                f"graph {graph.name!r} cannot run as Spark batches: loop {loops} goes through operations "
                "that are balanced by different "
                "functions, so one key's work would be in two places. Give them one balancing function, or "
                "use the streaming runner"
            )


def _levels(graph: Graph, components: list[list[int]], of: Mapping[int, int]) -> dict[int, int]:
    """Longest ways from the sources, counted in stages. `components` are in topological order."""
    entered = dict.fromkeys(range(len(graph.vertices)), 0)
    levels: dict[int, int] = {}
    for component in components:
        members = set(component)
        level = max(entered[v] for v in component)
        stage = next((of[v] for v in component if v in of), None)
        if stage is not None:
            level += 1
            levels[stage] = level
        for v in component:
            for target in graph.vertices[v].outputs:
                if target not in members:
                    entered[target] = max(entered[target], level)
    return levels


def _components(graph: Graph) -> list[list[int]]:
    """Strongly connected components in topological order (Tarjan's algorithm, with a stack of its own)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    # a stack (popitem takes the last) that knows at once what is in it
    on_stack: dict[int, None] = {}
    found: list[list[int]] = []
    for start in range(len(graph.vertices)):
        if start in index:
            continue
        todo = [(start, 0)]
        while todo:
            v, edge = todo.pop()
            if edge == 0:
                index[v] = low[v] = len(index)
                on_stack[v] = None
            outputs = graph.vertices[v].outputs
            if edge > 0:
                low[v] = min(low[v], low[outputs[edge - 1]]) if outputs[edge - 1] in on_stack else low[v]
            while edge < len(outputs) and outputs[edge] in index:
                if outputs[edge] in on_stack:
                    low[v] = min(low[v], index[outputs[edge]])
                edge += 1
            if edge < len(outputs):
                todo += [(v, edge + 1), (outputs[edge], 0)]
            elif low[v] == index[v]:
                component: list[int] = []
                while not component or component[-1] != v:
                    component.append(on_stack.popitem()[0])
                found.append(component)
    # a component is found behind all that it leads to
    return found[::-1]
