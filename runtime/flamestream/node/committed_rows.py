"""Committed rows: the states of single keys in a snapshot, all at its cut.

    visits['ann']        the accumulator of a reduce, or the last items of a group, by the name of its state
    accounts['ann']      a row of a table

Keeps: what is given stands in one snapshot, whose parts are what its index says. Does not: ask a worker, so it works
while the job is down, and is as old as the last epoch.
"""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from flamestream.core.dataflow.stored import Reading
from flamestream.core.protocol.chain import Chain, incomplete
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.core.protocol.stored_rows import Numbers, states_of
from flamestream.model.errors import ManifestError
from flamestream.model.graph import Graph
from flamestream.model.payloads.codec import encode
from flamestream.model.state_names import TABLES
from flamestream.model.tables.ledger import ALL
from flamestream.ports import ObjectStore
from flamestream.store.segment import chains_in, part_of
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
    wanted = {row.key for row in rows} | {ALL}
    parts = [part_of(_with_keys(segment_table(objects, ref), wanted)) for ref in index.segments]
    states = states_of(chains_in(parts), Numbers(graph).known(index))
    chains = {(vertex, chain.key): chain for vertex, its in states.items() for chain in its}
    return [_state(graph, row, chains) for row in rows]


def _state(graph: Graph, row: Row, chains: dict[tuple[int, bytes], Chain]) -> Any:
    vertex = graph.vertices[row.vertex]
    reading = Reading.of(vertex)
    if (chain := chains.get((row.vertex, row.key))) is not None:
        if not chain.full:
            raise incomplete(chain)
        return reading.value(vertex.kind, chain.states)
    if row.table is None:
        return NOTHING
    # a batch has all rows as one (model/tables/ledger.py)
    every = chains.get((row.vertex, ALL))
    return NOTHING if every is None else reading.accumulator(every.states).rows.get(row.table, NOTHING)


def _with_keys(table: Any, keys: set[bytes]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return table.filter(
        pc.is_in(table["key"], value_set=pa.array(sorted(keys), table.schema.field("key").type))
    )


def _literal(text: str, written: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ManifestError(
            f"{written!r}: the key is no literal of Python, as 'ann', 7 or ('ann', 7) are: a text needs quotes"
        ) from error
