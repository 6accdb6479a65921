"""Stored rows: which vertex of the graph each row of a snapshot is of, and which number a vertex's rows have.

Keeps: a row counts if the snapshot's index lists its number, and the row is not older than that operation
(!): of one that was dropped, rows stay in segments that others need. Does not: compare graphs (inventory.py).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from flamestream.core.protocol.chain import Chain, Row
from flamestream.core.protocol.inventory import listed
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.model.graph import Graph
from flamestream.model.state_names import LEAST_NUMBER, Operation, number_of_sink


class Numbers:
    """The numbers of one graph's operations and sinks, by vertex. Picklable."""

    def __init__(self, graph: Graph, others: Mapping[int, str] = {}) -> None:
        """`others`: sinks that are no vertices, as that of error items."""
        sinks = {vertex.id: vertex.stored_as for vertex in graph.sinks}
        self.of_states: Final = {_place(each): each.number for each in graph.operations}
        self.of_sinks: Final = {vertex: number_of_sink(name) for vertex, name in {**sinks, **others}.items()}
        self.kept: Final = frozenset(self.of_states.values())
        self._operations = graph.operations
        # Of productions also under the names that older releases gave them.
        placed = {number_of_sink(vertex.placed): vertex.id for vertex in graph.sinks if vertex.placed}
        self._sinks = {**placed, **{number: vertex for vertex, number in self.of_sinks.items()}}

    def known(self, index: SnapshotIndex | None) -> dict[int, Operation]:
        """The operations that a snapshot has rows of, by vertex; each as the index has it."""
        if index is None or index.inventory is None:
            return self.of_all()
        known = listed(index)
        return {_place(each): known[each.number] for each in self._operations if each.number in known}

    def of_all(self) -> dict[int, Operation]:
        """All operations by vertex, where rows may have their places for numbers."""
        return {_place(each): each for each in self._operations}

    def of_sink(self, number: int) -> int | None:
        """The vertex of a number in held output or requests; None: it is no more."""
        return number if number < LEAST_NUMBER else self._sinks.get(number)

    def rows_of_sinks(self, rows: Iterable[Row]) -> list[Row]:
        """Rows that a snapshot is to hold for sinks, which are by vertex, with their numbers."""
        return [Row(self.of_sinks[row.operation], *row[1:]) for row in rows]

    def for_sinks(self, chains: Iterable[Chain]) -> list[Chain]:
        """Chains that a snapshot holds for sinks, each by its vertex."""
        found = ((self.of_sink(chain.operation), chain) for chain in chains)
        return [Chain(vertex, *chain[1:]) for vertex, chain in found if vertex is not None]


def states_of(chains: Iterable[Chain], known: Mapping[int, Operation]) -> dict[int, list[Chain]]:
    """The states in a snapshot by vertex, of each key one chain; `known` is the snapshot's (`Numbers`)."""
    found: dict[int, list[Chain]] = {}
    for chain in chains:
        found.setdefault(chain.operation, []).append(chain)
    states = {}
    for vertex, each in known.items():
        newer = [chain for chain in found.get(each.number, ()) if chain.epoch >= each.since]
        older = [] if each.place is None else found.get(each.place, [])
        if newer or older:
            states[vertex] = _joined(newer, older)
    return states


def numbered(number: int, rows: Iterable[Row | None]) -> Iterator[Row | None]:
    """Rows of one vertex, with its number."""
    for row in rows:
        yield None if row is None else Row(number, *row[1:])


def _joined(newer: list[Chain], older: list[Chain]) -> list[Chain]:
    """Chains of the same keys, of rows that have a number and of older ones that have a place."""
    if not (newer and older):
        return newer or older
    before = {chain.key: chain for chain in older}
    return [*(chain.behind(before.pop(chain.key, None)) for chain in newer), *before.values()]


def _place(operation: Operation) -> int:
    assert operation.place is not None, "it is of a graph"
    return operation.place
