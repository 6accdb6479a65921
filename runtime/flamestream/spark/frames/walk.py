"""A walk: one task's copy of the graph, compiled to closures; takes an item through everything that needs no state.

It ends at the doors of stages and sinks, where the item becomes a row. The calls of user functions, their checks and what becomes of
their exceptions are the streaming engine's (core/dataflow/user_code.py); what is missing here is what a batch does not need: tombstones,
causes and other workers.

Keeps: metas, slots and error items are those of the engine. A loop does not recurse: what goes round waits in a list.
Does not: hold state (keyed.py).
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from flamestream.core.dataflow import user_code
from flamestream.core.dataflow.placing import place_of
from flamestream.model import payload as codec
from flamestream.model.graph import Graph, Kind, Vertex
from flamestream.model.meta import COMPONENTS, Meta, child, components
from flamestream.model.payload import ErrorValue
from flamestream.spark.frames.origins import Origins
from flamestream.spark.frames.rows import Outbox, halts
from flamestream.spark.frames.stages import KEYED

Enter = Callable[[Meta, Any], None]


class Returns(Protocol):
    """Whoever works on a stage with a cycle: gets what comes back to it."""

    def __call__(self, vertex: int, key: bytes, meta: Meta, payload: Any) -> None: ...


class Walk:
    """The graph in one task."""

    def __init__(self, graph: Graph, slots: int, origins: Origins, *, fail: bool, debug: bool = False) -> None:
        self.out = Outbox()
        self.origins = origins
        self.errors = len(graph.vertices)
        """The vertex number of error items."""
        self.least_error: tuple[Meta, bytes] | None = None
        self._graph, self._slots, self._fail, self._debug = graph, slots, fail, debug
        self._returns: dict[int, Returns] = {}
        self._round: list[tuple[int, Meta, Any]] = []
        self._place_error = place_of(Vertex(self.errors, Kind.SINK, "errors"), self._slots, self._debug)
        self._enter: list[Enter | None] = [None] * len(graph.vertices)
        for vertex in reversed(graph.vertices):  # a vertex is mostly added before those behind it: so this seldom recurses
            self.entrance(vertex.id)

    def returning(self, vertices: list[int], returns: Returns) -> None:
        """Items for `vertices` are not rows here: `returns` gets them."""
        self._returns.update(dict.fromkeys(vertices, returns))

    def enter(self, vertex: int, meta: Meta, payload: Any) -> None:
        """An item enters a vertex: from a source, or after a round."""
        self.entrance(vertex)(meta, payload)
        self.settle()

    def settle(self) -> None:
        """Finish what goes round."""
        while self._round:
            vertex, meta, payload = self._round.pop()
            self.entrance(vertex)(meta, payload)

    def error(self, meta: Meta, error: ErrorValue) -> None:
        """An error item; the least one is what `onError: fail` names."""
        encoded = codec.encode(error)
        self.out.add(self.errors, self._place_error(error)[1], b"", meta, encoded)
        if self.least_error is None or meta < self.least_error[0]:
            self.least_error = (meta, encoded)

    def end(self) -> Iterator[Any]:
        """What is left, and what `onError: fail` has to tell every slot."""
        yield from self.out.take()
        if self._fail and self.least_error is not None:
            yield halts(self._slots, *self.least_error)

    def failed(self, vertex: Vertex, at_door: bool = False) -> Callable[[Meta, ErrorValue], None]:
        """Error items of `vertex`: their trace ends with its id, so errors of several vertices for one item do not tie."""
        located = self.origins.located
        return lambda meta, error: self.error(child(meta, vertex.id), located(vertex.id, meta, error, at_door))

    def forward(self, vertex: Vertex) -> Enter:
        """All edges out of `vertex`."""
        entrances = [self.entrance(output) for output in vertex.outputs]
        if len(entrances) == 1:
            return entrances[0]

        def forward(meta: Meta, payload: Any) -> None:
            for edge, enter in enumerate(entrances):
                enter(Meta(meta + COMPONENTS[edge]), payload)

        return forward

    # --- compiling ------------------------------------------------------------------------------------------------------------------

    def entrance(self, number: int) -> Enter:
        """Into a vertex. Every cycle has a loop, and what is behind a loop is looked up when an item goes round."""
        found = self._enter[number]
        if found is None:
            found = self._enter[number] = self._compiled(self._graph.vertices[number])
        return found

    def _compiled(self, vertex: Vertex) -> Enter:
        if vertex.kind in KEYED:
            return self._door(vertex)
        if vertex.kind is Kind.SINK:
            return self._sink(vertex)
        inner = self._inner(vertex)
        return inner if vertex.balance is None else self._balanced(vertex, inner)

    def _inner(self, vertex: Vertex) -> Enter:
        match vertex.kind:
            case Kind.MAP:
                return self._map(vertex)
            case Kind.FLAT_MAP:
                return self._flat_map(vertex)
            case Kind.FILTER:
                return self._filter(vertex)
            case Kind.LOOP:
                return self._loop(vertex)
        return self.forward(vertex)

    def _map(self, vertex: Vertex) -> Enter:
        call, forward, fail = user_code.mapped(vertex, self._debug), self.forward(vertex), self.failed(vertex)

        def enter(meta: Meta, payload: Any) -> None:
            result = call(payload)
            if type(result) is ErrorValue:
                fail(meta, result)
            else:
                forward(meta, result)

        return enter

    def _flat_map(self, vertex: Vertex) -> Enter:
        call, forward, fail = user_code.flat_mapped(vertex, self._debug), self.forward(vertex), self.failed(vertex)

        def enter(meta: Meta, payload: Any) -> None:
            results = call(payload)
            if isinstance(results, ErrorValue):
                fail(meta, results)
            else:
                for index, result in enumerate(results):
                    forward(Meta(meta + COMPONENTS[index]) if index < 4096 else child(meta, index), result)

        return enter

    def _filter(self, vertex: Vertex) -> Enter:
        call, forward, fail = user_code.filtered(vertex, self._debug), self.forward(vertex), self.failed(vertex)

        def enter(meta: Meta, payload: Any) -> None:
            stays = call(payload)
            if stays is True:
                forward(meta, payload)
            elif stays is not False:
                fail(meta, stays)

        return enter

    def _loop(self, vertex: Vertex) -> Enter:
        outputs, several, limit, waiting = vertex.outputs, len(vertex.outputs) > 1, self._graph.max_trace, self._round
        fail = self.failed(vertex)
        too_often = ErrorValue("loop", "LoopLimit", f"loop {vertex.name!r} goes round more than {vertex.max_iterations} times")

        def enter(meta: Meta, payload: Any) -> None:
            if len(meta) - 8 > limit and components(meta) > limit:
                fail(meta, too_often)
                return
            for edge, output in enumerate(outputs):
                waiting.append((output, Meta(meta + COMPONENTS[edge]) if several else meta, payload))

        return enter

    # --- doors ----------------------------------------------------------------------------------------------------------------------

    def _door(self, vertex: Vertex) -> Enter:
        place, fail, number, encode = place_of(vertex, self._slots, self._debug), self.failed(vertex, at_door=True), vertex.id, codec.encode
        returns, add = self._returns, self.out.add

        def enter(meta: Meta, payload: Any) -> None:
            key, slot = place(payload)
            if type(key) is ErrorValue:
                fail(meta, key)
            elif number in returns:
                returns[number](number, key, meta, payload)
            else:
                add(number, slot, key, meta, encode(payload))

        return enter

    def _sink(self, vertex: Vertex) -> Enter:
        place, fail, number, encode = place_of(vertex, self._slots, self._debug), self.failed(vertex, at_door=True), vertex.id, codec.encode
        add, by_payload = self.out.add, vertex.key is None

        def enter(meta: Meta, payload: Any) -> None:
            key, slot = place(payload)
            if type(key) is ErrorValue:
                fail(meta, key)
            else:
                add(number, slot, b"", meta, key if by_payload else encode(payload))

        return enter

    def _balanced(self, vertex: Vertex, inner: Enter) -> Enter:
        """Where the work is done does not matter here; whether the balancing function fails does."""
        place, fail = place_of(vertex, self._slots, self._debug), self.failed(vertex, at_door=True)

        def enter(meta: Meta, payload: Any) -> None:
            key, _ = place(payload)
            if type(key) is ErrorValue:
                fail(meta, key)
            else:
                inner(meta, payload)

        return enter
