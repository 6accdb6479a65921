"""A level's stages in one task: rows sorted by stage, key and meta become results, one key after the other.

Without a cycle a key is a fold over its rows. With one, what comes back to the key waits in a heap beside the
rows, and the least meta is next: that is the total order, because what comes back is a descendant of
something before it. If it comes back with another key, the graph cannot run this way and is refused with the
item (stages.py says why).

Keeps: state in, state out are those of a snapshot, byte for byte (core/dataflow/accumulators.py,
core/dataflow/grouping.py). Rows of later levels pass through. Does not: sort. Memory is one key's state, plus
what goes round in it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heappop, heappush
from typing import Any, Final

import pyarrow as pa

from flamestream.core.dataflow import user_code
from flamestream.core.dataflow.accumulators import to_store
from flamestream.core.dataflow.stored import Reading
from flamestream.core.protocol.chain import Chain
from flamestream.model import payload as codec
from flamestream.model.errors import GraphError
from flamestream.model.graph import Graph
from flamestream.model.meta import Meta
from flamestream.model.payload import ErrorValue
from flamestream.model.tables.ledger import Deciding
from flamestream.model.vertex import Kind, Vertex, name_of
from flamestream.spark.frames.kept_state import EarlierState
from flamestream.spark.frames.rows import CHANGE, FULL, OutRow, split, state_row
from flamestream.spark.frames.stages import Stages
from flamestream.spark.frames.transacting import Transacting
from flamestream.spark.frames.walk import Walk

Step = Callable[[Meta, Any], None]
"""An item of the current key."""
_MISSING: Final = object()


class Operation:
    """A keyed vertex and its state for the current key."""

    __slots__ = (
        "_before", "_changes", "_fail", "_fold", "_forward", "_full", "_reading", "_window", "items", "slot",
        "state", "take", "touched", "vertex",
    )  # fmt: skip

    def __init__(self, vertex: Vertex, walk: Walk, debug: bool) -> None:
        self.vertex = vertex
        self.slot = 0
        self.touched = False
        """Items have come since `begin`."""
        self.state: Any = _MISSING
        self.items: list[tuple[bytes, Any]] = []
        self._before: Any = _MISSING
        self._full = self._changes = 0
        self._forward, self._fail = walk.forward(vertex), walk.failed(vertex)
        self.take: Step = self._group if vertex.kind is Kind.GROUPING else self._reduce
        self._window, self._reading = vertex.window, Reading.of(vertex)
        self._fold = None if vertex.kind is Kind.GROUPING else user_code.folded(vertex, debug)

    def begin(self, slot: int, key: bytes, earlier: EarlierState | None) -> None:
        """Another key, with the state that it had before these rows."""
        self.state, self.items, self.touched, self.slot = _MISSING, [], False, slot
        self._before, self._full, self._changes = _MISSING, 0, 0
        if earlier is not None and (chain := earlier.of(self.vertex.id, key)):
            self._restore(chain)

    def left(self, key: bytes) -> Iterator[OutRow]:
        """The key's state behind these rows, if they have changed it."""
        # Another operation of a cycle may have seen nothing of this key: its older rows still count.
        if self.touched and (state := self._stored()) is not None:
            yield state_row(self.vertex.id), self.slot, key, b"", state

    def end(self) -> Iterator[OutRow]:
        """Nothing: the states were those of keys."""
        return iter(())

    def _restore(self, chain: Chain) -> None:
        if self._fold is None:
            self.items = self._reading.items(chain.states)
            return
        self.state = self._before = self._reading.accumulator(chain.states)
        self._full, self._changes = len(chain.states[0]), sum(map(len, chain.states[1:]))

    def _stored(self) -> bytes | None:
        """The key's state now, or what changed of it (as a row has it); None if there is none to keep."""
        if self._fold is None:
            kept = self.items[-(self._window - 1) :] if self._window > 1 else []
            return FULL + codec.encode_items(kept) if kept else None
        if self.state is _MISSING:
            return None
        whole, state = to_store(self._before, self.state, self._full, self._changes)
        return (FULL if whole else CHANGE) + state

    def _reduce(self, meta: Meta, payload: Any) -> None:
        assert self._fold is not None
        first = self.state is _MISSING
        self.state, result = self._fold(None if first else self.state, payload, first)
        self.touched = True
        if type(result) is ErrorValue:
            self._fail(meta, result, False)
        else:
            self._forward(meta, result, False)

    def _group(self, meta: Meta, payload: Any) -> None:
        items = self.items
        items.append((meta, payload))
        if len(items) > self._window:
            del items[: len(items) - self._window]
        self.touched = True
        self._forward(meta, tuple(value for _, value in items), False)


class KeyedLevel:
    """All stages of one level."""

    def __init__(
        self,
        graph: Graph,
        stages: Stages,
        level: int,
        walk: Walk,
        *,
        keep_state: bool,
        debug: bool,
        earlier: EarlierState | None = None,
    ) -> None:
        here = set(stages.at(level))
        self._graph, self._walk, self._keep, self._earlier = graph, walk, keep_state, earlier
        self._stage_of = {vertex: stage for vertex, stage in stages.of.items() if stage in here}
        self._operations = {
            vertex: _operation(graph.vertices[vertex], walk, debug, earlier) for vertex in self._stage_of
        }
        self._doors = pa.array(sorted(self._stage_of), pa.int32())
        self._heap: list[tuple[Meta, int, int, Any]] = []
        self._pushed = 0
        self._stage, self._key = -1, b""
        self._members: list[Operation | Transacting] = []
        self._cyclic = stages.cyclic & here
        for stage in self._cyclic:
            walk.returning([v for v, its in self._stage_of.items() if its == stage], self._came_back)

    def process(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of results, and of rows that only pass through."""
        for batch in batches:
            mine, passing = split(batch, self._doors)
            if passing.num_rows:
                yield passing
            for _ in self._rows(mine):
                yield from self._walk.out.take()
        self._end_key()
        for operation in self._operations.values() if self._keep else ():
            for row in operation.end():
                self._walk.out.add(row)
                if self._walk.out.full:
                    yield from self._walk.out.take()
        yield from self._walk.end()

    def _rows(self, batch: Any) -> Iterator[None]:
        """Take each row; stop whenever the outbox is full."""
        decode, operations, out = codec.decode, self._operations, self._walk.out
        columns = [batch.column(name).to_pylist() for name in ("to", "slot", "key", "meta", "payload")]
        if self._earlier is not None:
            self._earlier.prepare(columns[2])
        for to, slot, key, meta, payload in zip(*columns, strict=True):
            if key != self._key or self._stage_of[to] != self._stage:
                self._end_key()
                self._begin_key(self._stage_of[to], key, slot)
            operation = operations[to]
            if self._heap:
                self._go_round(before=meta)
            operation.take(meta, decode(payload))
            self._walk.settle()
            if out.full:
                yield
        yield

    def _begin_key(self, stage: int, key: bytes, slot: int) -> None:
        self._stage, self._key = stage, key
        self._members = [self._operations[vertex] for vertex, its in self._stage_of.items() if its == stage]
        for operation in self._members:
            operation.begin(slot, key, self._earlier)

    def _end_key(self) -> None:
        if self._heap:
            self._go_round(before=None)
        for operation in self._members if self._keep else ():
            for row in operation.left(self._key):
                self._walk.out.add(row)
        self._members = []

    # --- cycles ---------------------------------------------------------------------------------------------

    def _go_round(self, before: Meta | None) -> None:
        """Everything that waits and comes before the next row."""
        heap = self._heap
        # the least meta of rows and heap is next in the total order
        while heap and (before is None or heap[0][0] < before):
            meta, _, vertex, payload = heappop(heap)
            operation = self._operations[vertex]
            operation.take(meta, payload)
            self._walk.settle()

    def _came_back(self, vertex: int, key: bytes, meta: Meta, payload: Any) -> None:
        if key != self._key or self._stage_of[vertex] != self._stage:
            raise self._refusal(vertex, key)
        self._pushed += 1
        # the count decides ties, so that no payloads are compared
        heappush(self._heap, (meta, self._pushed, vertex, payload))

    def _refusal(self, vertex: int, key: bytes) -> GraphError:
        its = self._graph.vertices[vertex]
        assert its.key is not None, "the graph's builder gives every keyed vertex its key"
        return GraphError(
            f"graph {self._graph.name!r} cannot run as Spark batches: an item went round a loop and came "
            "back to the operation keyed by "
            f"{name_of(its.key)} with another key ({_shown(self._key)} before, {_shown(key)} now), and "
            "batches finish one key before they look at the next. Run it with the streaming runner"
        )


def _operation(
    vertex: Vertex, walk: Walk, debug: bool, earlier: EarlierState | None
) -> Operation | Transacting:
    deciding = isinstance(vertex.combine, Deciding)
    return Transacting(vertex, walk, debug, earlier) if deciding else Operation(vertex, walk, debug)


def _shown(key: bytes) -> str:
    text = repr(codec.decode(key))
    return text if len(text) <= 60 else f"{text[:60]}..."


def stage_column(stages: Stages, level: int) -> Collection[tuple[int, int]]:
    """(vertex, stage) where they differ: rows of such vertices sort with their stage."""
    return [
        (vertex, stage)
        for vertex, stage in stages.of.items()
        if vertex != stage and stages.levels[stage] == level
    ]
