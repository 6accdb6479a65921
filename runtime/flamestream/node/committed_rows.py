"""Committed rows: the states of single keys in a snapshot, all at its cut.

    visits['ann']        the accumulator of a reduce, or the last items of a group, by the name of its state
    accounts['ann']      a row of a table

Keeps: what is given stands in one snapshot, whose parts are what its index says. Does not: ask a worker, so it works
while the job is down, and is as old as the last epoch.
"""

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flamestream.core.dataflow.stored import Reading
from flamestream.core.protocol.chain import incomplete
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.core.protocol.stored_rows import Numbers, states_of
from flamestream.model.errors import ManifestError
from flamestream.model.graph import Graph
from flamestream.model.payloads.codec import encode
from flamestream.model.state_names import TABLES
from flamestream.model.tables.ledger import ALL, folded
from flamestream.ports import ObjectStore
from flamestream.store.segment import chains_in, of_keys, part_of
from flamestream.store.snapshots import segment_table

_ROW: Final = re.compile(r"(.+?)\[(.+)\]")
NOTHING: Final = object()
"""The state of a key that has none."""


@dataclass(frozen=True, slots=True)
class Row:
    """A key whose state is asked for."""

    written: str
    vertex: int
    key: bytes
    table: tuple[str, Any] | None = None
    """The name of its table and the key in it; None: it is of no table."""


def row_of(graph: Graph, written: str) -> Row:
    """The row that `NAME[KEY]` means; a key is a literal of Python. Raises ManifestError."""
    found = _ROW.fullmatch(written.strip())
    if found is None:
        raise ManifestError(f'{written!r} is no row: write NAME[KEY], as in "visits[\'ann\']" or "totals[7]"')
    name, key = found[1], _literal(found[2], written)
    vertices = {each.name: each.place for each in graph.operations if each.place is not None}
    rules = {} if graph.ledger is None else graph.ledger.deciding.rules
    if name in rules:
        return Row(written, vertices[TABLES], encode((name, key)), (name, key))
    if name in vertices and name != TABLES:
        return Row(written, vertices[name], encode(key))
    known = ", ".join(map(repr, [*rules, *(each for each in vertices if each != TABLES)]))
    raise ManifestError(
        f"graph {graph.name!r} keeps nothing named {name!r}: it has {known or 'no state at all'}"
    )


def states_at(graph: Graph, index: SnapshotIndex, objects: ObjectStore, rows: Sequence[Row]) -> list[Any]:
    """The state of each row; NOTHING where there is none. Raises Corrupt, and UserError for a state that this code
    cannot read."""
    # a batch has all rows of tables as one (model/tables/ledger.py)
    states = folded(graph, states_in(graph, index, objects, {row.key for row in rows} | {ALL}))
    return [_state(row, states) for row in rows]


def states_in(
    graph: Graph, index: SnapshotIndex, objects: ObjectStore, keys: Collection[bytes] | None = None
) -> dict[tuple[int, bytes], Any]:
    """The states of `keys`, of all if left out, by vertex and key, as a snapshot has them. Raises as `states_at`."""
    tables = (segment_table(objects, ref) for ref in index.segments)
    parts = [part_of(table if keys is None else of_keys(table, keys)) for table in tables]
    found = {}
    for vertex, chains in states_of(chains_in(parts), Numbers(graph).known(index)).items():
        reading, kind = Reading.of(graph.vertices[vertex]), graph.vertices[vertex].kind
        for chain in chains:
            if not chain.full:
                raise incomplete(chain)
            found[vertex, chain.key] = reading.value(kind, chain.states)
    return found


def _state(row: Row, states: Mapping[tuple[int, bytes], Any]) -> Any:
    if row.table is None:
        return states.get((row.vertex, row.key), NOTHING)
    every = states.get((row.vertex, ALL))
    return NOTHING if every is None else every.rows.get(row.table, NOTHING)


def _literal(text: str, written: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ManifestError(
            f"{written!r}: the key is no literal of Python, as 'ann', 7 or ('ann', 7) are: a text needs quotes"
        ) from error
