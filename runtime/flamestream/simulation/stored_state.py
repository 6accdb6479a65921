"""Invariant 4 for state: what the segments of a committed snapshot hold is what the oracle has at its cut.

The rows are read without the engine, so that a fault which it makes and undoes again is seen. Does not: look
at positions, or at what consumers have (invariants.py).
"""

from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

from flamestream.core.protocol.chain import DELETED, Row
from flamestream.core.protocol.snapshot import SnapshotIndex
from flamestream.core.protocol.stored_rows import NEVER
from flamestream.model import payload as codec
from flamestream.model.errors import FlameStreamError
from flamestream.model.graph import Graph
from flamestream.model.payloads import state as states
from flamestream.model.state_names import tables_in
from flamestream.model.tables.ledger import ALL, Deciding
from flamestream.model.vertex import Kind
from flamestream.reference import State
from flamestream.simulation.oracle import Oracle
from flamestream.simulation.outside.snapshots import decode_rows
from flamestream.simulation.outside.stores import Store
from flamestream.simulation.timeline import migrated
from flamestream.simulation.world import World


class StoredState:
    """The state in a run's store, beside the oracle's."""

    def __init__(self, world: World, store: Store) -> None:
        self._world, self._store = world, store
        self._known: dict[str, list[Row]] = {}
        """Rows of each segment, by its name."""

    def check(self, index: SnapshotIndex, oracle: Oracle) -> None:
        """Fails the run unless the rows of its segments are the oracle's state at its cut."""
        numbers = {each.place: each.number for each in oracle.graph.operations}
        tables = {numbers[v.id]: v.id for v in oracle.graph.vertices if isinstance(v.combine, Deciding)}
        since = _since(oracle.graph, index)

        def counts(number: int | None, key: bytes, epoch: int) -> bool:
            return number not in tables or key == ALL or epoch >= since.get(codec.decode(key)[0], NEVER)

        chains: dict[tuple[int, bytes], list[Row]] = {}
        for ref in index.segments:
            data = self._store.objects.get(ref.name)
            if data is None:
                raise self._world.fail(
                    "5 commit", f"segment {ref.name} of epoch {index.epoch} does not exist"
                )
            if ref.name in self._store.damaged:  # the fault's doing, not the engine's
                return
            for row in self.rows(ref.name, data):
                if counts(row.operation, row.key, row.epoch):
                    chains.setdefault((row.operation, row.key), []).append(row)
        state = {
            (vertex, key): value
            for (vertex, key), value in buckets_of(oracle.graph, oracle.state_at(index.cut))
            if counts(numbers[vertex], key, index.epoch)
        }
        self._check_deleted(tables, chains, state, index)
        for bucket, wanted in state.items():
            stored = self._restored(bucket, chains.get((numbers[bucket[0]], bucket[1]), []), index, oracle)
            wrong = (
                f"operation {bucket[0]}, key {codec.decode(bucket[1])!r}: epoch {index.epoch} has "
                f"{stored!r}, not {wanted!r}"
            )
            # By their encoding: `==` takes True for 1, and no NaN for itself.
            self._world.require(
                stored is not None and codec.encode(stored) == codec.encode(wanted), "4 snapshot", wrong
            )

    def _check_deleted(
        self, tables: Mapping[int, int], chains: Mapping[tuple[int, bytes], list[Row]],
        state: Mapping[tuple[int, bytes], Any], index: SnapshotIndex,
    ) -> None:  # fmt: skip
        """Fails the run if it has a row of a table that nobody has written, or that was deleted."""
        for (number, key), rows in chains.items():
            newest = max(rows, key=attrgetter("epoch"))
            self._world.require(
                number not in tables
                or key == ALL
                or (tables[number], key) in state
                or newest.state == DELETED,
                "4 snapshot",
                f"epoch {index.epoch} has a row {codec.decode(key)!r}, which is no more",
            )

    def _restored(
        self, bucket: tuple[int, bytes], rows: list[Row], index: SnapshotIndex, oracle: Oracle
    ) -> Any:
        try:
            value = _restored(oracle, bucket[0], rows)
            if value is None or index.inventory is None:
                return value
            # A state that nobody has touched is stored as the code before has left it.
            number, newest = rows[0].operation, max(row.epoch for row in rows)
            # None: a tick drops it, and the index that it is cut in no longer lists it.
            known = next((each for each in index.inventory.operations if each.number == number), None)
            version = 1 if known is None else known.version_at(newest)
            return migrated(oracle.graph.vertices[bucket[0]], value, version)
        except (FlameStreamError, AssertionError) as error:  # a step asserts what it is given
            raise self._world.fail(
                "4 snapshot", f"epoch {index.epoch}, operation {bucket[0]}, key {bucket[1]!r}: {error}"
            ) from error

    def rows(self, name: str, data: bytes) -> list[Row]:
        """The rows of the segment of this name, whose bytes are `data`."""
        # Read once a run, whatever indexes name it: segments never change.
        if name not in self._known:
            self._known[name] = decode_rows(data)
        return self._known[name]


def buckets_of(graph: Graph, state: State) -> Iterator[tuple[tuple[int, bytes], Any]]:
    """The state that a worker has of each key, by vertex and key: of a ledger, which the reference has as one, each
    row's; of a grouping, the items that the next one sees."""
    for (operation, key), value in state.items():
        vertex = graph.vertices[operation]
        if isinstance(vertex.combine, Deciding):
            yield from (((operation, codec.encode(row)), each) for row, each in value.rows.items())
        elif vertex.kind is Kind.REDUCE:
            yield (operation, key), value
        elif vertex.window > 1:
            yield (operation, key), value[-(vertex.window - 1) :]


def _since(graph: Graph, index: SnapshotIndex) -> dict[str, int]:
    """The tables that the graph and the snapshot have, each with the epoch from which on its rows count: an index
    that comes with the tick at the cut is in the next snapshot, and of one that went and is back old rows are there
    still."""
    ours = {table for each in graph.operations for table in tables_in(each.form)}
    if index.inventory is None:
        return dict.fromkeys(ours, 0)
    stored = [each for each in index.inventory.operations if tables_in(each.form)]
    return {
        table: dict(each.tables).get(table, 0) for each in stored for table in tables_in(each.form) & ours
    }


def _restored(oracle: Oracle, operation: int, rows: list[Row]) -> Any:
    """The state that a snapshot does hold of it, read without the engine: the newest full row and the deltas
    behind it."""
    rows = sorted(rows, key=lambda row: row.epoch)
    newest = max((i for i, row in enumerate(rows) if row.full), default=None)
    if newest is None:
        return None
    if oracle.graph.vertices[operation].kind is Kind.GROUPING:
        return tuple(payload for _, payload in codec.decode_items(rows[-1].state))
    value = states.decode_state(rows[newest].state)
    for row in rows[newest + 1 :]:
        value = states.apply_state_delta(value, row.state)
    return value
