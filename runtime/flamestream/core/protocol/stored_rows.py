"""Stored rows: which vertex of the graph each row of a snapshot is of, and which number a vertex's rows have.

Keeps: a row counts if the snapshot's index lists its number, and the row is not older than that operation
(!), or its table: of one that was dropped, rows stay in segments that others need. Does not: compare graphs
(inventory.py).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from flamestream.core.protocol.chain import Chain, Row, older_rows
from flamestream.core.protocol.inventory import listed
from flamestream.core.protocol.snapshot import Inventory, SnapshotIndex
from flamestream.model.errors import UserError
from flamestream.model.graph import Graph
from flamestream.model.payloads.codec import encode
from flamestream.model.payloads.older import OlderMark, know, marks, unkeyed, unmarked
from flamestream.model.payloads.shapes import PayloadClass
from flamestream.model.state_names import LEAST_NUMBER, Operation, number_of_sink, tables_in

NEVER: Final = 1 << 62
"""An epoch that never comes."""
TOGETHER: Final = 512
"""Keys that are looked at together."""


@dataclass(frozen=True, slots=True)
class Known:
    """The contents of a snapshot for a graph: what its rows are of. Picklable."""

    operations: Mapping[int, Operation]
    """Each by its vertex, as the index has it, but for the version, which is that of now."""
    classes: tuple[PayloadClass, ...] = ()
    """As the index has them."""

    def fresh_tables(self, vertex: int) -> list[str]:
        """The tables of an operation, by the names that they are stored by, that the snapshot has not."""
        return [table for table, since in self.operations[vertex].tables if since == NEVER]


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

    def known(self, index: SnapshotIndex | None) -> Known:
        """The contents of a snapshot; all of ours, if it has no names."""
        return self.known_in(None if index is None else index.inventory)

    def known_in(self, inventory: Inventory | None) -> Known:
        """The contents of a snapshot with this inventory; all of ours, if it has no names."""
        if inventory is None:
            return self.of_all()
        known = listed(inventory)
        found = {
            _place(each): replace(
                known[each.number], version=each.version, tables=_tables(each, known[each.number])
            )
            for each in self._operations
            if each.number in known
        }
        return Known(found, unmarked() if inventory.classes is None else inventory.classes)

    def of_all(self) -> Known:
        """All operations, where rows may have their places for numbers."""
        return Known({_place(each): each for each in self._operations}, unmarked())

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


def states_of(chains: Iterable[Chain], known: Known) -> dict[int, list[Chain]]:
    """The states in a snapshot by vertex, of each key one chain; `known` is the snapshot's (`Numbers`).

    Rows of an older version are marked as such (core/dataflow/stored.py). Raises UserError for those that
    cannot be read, and for a key of a class that has changed.
    """
    found: defaultdict[int, list[Chain]] = defaultdict(list)
    for chain in chains:
        found[chain.operation].append(chain)
    states = {}
    know(known.classes)
    older = marks(known.classes)
    for vertex, each in known.operations.items():
        newer = [chain for chain in found.get(each.number, ()) if chain.epoch >= each.since]
        if each.tables:
            newer = _of_tables(newer, each.tables)
        before = [] if each.place is None else found.get(each.place, [])
        if newer or before:
            states[vertex] = _all_marked(_joined(newer, before), each, older)
    return states


def _all_marked(chains: list[Chain], of: Operation, older: Sequence[OlderMark]) -> list[Chain]:
    """The chains, those that are of an older version marked."""
    # (!) For a million keys output stands still meanwhile: hundreds are looked at together, and one by one only
    # where there is something.
    done: list[Chain] = []
    for first in range(0, len(chains), TOGETHER):
        some = chains[first : first + TOGETHER]
        if of.versions or of.version > 1 or _any_older(some, older):
            some = [_marked(chain, of, older) for chain in some]
        done += some
    return done


def _any_older(chains: Sequence[Chain], older: Sequence[OlderMark]) -> bool:
    """Whether something may be of an older shape: what two rows only make together is none."""
    if not older:
        return False
    data = b"".join(part for chain in chains for part in (chain.key, *chain.states))
    return any(mark.data in data for mark in older)


def _marked(chain: Chain, of: Operation, older: Sequence[OlderMark]) -> Chain:
    """The chain, marked if it is of an older version."""
    # The newest row says the version of all (!): a key's first row of a version is full.
    version = of.version_at(chain.epoch)
    shapes = False
    for mark in older:
        if mark.data in chain.key:
            raise UserError(unkeyed(mark.shape, f"a key of operation {of.name!r}"))
        if any(mark.data in state for state in chain.states):
            if mark.problem:
                raise UserError(f"the state of operation {of.name!r} cannot be read: {mark.problem}")
            shapes = True
    if not shapes and (
        version == of.version or not chain.full
    ):  # what a change stands behind says its version
        return chain
    return chain._replace(states=older_rows(chain.states, version, shapes=shapes))


def _joined(newer: list[Chain], older: list[Chain]) -> list[Chain]:
    """Chains of the same keys, of rows that have a number and of older ones that have a place."""
    if not (newer and older):
        return newer or older
    before = {chain.key: chain for chain in older}
    return [*(chain.behind(before.pop(chain.key, None)) for chain in newer), *before.values()]


def _tables(ours: Operation, stored: Operation) -> tuple[tuple[str, int], ...]:
    """From which epoch on rows of tables count, where not all do; NEVER: the snapshot has none."""
    fresh = tables_in(ours.form) - tables_in(stored.form)
    return (*stored.tables, *((table, NEVER) for table in sorted(fresh))) if fresh else stored.tables


def _of_tables(chains: list[Chain], tables: tuple[tuple[str, int], ...]) -> list[Chain]:
    """Those that are no rows of a dropped table."""
    dropped = [(encoded_head(table), since) for table, since in tables]
    return [
        chain
        for chain in chains
        if not any(chain.epoch < since and chain.key.startswith(head) for head, since in dropped)
    ]


def encoded_head(table: str) -> bytes:
    """The beginning of the key of each row of a table."""
    return encode((table, ""))[:-1]


def _place(operation: Operation) -> int:
    assert operation.place is not None, "it is of a graph"
    return operation.place
