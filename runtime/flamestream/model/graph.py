"""Graph: the logical dataflow that a user writes, and its validation.

A graph is a list of vertices; a vertex's id is its place in the list, and the order of its out-edges is part
of the graph's meaning (each edge out of a vertex that has several extends the trace). Vertices are plain
data: the engine, the reference interpreter and the batch runners all execute this same list.

>>> graph = Graph("count")
>>> graph.source("numbers").map(lambda n: n + 1).sink("plus-one", key=lambda n: n)
>>> [vertex.kind.value for vertex in graph.validated().vertices]
['source', 'map', 'sink']

Does not: run anything (core/dataflow/dataflow.py), or know what a payload is (model/payload.py).
Source: EDBT 2018, sections 2 and 3; `reduce` is its Fig. 5 in one vertex.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, TypeVar, overload

from flamestream.model import fields
from flamestream.model.calls.loops import check_loops
from flamestream.model.duration import Duration, Micros, micros
from flamestream.model.errors import GraphError
from flamestream.model.event_decoder import decoding
from flamestream.model.payloads.encoding import SCALARS
from flamestream.model.state_names import TABLES, Operation, check_names, operations_of
from flamestream.model.stream import Key, Loop, Stream
from flamestream.model.vertex import MAX_RESULT_BYTES, MAX_RESULTS, Function, Kind, Vertex, call_site, name_of

if TYPE_CHECKING:
    from flamestream.model.tables.ledger import Ledger, Table
    from flamestream.model.tables.subgraph import Inside, Subgraph

T = TypeVar("T")
V = TypeVar("V")
Clock: TypeAlias = Literal["arrival"]
"""Clocks that event time may be of."""
MAX_VERTICES = 4096
SHARDS = 64
MAX_SHARDS = 4096


class Graph:
    """A dataflow under construction; `validated()` checks it.

    `step`: event time goes in whole steps: what is due within one is done at its end. `shards`: in how many
    parts keys of windows and joins are worked on, so the most workers that can share them (windows/marks.py).
    `max_results`: how many results a flat_map may make of one item, and `max_result_bytes`: how many bytes a
    map or flat_map. More is an error of that item, so a function that never ends costs no more than this.
    They decide results, so they are part of the graph. Raises GraphError if one is below 1.
    """

    transactional: ClassVar = False
    """Whether its operations are those of one transaction (tables/subgraph.py)."""

    def __init__(
        self, name: str, *, max_results: int = MAX_RESULTS, max_result_bytes: int = MAX_RESULT_BYTES,
        step: Duration = "1s", shards: int = SHARDS,
    ) -> None:  # fmt: skip
        if min(max_results, max_result_bytes) < 1:
            raise GraphError(f"graph {name!r}: max_results and max_result_bytes must be at least 1")
        self.name, self.max_results, self.max_result_bytes = name, max_results, max_result_bytes
        self.vertices: list[Vertex] = []
        self.step = micros(step, f"graph {name!r}: step", least=1)
        if not 1 <= shards <= MAX_SHARDS:
            raise GraphError(f"graph {name!r}: shards={shards}: there are 1 to {MAX_SHARDS}")
        self.shards = shards
        self.marks: dict[frozenset[str], tuple[Stream[Any], int]] = {}
        """The stream that marks are made of, and the vertex at which progress enters, by the sources whose
        event time
        they tell (windows/marks.py)."""
        self.ledger: Ledger | None = None
        """Its tables, if it has any (tables/ledger.py)."""
        self.opened: Inside | None = None
        """The transactional subgraph that is under construction."""

    @overload
    def source(
        self, name: str, decode: None = None, *, at: Key[Any] | None = None, unit: str | None = None,
        late: Duration = "0s", idle: Duration | None = None, max_ahead: Duration | None = None,
        clock: Clock | None = None,
    ) -> Stream[Any]: ...  # fmt: skip
    @overload
    def source(
        self, name: str, decode: type[T] | Callable[[Any], T], *, at: Key[T] | None = None,
        unit: str | None = None, late: Duration = "0s", idle: Duration | None = None,
        max_ahead: Duration | None = None, clock: Clock | None = None,
    ) -> Stream[T]: ...  # fmt: skip
    def source(
        self,
        name: str,
        decode: Function | None = None,
        *,
        at: Key[Any] | None = None,
        unit: str | None = None,
        late: Duration = "0s",
        idle: Duration | None = None,
        max_ahead: Duration | None = None,
        clock: Clock | None = None,
    ) -> Stream[Any]:
        """The records of the source `name` of the manifest; `decode` makes an event of each.

        `decode`: a class with @fs.event, whose instances `fs.decoder` makes of text, rows and Kafka's
        records, or a function. With `str`, `fs.Map` or another class that sources give themselves, records
        stay what they are. `at`: a field or a function that gives the event time of a record, an aware
        datetime, or an int of `unit` ("us", "ms", "s"). `late`: how far a record may be behind the greatest
        time of its partition. `idle`: a partition without records for so long is not waited for. `max_ahead`:
        a record that far ahead of all that has come moves nothing. `clock="arrival"` instead of all these:
        event time is when a record arrives, as the journal has it. Raises GraphError, and PayloadError if a
        class or one of its fields is no payload.
        """
        self._check_new(name)
        items, decode = fields.result_of(decode), decoding(decode)
        self._check_clock(name, clock, at)
        if at is None:
            if unit or idle or max_ahead or late != "0s":
                raise GraphError(
                    f"source {name!r} in graph {self.name!r}: unit, late, "
                    "idle and max_ahead mean nothing without at"
                )
            if clock is not None:
                from flamestream.model.windows.stream import arriving_source

                return replace(arriving_source(self, name, decode), items=items)
            records: Stream[Any] = Stream(self, self.add(Kind.SOURCE, name), items=items)
            # Before `decode` items are what the source gives, of which the graph knows nothing.
            return records if decode is None else replace(records, items=None).map(decode)
        from flamestream.model.windows.stream import timed_source

        at = fields.key_of(items, at, call_site())
        check_unit(
            f"{call_site()}: source {name!r} in graph {self.name!r}", at, fields.result_of(at, items), unit
        )
        return replace(timed_source(self, name, decode, at, unit, late, idle, max_ahead), items=items)

    def _check_clock(self, name: str, clock: Clock | None, at: Key[Any] | None) -> None:
        if clock not in (None, "arrival"):
            raise GraphError(
                f'source {name!r} in graph {self.name!r}: clock={clock!r} is unknown: it is "arrival", or '
                "left out"
            )
        if clock is not None and at is not None:
            raise GraphError(
                f"source {name!r} in graph {self.name!r}: "
                f"its event time is either at= or clock={clock!r}, not both"
            )

    def _check_new(self, name: str) -> None:
        if any(v.kind is Kind.SOURCE and v.name == name for v in self.vertices):
            raise GraphError(
                f"graph {self.name!r} has two sources named {name!r}: use the first one's stream twice"
            )

    def clock(self, name: str, *, every: Duration) -> Stream[datetime]:
        """The moments that are whole multiples of `every` since 1970, in UTC, each as the clock passes it: a
        stream in event time.

        No source of the manifest: what the clock said is in the job's journal, and a replay says it again.
        Moments that nobody could see, because the job was down, are not made up for. Raises GraphError, also
        for less than 1ms.
        """
        from flamestream.model.windows.stream import ticking_source

        self._check_new(name)
        ticks = micros(every, f"clock {name!r} in graph {self.name!r}: every", least=1_000)
        return replace(ticking_source(self, name, ticks), items=datetime)

    def table(
        self, name: str, *, initial: Callable[[], V], check: Callable[[Any, V], bool] | None = None, was: str = ""
    ) -> "Table[Any, V]":  # fmt: skip
        """A table, whose rows transactions read and write (`stream.transact`).

        `initial`: gives the value of a row that nobody has written. `check`: `check(key, value)` is true of
        every row that a transaction may leave; one that leaves another is aborted. `was`: the name that the table
        had when its first rows were written, if that is another. Raises GraphError for two of a name.
        """
        from flamestream.model.tables.ledger import added_table
        from flamestream.model.tables.transaction import Rules

        return added_table(self, name, Rules(initial, check, was))

    def transaction(self) -> "Subgraph":
        """A transactional subgraph: `with graph.transaction() as transaction:`, and within it
        `transaction.open(stream)` and `transaction.close(stream)`.

        Each item that enters is one transaction: whatever it leads to in there changes all of the state, or
        nothing. What is opened has map, filter, flat_map, merge, group, reduce, transact and upsert. Folds have a
        `name`, of which their state is a table, and may have a `check`. What `close` gives has `.committed` and
        `.aborted`.
        """
        from flamestream.model.tables.subgraph import Subgraph

        return Subgraph(self)

    def loop(self, name: str, max_iterations: int) -> Loop[Any]:
        """Begin a cycle; merge it into a stream and `close` it with what goes round. An item may go round
        `max_iterations` times. One that goes on far beyond becomes an error item: its trace is too long
        (`max_trace`), but nobody counts rounds. Where the loop leads through a call they are counted, and the
        outside is asked no more than that (model/calls/loops.py)."""
        if max_iterations < 1:
            raise GraphError(f"loop {name!r} in graph {self.name!r}: max_iterations must be at least 1")
        return Loop(self, self.add(Kind.LOOP, name, max_iterations=max_iterations))

    def run(self, **inputs: Iterable[Any]) -> dict[str, list[Any]]:
        """Run the graph by the reference interpreter, for tests and notebooks: the results of each sink if
        these are all records of the sources.

        Sources come one after the other, and then end. Raises UserError for the first error item, GraphError
        for a source that is none.
        """
        from flamestream.lists import run  # it stands above the model, and is what a graph means

        return run(self, inputs)

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        from flamestream.job.plan.picture import svg  # as above

        return svg(self)

    def add(self, kind: Kind, name: str, **of_vertex: Any) -> int:
        """Append a vertex and return its id. Raises GraphError within a transaction."""
        if self.opened is not None:
            raise GraphError(
                f"{call_site()}: {kind.value} {name!r} cannot stand inside the transaction that begins at "
                f"{self.opened.began}: put it before or behind"
            )
        vertex = Vertex(len(self.vertices), kind, name, place=call_site(), **of_vertex)
        # A vertex has its own: those of ours that hand on what is there already are unlimited
        # (windows/marks.py).
        vertex.max_results, vertex.max_result_bytes = self.max_results, self.max_result_bytes
        self.vertices.append(vertex)
        return len(self.vertices) - 1

    def connect(self, start: int, end: int) -> None:
        """Add an edge, the last of `start`."""
        self.vertices[start].outputs.append(end)

    @property
    def sources(self) -> Sequence[Vertex]:
        """Sources of the graph, in the order they were added: the front of a source has its index here unless
        the manifest gives it several."""
        return [v for v in self.vertices if v.kind is Kind.SOURCE]

    @property
    def clocks(self) -> dict[str, Micros]:
        """Clocks of the graph, and the time between two moments of each: sources that are in no manifest."""
        return {
            v.name: v.timing.every
            for v in self.sources
            if v.timing is not None and v.timing.every is not None
        }

    @property
    def calls(self) -> dict[str, Vertex]:
        """The sinks that its calls' requests go to, by the call's name: neither they nor the sources of the
        same names are in a manifest."""
        return {v.name: v for v in self.sinks if v.call is not None}

    @property
    def sinks(self) -> Sequence[Vertex]:
        return [v for v in self.vertices if v.kind is Kind.SINK]

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operations with state, each with the name that its state is found by."""
        return operations_of(self.vertices)

    @property
    def kept(self) -> dict[str, int]:
        """The vertex of each state that can be asked for by name: of tables, and of operations."""
        vertices = {each.name: each.place for each in self.operations if each.place is not None}
        of_tables = vertices.pop(TABLES, None)
        if self.ledger is None or of_tables is None:
            return vertices
        return {**dict.fromkeys(self.ledger.deciding.rules, of_tables), **vertices}

    @property
    def near(self) -> frozenset[int]:
        """Ids of the vertices that items come to from sources alone: no grouping, reduce or `balance` on any
        way, so on the worker that read the record and in the pass in which it entered."""
        near = {v.id for v in self.vertices}
        for vertex in self.vertices:
            if vertex.routed:
                # What is behind it, and not itself: at its door an item is still where its record was read.
                near -= self.reachable(vertex.id)
        return frozenset(near)

    @property
    def max_trace(self) -> int:
        """The most components that a trace can have: longer means that a loop did not end within its
        `max_iterations`."""
        # Read off a trace, so no count of rounds travels with an item; it bounds all loops together and
        # counts none exactly. A vertex adds two components at most: the index of a result, and the edge.
        rounds = 1 + sum(v.max_iterations for v in self.vertices)
        return 1 + 2 * len(self.vertices) * rounds

    @property
    def identity(self) -> str:
        """The identity that all workers of a run must have: kinds, names of sources and sinks, windows,
        edges. Function bodies may change. (A snapshot's state is found by name, see `operations`.)"""
        named = {Kind.SOURCE, Kind.SINK}
        shape = (
            f"{v.id}:{v.kind.value}:{(v.placed or v.name) if v.kind in named else ''}:{v.window}:{v.outputs}"
            for v in self.vertices
        )
        # Steps and shards are in the states and keys of programs; a graph without event time has neither.
        timed = (
            f"step={self.step}:shards={self.shards}|" if any(source.timing for source in self.sources) else ""
        )
        # A tick's offset is its number since 1970: with another `every`, journalled offsets would be other
        # moments.
        clocks = "".join(f"{name} every {every}|" for name, every in self.clocks.items())
        return f"{self.name}|{timed}{clocks}" + "|".join(shape)

    def validated(self) -> Self:
        """Itself. Raises GraphError that names the vertex if it cannot be run."""
        _check_ends(self)
        check_names(self.vertices, self.name)
        for head in (v for v in self.vertices if v.kind is Kind.LOOP):
            _check_loop(self, head)
        check_loops(self)
        return self

    def reachable(self, start: int, *, through_calls: bool = False) -> set[int]:
        """Ids of all vertices that results of `start` can reach; `through_calls`: what they ask for, too."""
        asked = {vertex.name: [vertex.id] for vertex in self.sources if vertex.call and through_calls}
        ahead = [
            vertex.outputs or (asked.get(vertex.name, []) if vertex.call else []) for vertex in self.vertices
        ]
        seen: set[int] = set()
        todo = list(ahead[start])
        while todo:
            vertex = todo.pop()
            if vertex not in seen:
                seen.add(vertex)
                todo.extend(ahead[vertex])
        return seen


def check_unit(where: str, at: Function, made: Any, unit: str | None) -> None:
    """Raises GraphError if the type of event times is known, and is not what `unit` makes of them."""
    wanted = datetime if unit is None else int
    if (made is datetime or made in SCALARS) and made is not wanted:
        hint = (
            'say unit="us", "ms" or "s"'
            if made is int
            else "leave out unit="
            if made is datetime
            else "say at= with a datetime or an int"
        )
        said = "without unit=" if unit is None else f"with unit={unit!r}"
        raise GraphError(
            f"{where}: {name_of(at)} is of {made.__name__}, "
            f"and {said} event times are of {wanted.__name__}: {hint}"
        )


def _check_ends(graph: Graph) -> None:
    if not graph.sources:
        raise GraphError(f"graph {graph.name!r} has no source: begin with graph.source(name)")
    if not graph.sinks:
        raise GraphError(f"graph {graph.name!r} has no sink: end a stream with .sink(name, key=...)")
    # a code generator's mistake; `reachable` walks the graph once a vertex
    if len(graph.vertices) > MAX_VERTICES:
        raise GraphError(f"graph {graph.name!r} has {len(graph.vertices)} vertices, more than {MAX_VERTICES}")
    for vertex in graph.vertices:
        used_beside = vertex.beside is not None and len(graph.vertices[vertex.beside].outputs) > 1
        is_asked = bool(vertex.given)  # its state has a name
        if vertex.kind is not Kind.SINK and not vertex.outputs and not used_beside and not is_asked:
            name = repr(vertex.name) if vertex.beside is None else graph.vertices[vertex.beside].name
            raise GraphError(
                f"{vertex.place}: {vertex.kind.value} {name} in graph {graph.name!r} leads nowhere: end it "
                "with .sink(...), or remove it"
            )


def _check_loop(graph: Graph, head: Vertex) -> None:
    if not head.closed:
        raise GraphError(
            f"loop {head.name!r} in graph {graph.name!r} is never closed: "
            "call .close(stream) with what goes round"
        )
    ahead = graph.reachable(head.id, through_calls=True)
    if head.id not in ahead:
        raise GraphError(
            f"loop {head.name!r} in graph {graph.name!r} does not lead back to itself: merge it into the "
            "stream that closes it"
        )
    cycle = {v for v in ahead if head.id in graph.reachable(v, through_calls=True)}
    if not any(len(graph.vertices[v].outputs) > 1 for v in cycle):
        raise GraphError(
            f"loop {head.name!r} in graph {graph.name!r} has no way out: "
            "nothing that enters it can reach a sink"
        )
    if not any(graph.vertices[v].kind in (Kind.FILTER, Kind.FLAT_MAP) for v in cycle):
        raise GraphError(
            f"loop {head.name!r} in graph {graph.name!r} never ends: it needs a filter or flat_map inside"
        )
