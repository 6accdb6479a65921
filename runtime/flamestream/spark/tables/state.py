"""State as a table: a row a key and operation, as of one snapshot (job_files.py says which).

A task reads some segments: those of one group of slots, since a key's full state and its changes may be in
several.

Keeps: what it reads has the size and checksum that the snapshot index says. Does not: follow a job that goes
on: an epoch is what it is, until the store forgets it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from flamestream.core.dataflow.stored import Reading
from flamestream.core.protocol.chain import Chain, is_deleted
from flamestream.core.protocol.snapshot import SegmentRef, SnapshotIndex
from flamestream.core.protocol.stored_rows import Known, Numbers, states_of
from flamestream.model import payload as codec
from flamestream.model.graph import Graph
from flamestream.model.ids import Slot
from flamestream.spark.tables.columns import array_of, field_of, json_of
from flamestream.spark.tables.job_files import JobFiles
from flamestream.spark.tables.slots import WantedSlots
from flamestream.store.places import store_from
from flamestream.store.segment import chains_in, part_of
from flamestream.store.snapshots import segment_table

SLOTS_A_TASK: Final = 32
BATCH: Final = 4096


@dataclass(frozen=True, slots=True)
class _Slots:
    slots: tuple[int, ...]
    segments: tuple[SegmentRef, ...]


class StateReader(DataSourceReader):
    """Reads a job's state for one query."""

    def __init__(
        self, files: JobFiles, snapshot: SnapshotIndex, schema: Any, slots: frozenset[int] | None
    ) -> None:
        self._files, self._snapshot, self._schema = files, snapshot, schema
        self._wanted = WantedSlots(snapshot.slots, slots)

    def partitions(self) -> Sequence[InputPartition]:
        slots = sorted(self._wanted.slots)
        groups = [tuple(slots[start : start + SLOTS_A_TASK]) for start in range(0, len(slots), SLOTS_A_TASK)]
        parts = [
            _Slots(group, tuple(s for s in self._snapshot.segments if not set(group).isdisjoint(s.slots)))
            for group in groups
        ]
        return [InputPartition(part) for part in parts if part.segments] or [InputPartition(_Slots((), ()))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from pyspark.sql.pandas.types import to_arrow_schema

        graph, schema = self._files.graph(), to_arrow_schema(self._schema)
        rows: list[tuple[Chain, Any]] = []
        known = Numbers(graph).known(self._snapshot)
        for row, state in _states(self._files.store, partition.value, graph, known):
            rows.append((row, state))
            if len(rows) == BATCH:
                yield _batch(rows, graph, schema)
                rows = []
        if rows:
            yield _batch(rows, graph, schema)


class PushedStateReader(StateReader):
    """A reader that takes filters (slots.py says when that is safe)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        return list(self._wanted.take(filters))


def first_state(files: JobFiles, epoch: int | None) -> list[Any]:
    """The first state of a snapshot, for a look at its fields; none if there is none."""
    graph, snapshot = files.graph(), files.snapshot(epoch)
    known = Numbers(graph).known(snapshot)
    every = _Slots(tuple(range(snapshot.slots)), snapshot.segments[:1])
    return [state for _, (_, state) in zip(range(1), _states(files.store, every, graph, known), strict=False)]


def _states(store: str, part: _Slots, graph: Graph, known: Known) -> Iterator[tuple[Chain, Any]]:
    """Each key's chain, by its vertex, and what it comes to."""
    objects = store_from(store)
    slots = [Slot(slot) for slot in part.slots]
    parts = [part_of(segment_table(objects, ref), slots) for ref in part.segments]
    for vertex, chains in sorted(states_of(chains_in(parts), known).items()):
        reading, kind = Reading.of(graph.vertices[vertex]), graph.vertices[vertex].kind
        for chain in sorted(chains, key=attrgetter("key")):
            # not full: its full row is in a segment that `first_state` did not look at
            if chain.full and not is_deleted(chain):
                yield Chain(vertex, *chain[1:]), reading.value(kind, chain.states)


def _batch(rows: list[tuple[Chain, Any]], graph: Graph, schema: Any) -> Any:
    fixed: dict[str, Callable[[], list[Any]]] = {
        "operation": lambda: [row.operation for row, _ in rows],
        "name": lambda: [graph.vertices[row.operation].name for row, _ in rows],
        "slot": lambda: [row.slot for row, _ in rows],
        "epoch": lambda: [row.epoch for row, _ in rows],
        "key": lambda: [json_of(codec.decode(row.key)) for row, _ in rows],
        "state": lambda: [json_of(state) for _, state in rows],
        "key_canonical": lambda: [row.key for row, _ in rows],
        "state_canonical": lambda: [codec.encode(state) for _, state in rows],
    }
    columns = [
        array_of(
            f.name,
            fixed[f.name]() if f.name in fixed else [field_of(state, f.name) for _, state in rows],
            f.type,
        )
        for f in schema
    ]
    return pa.record_batch(columns, schema=schema)
