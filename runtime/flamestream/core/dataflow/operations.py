"""Operations: what the vertices of a graph do to an item, compiled to closures. All runners in Python are
made of it.

A function is called, and what it gives goes along the edges. The rest is a runner's own, and it says so in
four places: `_keyed` is what happens to an item behind the door of a grouping, a reduce or a sink; `_routed`
whether an item at a door is worked on here; `_go` where what goes round a loop waits; `_error` where error
items go. The stream answers with state, workers and tombstones (dataflow.py), Spark's batches with rows
(spark/frames/walk.py).

Every edge out of a vertex that has several extends the trace by its number (!), or a filter and a merge could
make two items tie.

Keeps: an item and its tombstone take the same way in the same order. A loop never recurses: `_go` puts off
what goes round. Does not: hold state, or know who owns a slot. Source: EDBT 2018, section 2; graphs are
compiled once a worker, not once a recovery.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from flamestream.core.dataflow import user_code
from flamestream.core.dataflow.placing import Place, place_of
from flamestream.core.protocol.settings import ERRORS
from flamestream.model.calls.loops import too_often
from flamestream.model.graph import Graph
from flamestream.model.ids import Slot
from flamestream.model.meta import COMPONENTS, Meta, child, components
from flamestream.model.payload import ErrorValue
from flamestream.model.vertex import Kind, Vertex

Enter = Callable[[Meta, Any, bool], None]
"""(meta, payload, is it a tombstone): an item enters a vertex."""
Handle = Callable[[bytes, Slot, Meta, Any, bool], None]
"""(key, slot, meta, payload, is it a tombstone): an item behind a door, where it is worked on."""
Fail = Callable[[Meta, ErrorValue, bool], None]
Located = Callable[[int, Meta, ErrorValue, bool], ErrorValue]
"""(vertex, meta, error, at the door?) -> the error with where its item came from. The same for the item's
tombstone."""
KEYED: Final = (Kind.GROUPING, Kind.REDUCE, Kind.SINK)
"""The kinds with a door: their items have a key and a slot."""


class Operations(ABC):
    """A graph on one runner. Subclasses call `_compile` when their own fields are there."""

    def __init__(self, graph: Graph, slots: int, debug: bool, located: Located) -> None:
        self.errors = len(graph.vertices)
        """The vertex number of the dead-letter sink."""
        self._graph, self.slots, self._debug, self._located = graph, slots, debug, located
        self._enter: list[Enter] = [_not_compiled] * len(graph.vertices)
        """Into each vertex, wherever its slot lives."""
        self._led_on = [0] * len(graph.vertices)
        """How many items each vertex has led on, those that were taken back with them; each edge out of it has that
        many."""
        self._handlers: list[Enter] = list(self._enter)
        """The work of each vertex on an item that is there."""

    @abstractmethod
    def _keyed(self, vertex: Vertex) -> Handle:
        """The work behind the door of a grouping, a reduce or a sink."""

    @abstractmethod
    def _go(self, meta: Meta, vertex: int, payload: Any, tombstone: bool) -> None:
        """An item goes round a loop: it enters `vertex` later."""

    @abstractmethod
    def _error(self, meta: Meta, error: ErrorValue, tombstone: bool) -> None:
        """An error item."""

    def _routed(self, vertex: int, place: Place, handle: Handle, fail: Fail) -> Enter:
        """Through the door of `vertex`, if this runner has its slot; it has every slot if it does not say
        otherwise."""
        return self._at_door(place, handle, fail)

    def _at_door(self, place: Place, handle: Handle, fail: Fail) -> Enter:
        """Through a door whose slot is here: key and slot are found, and the item is worked on."""

        def enter(meta: Meta, payload: Any, tombstone: bool) -> None:
            key, slot = place(payload)
            if type(key) is ErrorValue:
                fail(meta, key, tombstone)
            else:
                handle(key, slot, meta, payload, tombstone)

        return enter

    # --- compiling ------------------------------------------------------------------------------------------

    def _compile(self) -> None:
        for number in _last_first(self._graph):
            vertex = self._graph.vertices[number]
            if vertex.kind in KEYED:
                door = self._place(vertex), self._keyed(vertex), self.failed(vertex, at_door=True)
                self._handlers[number], self._enter[number] = (
                    self._at_door(*door),
                    self._routed(number, *door),
                )
            else:
                handle = self._handlers[number] = self._stateless(vertex)
                self._enter[number] = handle if vertex.balance is None else self._balanced(vertex, handle)

    def _balanced(self, vertex: Vertex, handle: Enter) -> Enter:
        fail = self.failed(vertex, at_door=True)
        return self._routed(vertex.id, self._place(vertex), lambda _key, _slot, *item: handle(*item), fail)

    def _place(self, vertex: Vertex) -> Place:
        return place_of(vertex, self.slots, self._debug)

    def _place_of_errors(self) -> Place:
        return self._place(Vertex(self.errors, Kind.SINK, ERRORS))

    def _stateless(self, vertex: Vertex) -> Enter:
        match vertex.kind:
            case Kind.MAP:
                return self._map(vertex)
            case Kind.FLAT_MAP:
                return self._flat_map(vertex)
            case Kind.FILTER:
                return self._filter(vertex)
            case Kind.ARRIVAL:
                return self._arrival(vertex)
            case Kind.LOOP:
                return self._loop(vertex)
            case _:  # a source or a merge
                return self._passing(vertex)

    # --- what vertices do -----------------------------------------------------------------------------------

    def forward(self, vertex: Vertex) -> Enter:
        """All edges out of `vertex`. Whoever calls it counts what is led on."""
        entrances = [self._enter[output] for output in vertex.outputs]
        # one edge ties with none, and costs no call
        if len(entrances) == 1:
            return entrances[0]

        def forward(meta: Meta, payload: Any, tombstone: bool) -> None:
            for edge, enter in enumerate(entrances):  # each edge has a meta of its own (!)
                enter(Meta(meta + COMPONENTS[edge]), payload, tombstone)

        return forward

    def _passing(self, vertex: Vertex) -> Enter:
        """A source or a merge: whatever enters is led on."""
        forward, led_on, number = self.forward(vertex), self._led_on, vertex.id

        def enter(meta: Meta, payload: Any, tombstone: bool) -> None:
            led_on[number] += 1
            forward(meta, payload, tombstone)

        return enter

    def failed(self, vertex: Vertex, at_door: bool = False) -> Fail:
        """The error items of `vertex`: their trace ends with its id, so errors of several vertices for one
        item do not tie."""
        located, number = self._located, vertex.id

        def fail(meta: Meta, error: ErrorValue, tombstone: bool) -> None:
            self._error(child(meta, number), located(number, meta, error, at_door), tombstone)

        return fail

    def _map(self, vertex: Vertex) -> Enter:
        call, forward, fail = user_code.mapped(vertex, self._debug), self.forward(vertex), self.failed(vertex)
        led_on, number = self._led_on, vertex.id

        def enter(meta: Meta, payload: Any, tombstone: bool) -> None:
            result = call(payload)
            if type(result) is ErrorValue:
                fail(meta, result, tombstone)
            else:
                led_on[number] += 1
                forward(meta, result, tombstone)

        return enter

    def _flat_map(self, vertex: Vertex) -> Enter:
        call, forward, fail = (
            user_code.flat_mapped(vertex, self._debug),
            self.forward(vertex),
            self.failed(vertex),
        )
        led_on, number = self._led_on, vertex.id

        def enter(meta: Meta, payload: Any, tombstone: bool) -> None:
            results = call(payload)
            if isinstance(results, ErrorValue):
                fail(meta, results, tombstone)
            else:
                led_on[number] += len(results)
                # the usual child is in a table, which saves a call an item
                for index, result in enumerate(results):
                    forward(
                        Meta(meta + COMPONENTS[index]) if index < 4096 else child(meta, index),
                        result,
                        tombstone,
                    )

        return enter

    def _filter(self, vertex: Vertex) -> Enter:
        call, forward, fail = (
            user_code.filtered(vertex, self._debug),
            self.forward(vertex),
            self.failed(vertex),
        )
        led_on, number = self._led_on, vertex.id

        def enter(meta: Meta, payload: Any, tombstone: bool) -> None:
            stays = call(payload)
            # a bool or an error item: identity tells the three apart
            if stays is True:
                led_on[number] += 1
                forward(meta, payload, tombstone)
            elif stays is not False:
                fail(meta, stays, tombstone)

        return enter

    def _arrival(self, vertex: Vertex) -> Enter:
        call, forward, fail = user_code.mapped(vertex, self._debug), self.forward(vertex), self.failed(vertex)
        led_on, number = self._led_on, vertex.id

        def enter(meta: Meta, payload: Any, tombstone: bool) -> None:
            # its place tells when its record arrived: what the journal says, never a clock (!)
            result = call(payload, meta)
            if type(result) is ErrorValue:
                fail(meta, result, tombstone)
            else:
                led_on[number] += 1
                forward(meta, result, tombstone)

        return enter

    def _loop(self, vertex: Vertex) -> Enter:
        outputs, several, limit = vertex.outputs, len(vertex.outputs) > 1, self._graph.max_trace
        error, fail, go = too_often(vertex), self.failed(vertex), self._go
        led_on, number = self._led_on, vertex.id

        def enter(meta: Meta, payload: Any, tombstone: bool) -> None:
            # a step has a byte at least, so the usual, short trace need not be counted
            if len(meta) - 8 > limit and components(meta) > limit:
                fail(meta, error, tombstone)
                return
            led_on[number] += 1
            for edge, output in enumerate(outputs):  # with a meta of its own here too (!)
                go(Meta(meta + COMPONENTS[edge]) if several else meta, output, payload, tombstone)

        return enter


def _not_compiled(meta: Meta, payload: Any, tombstone: bool) -> None:
    raise AssertionError("an item entered a vertex before the graph was compiled")


def _last_first(graph: Graph) -> list[int]:
    """Every vertex behind those that its results go to, edges out of loops apart (those are looked up when an
    item goes round)."""
    order: list[int] = []
    state = [0] * len(graph.vertices)
    for start in range(len(graph.vertices)):
        todo = [start]
        while todo:
            number = todo[-1]
            vertex = graph.vertices[number]
            ahead = (
                [] if vertex.kind is Kind.LOOP else [output for output in vertex.outputs if not state[output]]
            )
            if state[number] == 0 and ahead:
                todo.extend(ahead)
                continue
            todo.pop()
            if not state[number]:
                state[number] = 1
                order.append(number)
    return order
