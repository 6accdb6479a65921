"""The reference interpreter: what a graph means, one item at a time, with nothing in the way.

It walks each record depth first through the graph before it looks at the next one. That walk is the total
order of items, so whatever the engine does in parallel, speculatively and through crashes must end with
exactly these items, sink by sink and byte by byte. It is one module on purpose: whoever doubts a result
can read all that it should be.

>>> graph = Graph("count")
>>> graph.source("numbers").map(lambda n: n + 1).sink("plus-one")
>>> interpret(graph, [(Time(4096), [1, 2])])["plus-one"] == [(meta_of(Time(4096), 0), 2), (meta_of(Time(4096), 1), 3)]
True

Keeps: every list it returns is in the order of metas. Shares no code with the engine but the graph, the metas
and the payload encoding, which is the one in Python, whatever kernel the engine has. Source: the formal
model's definition 6 asks for one such order; EDBT 2018, section 3.1 gives it.
"""

from collections.abc import Collection, Iterable, Mapping, MutableMapping, Sequence
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

from flamestream.model.entrances import Entrances, partition_of
from flamestream.model.errors import UserError, too_big_results, too_many_results
from flamestream.model.failure import FATAL, failure, located
from flamestream.model.graph import Graph
from flamestream.model.ids import Slot
from flamestream.model.meta import Meta, child, meta_of, time_of_meta
from flamestream.model.payload import ErrorValue
from flamestream.model.payloads import encoding as payloads
from flamestream.model.slot import slot_of, slot_of_hash
from flamestream.model.time import FrontId, Time, front_of
from flamestream.model.vertex import Function, Kind, Vertex, name_of

ERRORS: Final = "errors"
"""The pseudo-sink that error items end in, unless a sink of the graph has its name (`errors_of`)."""

Run = tuple[Time, Sequence[Any]]
Results = dict[str, list[tuple[Meta, Any]]]

State = Mapping[tuple[int, bytes], Any]
"""The state of each grouping (a tuple of items) and reduce (an accumulator), by number of the vertex and
canonical key."""


def errors_of(graph: Graph) -> str:
    """The name that error items have in results: `ERRORS`, or one that no manifest can have if a sink has
    that."""
    return "\0errors" if any(vertex.name == ERRORS for vertex in graph.sinks) else ERRORS


def interpret(
    graph: Graph,
    runs: Iterable[Run],
    on_error: Literal["dead-letter", "fail"] = "dead-letter",
    fronts: Mapping[FrontId, str] | None = None,
    state: State | None = None,
) -> Results:
    """The results that each sink of `graph` gets for `runs`, and the error items under `errors_of(graph)`.

    `fronts` says which source a front stamps for; without it, front `i` is the graph's source number `i`.
    With `on_error="fail"` it stops before the first run that has an error, which is then all that is
    there of errors. `state`: what is there before the first run.
    """
    return Walk(graph.validated(), state, fronts=fronts).results(runs, on_error)


def slot_at(sink: Vertex, payload: Any, slots: int) -> Slot:
    """Where a result of a sink belongs, by its payload alone."""
    key = payload if sink.key is None else sink.key(payload)
    return (
        slot_of(payloads.encode(key), slots)
        if sink.balance is None
        else slot_of_hash(sink.balance(key), slots)
    )


class _UserFunctionFailed(Exception):
    """Which function raised what."""

    def __init__(self, function: Function, cause: Exception) -> None:
        super().__init__(name_of(function))
        self.function, self.cause = function, cause
        self.at_door = False
        """While the item's place was looked for."""


class End(NamedTuple):
    """Where an item has come to."""

    vertex: int | None
    """A sink, or a door; None: it is an error."""
    meta: Meta
    depth: int
    """Components of its trace."""
    payload: Any


class Walk:
    """The state of every grouping and reduce, by vertex and canonical key, and how an item changes it.

    `doors`: vertices that an item only enters by `follow`; what comes to one ends there.
    """

    def __init__(
        self,
        graph: Graph,
        state: State | None = None,
        doors: Collection[int] = (),
        fronts: Mapping[FrontId, str] | None = None,
    ) -> None:
        self._graph, self._doors, self._near = graph, doors, graph.near
        self._fronts = fronts or {FrontId(index): vertex.name for index, vertex in enumerate(graph.sources)}
        self._entrances = Entrances(graph, self._fronts)
        self.errors = errors_of(graph)
        """The name that error items have in results."""
        self._place: tuple[str, int] | None = None
        """Partition and offset of the record that is entering."""
        self.state: MutableMapping[tuple[int, bytes], Any] = dict(state or {})

    def run(self, source: Vertex, time: Time, records: Sequence[Any]) -> list[tuple[str, Meta, Any]]:
        """The items that reach a sink, with the sink's name, in order."""
        ends: list[End] = []
        for position, record in enumerate(self.entering(time, records)):
            ends += self.enter(source, meta_of(time, position), record, place_of(records, position))
        return [
            (
                self.errors if end.vertex is None else self._graph.vertices[end.vertex].name,
                end.meta,
                end.payload,
            )
            for end in ends
        ]

    def entering(self, time: Time, records: Sequence[Any]) -> Sequence[Any]:
        """The records of a run as they enter: some tell how far their source has come in event time."""
        return self._entrances.entering(time, partition_of(records), records)

    def results(
        self, runs: Iterable[Run], on_error: Literal["dead-letter", "fail"] = "dead-letter"
    ) -> Results:
        """The results of more runs, as `interpret` gives them. `state` is that behind them then."""
        sources = {vertex.name: vertex for vertex in self._graph.sources}
        results: Results = {
            name: [] for name in (*(vertex.name for vertex in self._graph.sinks), self.errors)
        }
        # no two runs have one time, since a time has its front in it: this is the one order that there is
        for time, records in sorted(runs, key=itemgetter(0)):
            reached = self.run(sources[self._fronts[front_of(time)]], time, records)
            if on_error == "fail" and any(name == self.errors for name, _, _ in reached):
                results[self.errors] = [
                    (meta, payload) for name, meta, payload in reached if name == self.errors
                ]
                return results
            for name, meta, payload in reached:
                results[name].append((meta, payload))
        return results

    def enter(
        self, source: Vertex, meta: Meta, record: Any, place: tuple[str, int] | None = None
    ) -> list[End]:
        """Where a record comes to. `place`: its partition and offset, if they are known."""
        self._place = place
        if isinstance(record, ErrorValue):  # bad input: the source could not read it
            return [End(None, meta, 1, located(record, source.name, place))]
        return self.follow(source, meta, 1, record)

    def follow(self, start: Vertex, meta: Meta, depth: int, payload: Any) -> list[End]:
        """Where an item comes to that enters `start`, in order."""
        ends: list[End] = []
        todo = self._step(start, meta, depth, payload, ends)  # a stack: what comes first in order lies on top
        while todo:
            vertex, meta, depth, payload = todo.pop()
            if vertex.id in self._doors:
                error = self._refused(vertex, meta, payload)
                ends.append(
                    End(vertex.id, meta, depth, payload)
                    if error is None
                    else End(None, child(meta, vertex.id), depth, error)
                )
            else:
                todo += self._step(vertex, meta, depth, payload, ends)
        return ends

    def key_at(self, door: Vertex, payload: Any) -> bytes:
        """Canonical, of an item that has come to a door."""
        key: bytes = _call(door.key, payload, then=payloads.encode)
        return key

    def _refused(self, door: Vertex, meta: Meta, payload: Any) -> ErrorValue | None:
        """The error of an item whose place cannot be found."""
        try:
            self._place_of(door, payload)
        except _UserFunctionFailed as failed:
            return self._error(failed, door, meta, payload)
        return None

    def _step(
        self, vertex: Vertex, meta: Meta, depth: int, payload: Any, ends: list[End]
    ) -> list[tuple[Vertex, Meta, int, Any]]:
        """The items that one vertex makes of an item, the last one first; `ends` gets it if that is the
        end."""
        results, error = self._results(vertex, meta, depth, payload)
        if error is not None:
            ends.append(End(None, child(meta, vertex.id), depth, error))
            return []
        if vertex.kind is Kind.SINK:
            ends.append(End(vertex.id, meta, depth, payload))
            return []
        return self._sent(vertex, meta, depth, results)[::-1]

    def _sent(
        self, vertex: Vertex, meta: Meta, depth: int, results: list[Any]
    ) -> list[tuple[Vertex, Meta, int, Any]]:
        """An item for every result and edge out of `vertex`, in order."""
        sent = []
        fans_out, has_ways = vertex.kind is Kind.FLAT_MAP, len(vertex.outputs) > 1
        for index, result in enumerate(results):
            of_result = child(meta, index) if fans_out else meta
            for edge, target in enumerate(vertex.outputs):
                of_edge = child(of_result, edge) if has_ways else of_result
                # a component for the result, and one for the way: each makes the trace one deeper
                sent.append((self._graph.vertices[target], of_edge, depth + fans_out + has_ways, result))
        return sent

    def _results(
        self, vertex: Vertex, meta: Meta, depth: int, payload: Any
    ) -> tuple[list[Any], ErrorValue | None]:
        """The results of one operation on one item: all of them, or the error in their place."""
        if vertex.kind is Kind.LOOP and depth > self._graph.max_trace:
            error = ErrorValue(
                "loop",
                "LoopLimit",
                f"loop {vertex.name!r} goes round more than {vertex.max_iterations} times",
            )
            return [], self._located(error, vertex, meta, at_door=False)
        try:
            return self._applied(vertex, meta, payload), None
        except _UserFunctionFailed as failed:
            return [], self._error(failed, vertex, meta, payload)

    def _error(self, failed: _UserFunctionFailed, vertex: Vertex, meta: Meta, payload: Any) -> ErrorValue:
        return self._located(
            failure(failed.function, failed.cause, payload), vertex, meta, at_door=failed.at_door
        )

    def _located(self, error: ErrorValue, vertex: Vertex, meta: Meta, at_door: bool) -> ErrorValue:
        """With its source, and with its record's place where no door is between."""
        known = vertex.id in self._near and (at_door or not vertex.routed)
        return located(
            error,
            self._fronts.get(front_of(time_of_meta(meta)), ""),
            self._place if known else None,
            vertex.id,
        )

    def _applied(self, vertex: Vertex, meta: Meta, payload: Any) -> list[Any]:
        key = self._place_of(vertex, payload)
        if vertex.kind is Kind.ARRIVAL:
            return list(_call(vertex.function, payload, meta, then=lambda result: _bounded([result], vertex)))
        if vertex.kind is Kind.MAP:
            return list(_call(vertex.function, payload, then=lambda result: _bounded([result], vertex)))
        if vertex.kind is Kind.FLAT_MAP:
            return list(_call(vertex.function, payload, then=lambda results: _bounded(results, vertex)))
        if vertex.kind is Kind.FILTER:
            return [payload] if _call(vertex.function, payload, then=bool) else []
        if vertex.kind is Kind.GROUPING:
            return [self._window(vertex, key, payload)]
        if vertex.kind is Kind.REDUCE:
            return [self._reduced(vertex, key, payload)]
        return [payload]

    def _place_of(self, vertex: Vertex, payload: Any) -> bytes:
        """The canonical key of an item, empty where there is none. Beside state only whether it fails
        matters."""
        if vertex.key is None and vertex.balance is None:
            return b""
        try:
            key, encoded = (payload, b"") if vertex.key is None else _call(vertex.key, payload, then=_encoded)
            if vertex.balance is not None:
                _call(vertex.balance, key, then=_int32(vertex.balance))
        except _UserFunctionFailed as failed:
            failed.at_door = True
            raise
        return bytes(encoded)

    def _window(self, vertex: Vertex, key: bytes, payload: Any) -> Any:
        bucket = (vertex.id, key)
        self.state[bucket] = (*self.state.get(bucket, ()), payload)[-vertex.window :]
        return self.state[bucket]

    def _reduced(self, vertex: Vertex, key: bytes, payload: Any) -> Any:
        bucket = (vertex.id, key)
        # not `get`: an accumulator may be None. And a failed `emit` does not undo what was combined.
        before = self.state[bucket] if bucket in self.state else _call(vertex.initial, then=_any)
        self.state[bucket] = after = _call(vertex.combine, before, payload)
        return after if vertex.emit is None else _call(vertex.emit, after, payload)


def place_of(records: Sequence[Any], position: int) -> tuple[str, int] | None:
    """Partition and offset of a record of a run, where whoever gave the run says so
    (`core.worker.front.RunRecords`)."""
    record = getattr(records, "record", None)
    return None if record is None else record(position)


def _encoded(key: Any) -> tuple[Any, bytes]:
    return key, payloads.encode(key)


def _checked(value: Any) -> Any:
    payloads.check(value)
    return value


def _any(value: Any) -> Any:
    return value


def _int32(function: Function) -> Function:
    def checked(value: Any) -> int:
        if type(value) is int and -(2**31) <= value < 2**31:
            return value
        raise UserError(f"balancing function {name_of(function)} returned {value!r}: it must return an int32")

    return checked


def _bounded(values: Iterable[Any], vertex: Vertex) -> list[Any]:
    """The result of a function for one item, or an error item: the first thing that is wrong counts."""
    results, left = list[Any](), vertex.max_result_bytes
    for value in values:
        left -= payloads.checked_size(value)
        results.append(value)
        if len(results) > vertex.max_results:
            raise too_many_results(vertex.max_results)
        if left < 0:
            raise too_big_results(vertex.max_result_bytes)
    return results


def _call(function: Function | None, *arguments: Any, then: Function = _checked) -> Any:
    """The function's result after `then`; whatever either raises is the function's failure."""
    assert function is not None, "the graph's builder gives every operation its functions"
    try:
        return then(function(*arguments))
    except FATAL:  # failures of the machine, not of the record
        raise
    except Exception as error:
        raise _UserFunctionFailed(function, error) from error
