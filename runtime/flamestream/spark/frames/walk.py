"""A walk: one task's copy of the graph; takes an item through everything that needs no state.

It ends at the doors of stages and sinks, where the item becomes a row. What vertices do on the way is the
streaming engine's (core/dataflow/operations.py); what is missing here is what a batch does not need:
tombstones, causes and other workers.

Keeps: metas, slots and error items are those of the engine. A loop does not recurse: what goes round waits in
a list. Does not: hold state (keyed.py).
"""

from collections.abc import Iterator
from typing import Any, Protocol

from flamestream.core.dataflow.operations import Handle, Operations
from flamestream.model import payload as codec
from flamestream.model.graph import Graph
from flamestream.model.meta import COMPONENTS, Meta, child
from flamestream.model.payload import ErrorValue
from flamestream.model.vertex import Kind, Vertex
from flamestream.spark.frames.origins import Origins
from flamestream.spark.frames.rows import Outbox, halts


class Returns(Protocol):
    """Whoever works on a stage with a cycle: gets what comes back to it."""

    def __call__(self, vertex: int, key: bytes, meta: Meta, payload: Any) -> None: ...


class Walk(Operations):
    """The graph in one task."""

    def __init__(
        self, graph: Graph, slots: int, origins: Origins, *, fail: bool, debug: bool = False
    ) -> None:
        super().__init__(graph, slots, debug, origins.located)
        self.out = Outbox()
        self._least_error: tuple[Meta, bytes] | None = None
        self._origins, self._fail = origins, fail
        self._returns: dict[int, Returns] = {}
        self._round: list[tuple[Meta, int, Any]] = []
        self._place_error = self._place_of_errors()
        self._compile()

    def returning(self, vertices: list[int], returns: Returns) -> None:
        """Items for `vertices` are not rows here: `returns` gets them."""
        self._returns.update(dict.fromkeys(vertices, returns))

    def enter(self, vertex: int, start: bytes, first: int, records: list[Any]) -> Iterator[Any]:
        """Records of one run enter a source; batches of rows whenever there are enough."""
        enter, out = self._enter[vertex], self.out
        for index, record in enumerate(self._origins.entering(start, first, records), first):
            meta = Meta(start + COMPONENTS[index]) if index < 4096 else child(Meta(start), index)
            if type(record) is ErrorValue:  # bad input: the source could not read it
                self._error(meta, record, False)
            else:
                enter(meta, record, False)
                self.settle()
            if out.full:
                yield from out.take()

    def settle(self) -> None:
        """Finish what goes round."""
        while self._round:
            # In any order: whoever gets what comes of it goes by metas.
            meta, vertex, payload = self._round.pop()
            self._enter[vertex](meta, payload, False)

    def end(self) -> Iterator[Any]:
        """The rows that are left, and what `onError: fail` has to tell every slot."""
        yield from self.out.take()
        if self._fail and self._least_error is not None:
            yield halts(self.slots, *self._least_error)

    def _go(self, meta: Meta, vertex: int, payload: Any, tombstone: bool) -> None:
        self._round.append((meta, vertex, payload))

    def _error(self, meta: Meta, error: ErrorValue, tombstone: bool) -> None:
        """An error item; the least one is what `onError: fail` names."""
        encoded = codec.encode(error)
        self.out.add((self.errors, self._place_error(error)[1], b"", meta, encoded))
        if self._least_error is None or meta < self._least_error[0]:
            self._least_error = (meta, encoded)

    def _keyed(self, vertex: Vertex) -> Handle:
        """Behind a door an item is a row, or of the key at hand."""
        if vertex.kind is Kind.SINK:
            return self._sink(vertex)
        number, returns, encode, add = vertex.id, self._returns, codec.encode, self.out.add

        def row(key: bytes, slot: int, meta: Meta, payload: Any, _: bool) -> None:
            if number in returns:
                returns[number](number, key, meta, payload)
            else:
                add((number, slot, key, meta, encode(payload)))

        return row

    def _sink(self, vertex: Vertex) -> Handle:
        """The key of a sink without a key function is its payload, which is encoded once."""
        number, is_payload, encode, add = vertex.id, vertex.key is None, codec.encode, self.out.add
        return lambda key, slot, meta, payload, _: add(
            (number, slot, b"", meta, key if is_payload else encode(payload))
        )
