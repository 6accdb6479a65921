"""The reference interpreter in each partition of keys: what the sinks should have, as rows that Spark holds.

    pieces of the input -> walk to the first doors -> shuffle by key, sort by meta
       -> walk on from there -> ... -> rows for sinks

A door is a vertex with state. What one key of it does depends on the items of that key alone, in their order;
so each key is given to a walk of the reference of its own, and everything between doors is the reference's as
well. Nothing is taken from the engine, the kernel or the batch runner but the reading of the input, and
payloads travel in the Python encoding.

Does not: do graphs in which what comes round a loop enters a door again: no order of whole keys is right for
them. Compare (spark/tables/history.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from flamestream.connectors.files.pieces import Piece
from flamestream.model.errors import UserError
from flamestream.model.event_time import record_count
from flamestream.model.graph import Graph
from flamestream.model.meta import Meta, meta_of
from flamestream.model.payloads import encoding as codec
from flamestream.model.slot import slot_of
from flamestream.model.time import FrontId, front_of
from flamestream.model.vertex import Kind
from flamestream.reference import End, Walk, place_of, slot_at
from flamestream.spark.frames.job_graph import JobGraph
from flamestream.spark.frames.rows import HALT

STATEFUL: Final = frozenset({Kind.GROUPING, Kind.REDUCE})
FLUSH: Final = 8192
"""Rows in a batch."""
_SCHEMA: Final = "to int, slot int, key binary, meta binary, depth int, payload binary"
_ARROW: Final = pa.schema(
    [
        ("to", pa.int32()), ("slot", pa.int32()), ("key", pa.binary()), ("meta", pa.binary()),
        ("depth", pa.int32()), ("payload", pa.binary()),
    ]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReferenceJob:
    """Everything that decides the reference's results."""

    graph: JobGraph
    slots: int
    fail: bool
    """`onError: fail`; else error items are results."""
    entered: Mapping[FrontId, Meta] = field(default_factory=dict)
    """The meta of the first record that had not entered, of fronts whose source has more now than had
    entered."""
    sources: tuple[tuple[FrontId, str], ...] = ()
    """Which source a front stamps for; without it, front `i` for the graph's source number `i`."""


def rows_of(spark: Any, job: ReferenceJob, pieces: Sequence[tuple[int, Piece]], *, partitions: int) -> Any:
    """A lazy DataFrame: `to` a sink's vertex (error items: the number of vertices; under `fail` HALT), slot,
    meta, payload.

    Raises UserError if the graph cannot be done this way.
    """
    from pyspark.sql import functions as F

    levels = levels_of(job.graph.get())
    count = len(pieces)
    rows = spark.range(0, count, 1, max(1, count)).mapInArrow(_Read(job, tuple(pieces)), _SCHEMA)
    for level in range(1, max(levels.values(), default=0) + 1):
        here = [vertex for vertex, its in levels.items() if its == level]
        # What only passes through goes by its meta: a sink's rows have no key, and one task would get all.
        place = F.when(F.col("to").isin(here), F.col("key")).otherwise(F.col("meta"))
        # Spark compares binary as unsigned bytes, which is the order of metas (!).
        rows = rows.repartition(partitions, "to", place).sortWithinPartitions("to", "key", "meta")
        rows = rows.mapInArrow(_Go(job, frozenset(here)), _SCHEMA)
    return rows.select("to", "slot", "meta", "payload")


def levels_of(graph: Graph) -> dict[int, int]:
    """The number of doors on the longest way to each door, itself included. Raises UserError for one that
    leads back to itself."""
    doors = [vertex for vertex in graph.vertices if vertex.kind in STATEFUL]
    behind = {door.id: graph.reachable(door.id) for door in doors}
    for door in doors:
        if door.id in behind[door.id]:
            raise UserError(
                f"graph {graph.name!r}: what {door.name!r} gives comes back to it, so no key can be "
                "interpreted before another, and "
                "`audit --spark` interprets key by key. Leave out --spark: the interpreter in one process "
                "does every graph"
            )
    levels: dict[int, int] = {}
    while len(levels) < len(doors):
        for door in doors:
            before = [other.id for other in doors if door.id in behind[other.id]]
            if door.id not in levels and all(other in levels for other in before):
                levels[door.id] = 1 + max((levels[other] for other in before), default=0)
    return levels


class _Task:
    """A walk of the reference, and its rows on their way out."""

    def __init__(self, job: ReferenceJob) -> None:
        self.graph = job.graph.get()
        self.walk = Walk(self.graph, doors=frozenset(levels_of(self.graph)), fronts=dict(job.sources) or None)
        self._job = job
        self._rows: list[tuple[int, int, bytes, bytes, int, bytes]] = []

    def add(self, ends: Iterable[End]) -> None:
        """Take items where they have come to: each becomes a row."""
        for end in ends:
            self._rows.append((*self._place(end), bytes(end.meta), end.depth, codec.encode(end.payload)))

    def pass_on(self, row: tuple[int, int, bytes, bytes, int, bytes]) -> None:
        """Let a row through that is done, or is worked on elsewhere."""
        self._rows.append(row)

    def batches(self, least: int = 1) -> Iterator[Any]:
        """The rows so far as a batch, if there are `least` of them."""
        if len(self._rows) >= least:
            columns = zip(*self._rows, strict=True)
            yield pa.record_batch(
                [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)],
                schema=_ARROW,
            )
            self._rows.clear()

    def _place(self, end: End) -> tuple[int, int, bytes]:
        """Vertex, slot and key."""
        if end.vertex is None:
            # behind all vertices: a number that no sink has
            errors = HALT if self._job.fail else len(self.graph.vertices)
            return errors, slot_of(codec.encode(end.payload), self._job.slots), b""
        vertex = self.graph.vertices[end.vertex]
        if vertex.kind is Kind.SINK:
            return vertex.id, slot_at(vertex, end.payload, self._job.slots), b""
        return vertex.id, 0, self.walk.key_at(vertex, end.payload)


@dataclass(frozen=True, slots=True)
class _Read:
    """Reads the pieces whose numbers arrive: (source vertex, piece)."""

    job: ReferenceJob
    pieces: Sequence[tuple[int, Piece]]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        task = _Task(self.job)
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            vertex, piece = self.pieces[number]
            for time, first, records in piece.runs():
                # records that the source has got since the job was through are no input of it
                until = self.job.entered.get(front_of(time))
                for position, record in enumerate(task.walk.entering(time, records), first):
                    meta = meta_of(time, position)
                    # a source's end enters too, behind whatever had not
                    if until is None or meta < until or not record_count(records):
                        place = place_of(records, position) if isinstance(records, Sequence) else None
                        task.add(task.walk.enter(task.graph.vertices[vertex], meta, record, place))
                yield from task.batches(FLUSH)
        yield from task.batches()


@dataclass(frozen=True, slots=True)
class _Go:
    """Through the doors of a level; the rows of a key come one after another, in the order of metas."""

    job: ReferenceJob
    here: frozenset[int]

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        task = _Task(self.job)
        now: tuple[int, bytes] | None = None
        for batch in batches:
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                to, _, key, meta, depth, payload = row
                if to not in self.here:
                    task.pass_on(row)
                else:
                    if now != (to, key):
                        task.walk.state.clear()  # no key is needed twice
                        now = to, key
                    task.add(
                        task.walk.follow(task.graph.vertices[to], Meta(meta), depth, codec.decode(payload))
                    )
                yield from task.batches(FLUSH)
        yield from task.batches()
