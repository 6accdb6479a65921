"""Committed rows: the states of single keys in a snapshot, all at its cut.

Keeps: what is given stands in one snapshot, whose parts are what its index says. Does not: ask a worker, so it works
while the job is down, and is as old as the last epoch.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from flamestream.core.dataflow.stored import Reading
from flamestream.core.protocol.chain import Chain, incomplete, is_deleted
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.core.protocol.stored_rows import Known, Numbers, states_of
from flamestream.model.graph import Graph
from flamestream.model.payloads.codec import decode, encode
from flamestream.model.tables.ledger import ALL, Deciding, folded
from flamestream.node.queries.rows import Row
from flamestream.ports import ObjectStore
from flamestream.store.segment import chains_in, of_keys, part_of
from flamestream.store.snapshots import segment_table

NOTHING: Final = object()
"""The state of a key that has none."""


def states_at(graph: Graph, index: SnapshotIndex, objects: ObjectStore, rows: Sequence[Row]) -> list[Any]:
    """The state of each row; NOTHING where there is none. Raises Corrupt, and UserError for a state that this code
    cannot read."""
    # a batch has all rows of tables as one (model/tables/ledger.py)
    states = folded(graph, states_in(graph, index, objects, {row.encoded for row in rows} | {ALL}), NOTHING)
    return [_state(row, states) for row in rows]


def every_state(graph: Graph, index: SnapshotIndex, objects: ObjectStore, vertex: int) -> dict[bytes, Any]:
    """The state of each key of a vertex, a row's of tables, by the key as the vertex has it. Raises as `states_at`."""
    found = {key: value for (at, key), value in states_in(graph, index, objects).items() if at == vertex}
    if isinstance(graph.vertices[vertex].combine, Deciding) and (every := found.pop(ALL, None)) is not None:
        found = {
            encode(row): value for row, value in every.rows.items()
        } | found  # those behind a batch are newer
    return {key: value for key, value in found.items() if value is not NOTHING}


def states_in(
    graph: Graph, index: SnapshotIndex, objects: ObjectStore, keys: Collection[bytes] | None = None
) -> dict[tuple[int, bytes], Any]:
    """The states of `keys`, of all if left out, by vertex and key, as a snapshot has them; NOTHING for a row that was
    deleted. Raises as `states_at`."""
    tables = (segment_table(objects, ref) for ref in index.segments)
    parts = [part_of(table if keys is None else of_keys(table, keys)) for table in tables]
    return values_of(graph, chains_in(parts), Numbers(graph).known(index))


def values_of(graph: Graph, chains: Iterable[Chain], known: Known) -> dict[tuple[int, bytes], Any]:
    """The states that chains have, as `states_in`. `known`: what their rows are of."""
    found = {}
    for vertex, its in states_of(chains, known).items():
        reading, kind = Reading.of(graph.vertices[vertex]), graph.vertices[vertex].kind
        for chain in its:
            if not chain.full:
                raise incomplete(chain)
            gone = is_deleted(chain)
            found[vertex, chain.key] = NOTHING if gone else reading.value(kind, chain.states)
    return found


def _state(row: Row, states: Mapping[tuple[int, bytes], Any]) -> Any:
    if not row.in_table:
        return states.get((row.vertex, row.encoded), NOTHING)
    every = states.get((row.vertex, ALL))
    return NOTHING if every is None else every.rows.get(decode(row.encoded), NOTHING)
