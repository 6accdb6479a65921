"""Graph: the logical dataflow that a user writes, and its validation.

A graph is a list of vertices; a vertex's id is its place in the list, and the order of its out-edges is part of the graph's meaning
(each edge out of a vertex that has several extends the trace). Vertices are plain data: the engine, the reference interpreter and the
batch runners all execute this same list.

>>> graph = Graph("count")
>>> graph.source("numbers").map(lambda n: n + 1).sink("plus-one", key=lambda n: n)
>>> [vertex.kind.value for vertex in graph.validated().vertices]
['source', 'map', 'sink']

Does not: run anything (core/dataflow/dataflow.py), or know what a payload is (model/payload.py).
Source: EDBT 2018, sections 2 and 3; `reduce` is its Fig. 5 in one vertex.
"""

import enum
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, Self, TypeAlias, TypeGuard, TypeVar, overload

from flamestream.model import fields
from flamestream.model.duration import Duration, micros
from flamestream.model.errors import GraphError
from flamestream.model.event_decoder import decoding

if TYPE_CHECKING:
    from flamestream.model.event_time import TimeOf, Timing
    from flamestream.model.windows.join import On
    from flamestream.model.windows.shapes import Shape
    from flamestream.model.windows.stream import Results
    from flamestream.model.windows.tables import Changed
    from flamestream.model.windows.windows import Windows

T = TypeVar("T")
U = TypeVar("U")
A = TypeVar("A")
Function = Callable[..., Any]
Key: TypeAlias = str | Callable[[T], Any]
"""A function of a payload, or the name of its field."""
MAX_WINDOW = 64
MAX_RESULTS = 1_000_000
MAX_RESULT_BYTES = 32 << 20
MAX_VERTICES = 4096
SHARDS = 64
MAX_SHARDS = 4096


class Kind(enum.Enum):
    """The kinds of vertices, by what they do with an item."""

    SOURCE = "source"
    MAP = "map"
    FLAT_MAP = "flat_map"
    FILTER = "filter"
    MERGE = "merge"
    GROUPING = "grouping"
    REDUCE = "reduce"
    LOOP = "loop"
    SINK = "sink"


@dataclass(slots=True)
class Vertex:
    """An operation. Fields that its kind does not use are None (or 0)."""

    id: int
    kind: Kind
    name: str
    """The source's or sink's name; for other kinds the user's function, for messages."""
    outputs: list[int] = field(default_factory=list)
    """Ids of the vertices that its results go to, in edge order."""
    function: Function | None = None
    key: Function | None = None
    """GROUPING, REDUCE: payload -> key. SINK: payload -> key (None: the payload itself)."""
    balance: Function | None = None
    """Keyed vertices: key -> int32 (None: its hash). Others: payload -> int32 (None: stay on the worker)."""
    window: int = 0
    initial: Function | None = None
    combine: Function | None = None
    """REDUCE: (accumulator, payload) -> accumulator."""
    emit: Function | None = None
    """REDUCE: (accumulator, payload) -> payload; None emits the accumulator."""
    max_iterations: int = 0
    max_results: int = MAX_RESULTS
    """FLAT_MAP: the most results of one item; one that would have more becomes an error item."""
    max_result_bytes: int = MAX_RESULT_BYTES
    """MAP, FLAT_MAP: the most bytes of all results of one item, as `payload.checked_size` counts them."""
    closed: bool = False
    """LOOP: `close` has added its back edge."""
    timing: "Timing | None" = None
    """SOURCE: how it tells its event time; None: it does not."""
    place: str = ""
    """`file.py:line` where it was added, for messages."""

    @property
    def routed(self) -> bool:
        """Whether its input goes to the worker of its slot."""
        return self.kind in (Kind.GROUPING, Kind.REDUCE, Kind.SINK) or self.balance is not None


def name_of(function: Function) -> str:
    """The name of a user's function in messages: module.qualname. A partial is called like its function, a ready-made one as it is
    written, any other callable like its class.

    It is part of error items, so it must be the same in every process: never a repr with an address in it.
    """
    if (written := getattr(function, "written", None)) is not None:
        return str(written)  # a ready-made function
    if not hasattr(function, "__qualname__"):
        return name_of(getattr(function, "func", type(function)))
    return f"{getattr(function, '__module__', '?')}.{function.__qualname__}"


class Fold(Protocol[A]):
    """A ready-made fold: it knows how it begins."""

    def initial(self) -> A: ...
    def __call__(self, accumulator: A, payload: Any, /) -> A: ...


@dataclass(frozen=True, slots=True)
class Stream(Generic[T]):
    """The results of one vertex, to be used by one or several others. Every method adds a vertex and returns its results.

    A `key` is a function of an item, or the name of its field."""

    graph: "Graph"
    vertex: int
    balanced: Function | None = None
    items: Any = None
    """The type of its items, where the graph says it (model/fields.py); None: it is not known."""
    event_time: "TimeOf | None" = None
    """The time of its items, of streams that come from a source with `at`."""

    def map(self, function: Callable[[T], U]) -> "Stream[U]":
        """A result for each item: `function(payload)`."""
        return self._applied(Kind.MAP, function, fields.result_of(function, self.items))

    def flat_map(self, function: Callable[[T], Iterable[U]]) -> "Stream[U]":
        """Any number of results an item, in order: `function(payload)`."""
        return self._applied(Kind.FLAT_MAP, function, fields.results_of(function))

    @overload
    def filter(self, function: Callable[[T], TypeGuard[U]]) -> "Stream[U]": ...
    @overload
    def filter(self, function: Callable[[T], bool]) -> "Stream[T]": ...
    def filter(self, function: Callable[[T], Any]) -> "Stream[Any]":
        """The items for which `function(payload)` is true."""
        return self._applied(Kind.FILTER, function, fields.kept_by(function, self.items))

    def merge(self, *others: "Stream[U]") -> "Stream[T | U]":
        """The items of this stream and of `others`, in global order."""
        merged = self._then(Kind.MERGE, "merge", fields.either(self.items, *(other.items for other in others)))
        for other in others:
            self.graph.connect(other.vertex, merged.vertex)
        return merged

    def broadcast(self, ways: int) -> tuple["Stream[T]", ...]:
        """This stream `ways` times: every item goes down each of them."""
        if ways < 1:
            raise GraphError(f"broadcast({ways}) in graph {self.graph.name!r}: it needs at least one way")
        return (self,) * ways

    def group(self, window: int, key: Key[T]) -> "Stream[tuple[T, ...]]":
        """A tuple for each item: the last `window` payloads with its key, itself the last; shorter at a key's beginning."""
        if not 1 <= window <= MAX_WINDOW:
            raise GraphError(f"group(window={window}) in graph {self.graph.name!r}: a window holds 1 to {MAX_WINDOW} items")
        key = self._key(key)
        return self._then(Kind.GROUPING, name_of(key), tuple, key=key, window=window)

    @overload
    def reduce(
        self, *, key: Key[T], combine: Fold[A], initial: None = None, emit: None = None, fused: bool = True,
        ttl: Duration | None = None,
    ) -> "Stream[A]": ...  # fmt: skip
    @overload
    def reduce(
        self,
        *,
        key: Key[T],
        combine: Fold[A],
        initial: None = None,
        emit: Callable[[A, T], U],
        fused: bool = True,
        ttl: Duration | None = None,
    ) -> "Stream[U]": ...
    @overload
    def reduce(
        self,
        *,
        key: Key[T],
        combine: Callable[[A, T], A],
        initial: Callable[[], A],
        emit: None = None,
        fused: bool = True,
        ttl: Duration | None = None,
    ) -> "Stream[A]": ...
    @overload
    def reduce(
        self,
        *,
        key: Key[T],
        combine: Callable[[A, T], A],
        initial: Callable[[], A],
        emit: Callable[[A, T], U],
        fused: bool = True,
        ttl: Duration | None = None,
    ) -> "Stream[U]": ...
    def reduce(
        self,
        *,
        key: Key[T],
        combine: Function,
        initial: Function | None = None,
        emit: Function | None = None,
        fused: bool = True,
        ttl: Duration | None = None,
    ) -> "Stream[Any]":
        """Fold the items of each key in global order, with a result an item.

        `accumulator = combine(accumulator, payload)` starting from `initial()`; the result is `emit(accumulator, payload)`, or the
        accumulator itself. Ready-made folds (`fs.append`, `fs.count`, `fs.total`) know how they begin. `fused=False` builds the same
        from grouping(2) and a cycle, as in the paper; the results are equal. `ttl`: a key is forgotten when it has been silent for this
        long of event time; what comes then begins anew, and `.late` has what is older than the mark and finds no key.
        """
        key, initial = self._key(key), initial or getattr(combine, "initial", None)
        if initial is None:
            raise GraphError(
                f"reduce with combine={name_of(combine)} in graph {self.graph.name!r} needs initial=, a function without arguments"
            )
        for function in (combine, emit):
            fields.check_function(self.items, function, call_site(), folded=True)
        if ttl is not None:
            from flamestream.model.windows.expiry import expiring

            return expiring(self, key, initial, combine, emit, ttl)
        if not fused:
            from flamestream.model.unfused import unfused_reduce

            return unfused_reduce(self, key, initial, combine, emit)
        made = fields.result_of(combine if emit is None else emit)
        return self._then(Kind.REDUCE, name_of(combine), made, key=key, initial=initial, combine=combine, emit=emit)

    def balance(self, function: Callable[[Any], int]) -> "Stream[T]":
        """Place the next operation's work by `function`, which gives an int32 from its key (or from the payload if it has no key)."""
        return Stream(self.graph, self.vertex, function, self.items, self.event_time)

    def window(self, shape: "Shape", *, key: Key[T]) -> "Windows[T]":
        """Windows over the event time of each key's items: say next what becomes of them, as in `.window(...).count()`.

        `shape`: `fs.tumbling("1m")`, `fs.sliding("10m", every="1m")` or `fs.session("30m")`. Raises GraphError if no source has `at`.
        """
        from flamestream.model.windows.windows import Windows

        return Windows(self, shape, self._key(key))

    @overload
    def join(
        self, other: "Stream[U]", *, on: "On", within: tuple[Duration, Duration] | None = None, how: Literal["inner"] = "inner",
        unbounded: bool = False,
    ) -> "Results[tuple[T, U]]": ...  # fmt: skip
    @overload
    def join(
        self, other: "Stream[U]", *, on: "On", within: tuple[Duration, Duration] | None = None, how: Literal["left"],
        unbounded: bool = False,
    ) -> "Results[tuple[T, U | None]]": ...  # fmt: skip
    @overload
    def join(
        self, other: "Stream[U]", *, on: "On", within: tuple[Duration, Duration] | None = None, how: str,
        unbounded: bool = False,
    ) -> "Results[tuple[T | None, U | None]]": ...  # fmt: skip
    def join(
        self, other: "Stream[Any]", *, on: "On", within: tuple[Duration, Duration] | None = None, how: str = "inner",
        unbounded: bool = False,
    ) -> "Results[Any]":  # fmt: skip
        """Pairs (item, item of `other`) with equal keys and times near each other.

        `on`: a field or function for both streams, or a pair of them. `within`: the other's time less this one's is between these, as in
        `("-5s", "5s")`. `how="left"` or `"full"`: what has met none leaves with None, when it can meet none any more. `unbounded=True`
        instead of `within` keeps every item for ever. Raises GraphError.
        """
        from flamestream.model.windows.join import joined

        return joined(self, other, on, within, how, unbounded)

    @overload
    def join_latest(self, other: "Stream[U]", *, on: "On", how: Literal["inner"] = "inner") -> "Results[tuple[T, U]]": ...
    @overload
    def join_latest(self, other: "Stream[U]", *, on: "On", how: str) -> "Results[tuple[T, U | None]]": ...
    def join_latest(self, other: "Stream[Any]", *, on: "On", how: str = "inner") -> "Results[Any]":
        """Pairs (item, the newest item of `other` with its key that is not younger), final when the mark has passed the item's time.

        `how="left"`: an item for which there is none leaves with None. Raises GraphError.
        """
        from flamestream.model.windows.latest import joined_latest

        return joined_latest(self, other, on, how)

    def join_table(self, other: "Stream[Any]", *, on: "On", how: str = "inner") -> "Stream[Changed]":
        """How the join of two tables changes: `fs.Changed(before, after)` of pairs, for each item that changes it.

        A table has the last item of each key, in global order; no event time is needed. `how="left"` or `"full"`: rows without a
        partner are in the join too, with None. Raises GraphError.
        """
        from flamestream.model.windows.tables import joined_tables

        return joined_tables(self, other, on, how)

    def dedup(self, key: Key[T], *, within: Duration) -> "Results[T]":
        """The items, but for those whose key came already at a time at most `within` earlier or later. Raises GraphError."""
        from flamestream.model.windows.dedup import deduplicated

        return deduplicated(self, self._key(key), within)

    def distinct_count(self, value: Key[T], *, key: Key[T]) -> "Stream[tuple[Any, int]]":
        """(key, how many different values it has had so far) for each item."""
        from flamestream.model.windows.running import running_distinct

        return running_distinct(self, self._key(value), self._key(key))

    def top(self, count: int, *, by: Key[T], key: Key[T]) -> "Stream[tuple[Any, tuple[T, ...]]]":
        """(key, a tuple of its `count` items with the greatest `by` so far) for each item: the greatest first, the earlier of equal ones
        before the later. Raises GraphError."""
        from flamestream.model.windows.running import running_top

        return running_top(self, count, self._key(by), self._key(key))

    def process(self, *, key: Key[T], on_item: Function, on_time: Function | None = None, due: Function | None = None) -> "Results[Any]":
        """Pure functions of one's own with a state for each key, and times to be called at.

        `on_item(state, item, now)` gives (state, results): `state` is None at the beginning, and a key whose state is None is forgotten;
        `now.time` is the item's, `now.mark` how far event time has come, or None. `due(state)` gives the next time at which
        `on_time(state, time)` is to be called, or None; one that has been is called at once. Times are as items say
        them. Raises GraphError.
        """
        from flamestream.model.windows.own import processed_by

        return processed_by(self, self._key(key), on_item, on_time, due)

    def sink(self, name: str, key: Key[T] | None = None) -> None:
        """Deliver the items to the sink `name` of the manifest. Items with equal keys stay in order in one slot."""
        if any(v.kind is Kind.SINK and v.name == name for v in self.graph.vertices):
            raise GraphError(f"graph {self.graph.name!r} has two sinks named {name!r}: merge the streams, or give each its own name")
        self._then(Kind.SINK, name, key=None if key is None else self._key(key))

    def _key(self, key: Key[T]) -> Function:
        return fields.key_of(self.items, key, call_site())

    def _applied(self, kind: Kind, function: Function, makes: Any) -> "Stream[Any]":
        fields.check_function(self.items, function, call_site())
        for_kind = getattr(function, "for_kind", None)  # a vectorised function has a form for each kind (flamestream/columns)
        function = function if for_kind is None else for_kind(kind, self.graph.max_results, self.graph.max_result_bytes)
        return self._then(kind, name_of(function), makes, function=function)

    def _then(self, kind: Kind, name: str, makes: Any = None, **of_vertex: Any) -> "Stream[Any]":
        added = self.graph.add(kind, name, balance=self.balanced, **of_vertex)
        self.graph.connect(self.vertex, added)
        return Stream(self.graph, added, items=makes, event_time=self.event_time)


@dataclass(frozen=True, slots=True)
class Loop(Stream[T]):
    """The head of a cycle: a stream of what `close` sends back."""

    def close(self, back: Stream[T]) -> None:
        """Send the items of `back` round again."""
        head = self.graph.vertices[self.vertex]
        if head.closed:
            raise GraphError(f"loop {head.name!r} in graph {self.graph.name!r} is closed twice: merge the streams before closing it")
        self.graph.connect(back.vertex, self.vertex)
        head.closed = True
        head.balance = back.balanced


class Graph:
    """A dataflow under construction; `validated()` checks it.

    `step`: event time goes in whole steps: what is due within one is done at its end. `shards`: in how many parts keys of windows and
    joins are worked on, so the most workers that can share them (windows/marks.py).
    `max_results`: how many results a flat_map may make of one item, and `max_result_bytes`: how many bytes a map or flat_map. More is an
    error of that item, so a function that never ends costs no more than this. They decide results, so they are part of the graph.
    Raises GraphError if one is below 1.
    """

    def __init__(
        self, name: str, *, max_results: int = MAX_RESULTS, max_result_bytes: int = MAX_RESULT_BYTES, step: Duration = "1s",
        shards: int = SHARDS,
    ) -> None:  # fmt: skip
        if min(max_results, max_result_bytes) < 1:
            raise GraphError(f"graph {name!r}: max_results and max_result_bytes must be at least 1")
        self.name, self.max_results, self.max_result_bytes = name, max_results, max_result_bytes
        self.vertices: list[Vertex] = []
        self.step = micros(step, f"graph {name!r}: step", least=1)
        if not 1 <= shards <= MAX_SHARDS:
            raise GraphError(f"graph {name!r}: shards={shards}: there are 1 to {MAX_SHARDS}")
        self.shards = shards
        self.marks: dict[frozenset[str], Stream[Any]] = {}
        """What marks are made of, by the sources whose event time they tell (windows/marks.py)."""

    @overload
    def source(
        self, name: str, decode: None = None, *, at: Key[Any] | None = None, unit: str | None = None, late: Duration = "0s",
        idle: Duration | None = None, max_ahead: Duration | None = None,
    ) -> Stream[Any]: ...  # fmt: skip
    @overload
    def source(
        self, name: str, decode: type[T] | Callable[[Any], T], *, at: Key[T] | None = None, unit: str | None = None, late: Duration = "0s",
        idle: Duration | None = None, max_ahead: Duration | None = None,
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
    ) -> Stream[Any]:
        """The records of the source `name` of the manifest; `decode` makes an event of each.

        `decode`: a class with @fs.event, whose instances `fs.decoder` makes of text, rows and Kafka's records, or a function. With `str`,
        `fs.Map` or another class that sources give themselves, records stay what they are.
        `at`: a field or a function that gives the event time of a record, an aware datetime, or an int of `unit` ("us", "ms", "s").
        `late`: how far a record may be behind the greatest time of its partition. `idle`: a partition without records for so long is not
        waited for. `max_ahead`: a record that far ahead of all that has come moves nothing. Raises GraphError, and PayloadError if a
        class or one of its fields is no payload.
        """
        if any(v.kind is Kind.SOURCE and v.name == name for v in self.vertices):
            raise GraphError(f"graph {self.name!r} has two sources named {name!r}: use the first one's stream twice")
        items, decode = fields.result_of(decode), decoding(decode)
        if at is None:
            if unit or idle or max_ahead or late != "0s":
                raise GraphError(f"source {name!r} in graph {self.name!r}: unit, late, idle and max_ahead mean nothing without at")
            records: Stream[Any] = Stream(self, self.add(Kind.SOURCE, name), items=items)
            return records if decode is None else replace(records, items=None).map(decode)
        from flamestream.model.windows.stream import timed_source

        at = fields.key_of(items, at, call_site())
        return replace(timed_source(self, name, decode, at, unit, late, idle, max_ahead), items=items)

    def loop(self, name: str, max_iterations: int) -> Loop[Any]:
        """Begin a cycle; merge it into a stream and `close` it with what goes round. An item goes round `max_iterations` times at most."""
        if max_iterations < 1:
            raise GraphError(f"loop {name!r} in graph {self.name!r}: max_iterations must be at least 1")
        return Loop(self, self.add(Kind.LOOP, name, max_iterations=max_iterations))

    def run(self, **inputs: Iterable[Any]) -> dict[str, list[Any]]:
        """What each sink gets if these are all records of the sources, by the reference interpreter: for tests and notebooks.

        Sources come one after the other, and then end. Raises UserError for the first error item, GraphError for a source that is none.
        """
        from flamestream.reference import run  # it stands above the model, and is what a graph means

        return run(self, inputs)

    def add(self, kind: Kind, name: str, **of_vertex: Any) -> int:
        """Append a vertex and return its id."""
        vertex = Vertex(len(self.vertices), kind, name, place=call_site(), **of_vertex)
        vertex.max_results, vertex.max_result_bytes = self.max_results, self.max_result_bytes
        self.vertices.append(vertex)
        return len(self.vertices) - 1

    def connect(self, start: int, end: int) -> None:
        """Add an edge, the last of `start`."""
        self.vertices[start].outputs.append(end)

    @property
    def sources(self) -> Sequence[Vertex]:
        """Its sources, in the order they were added: the front of a source has its index here unless the manifest gives it several."""
        return [v for v in self.vertices if v.kind is Kind.SOURCE]

    @property
    def sinks(self) -> Sequence[Vertex]:
        return [v for v in self.vertices if v.kind is Kind.SINK]

    @property
    def near(self) -> frozenset[int]:
        """Ids of the vertices that items come to from sources alone: no grouping, reduce or `balance` on any way, so on the worker that
        read the record and in the pass in which it entered."""
        near = {v.id for v in self.vertices}
        for vertex in self.vertices:
            if vertex.routed:
                near -= self.reachable(vertex.id)
        return frozenset(near)

    @property
    def max_trace(self) -> int:
        """The most components that a trace can have: longer means that a loop did not end within its `max_iterations`."""
        rounds = 1 + sum(v.max_iterations for v in self.vertices)
        return 1 + 2 * len(self.vertices) * rounds

    @property
    def identity(self) -> str:
        """The identity that a snapshot must match: kinds, names of sources and sinks, windows, edges. Function bodies may change."""
        named = {Kind.SOURCE, Kind.SINK}
        shape = (f"{v.id}:{v.kind.value}:{v.name if v.kind in named else ''}:{v.window}:{v.outputs}" for v in self.vertices)
        timed = f"step={self.step}:shards={self.shards}|" if any(source.timing for source in self.sources) else ""
        return f"{self.name}|{timed}" + "|".join(shape)

    def validated(self) -> Self:
        """Itself. Raises GraphError that names the vertex if it cannot be run."""
        _check_ends(self)
        for head in (v for v in self.vertices if v.kind is Kind.LOOP):
            _check_loop(self, head)
        return self

    def reachable(self, start: int) -> set[int]:
        """Ids of all vertices that results of `start` can reach."""
        seen: set[int] = set()
        todo = list(self.vertices[start].outputs)
        while todo:
            vertex = todo.pop()
            if vertex not in seen:
                seen.add(vertex)
                todo.extend(self.vertices[vertex].outputs)
        return seen


def call_site() -> str:
    """`file.py:line` of the innermost caller outside of this package: the user's line that adds a vertex."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "flamestream":
        frame = frame.f_back
    assert frame is not None, "Python has frames"
    return f"{str(frame.f_globals.get('__name__')).replace('.', '/')}.py:{frame.f_lineno}"


def _check_ends(graph: Graph) -> None:
    if not graph.sources:
        raise GraphError(f"graph {graph.name!r} has no source: begin with graph.source(name)")
    if not graph.sinks:
        raise GraphError(f"graph {graph.name!r} has no sink: end a stream with .sink(name, key=...)")
    if len(graph.vertices) > MAX_VERTICES:  # a code generator's mistake; `reachable` walks the graph once a vertex
        raise GraphError(f"graph {graph.name!r} has {len(graph.vertices)} vertices, more than {MAX_VERTICES}")
    for vertex in graph.vertices:
        if vertex.kind is not Kind.SINK and not vertex.outputs:
            raise GraphError(
                f"{vertex.kind.value} {vertex.name!r} in graph {graph.name!r} leads nowhere: end it with .sink(...), or remove it"
            )


def _check_loop(graph: Graph, head: Vertex) -> None:
    if not head.closed:
        raise GraphError(f"loop {head.name!r} in graph {graph.name!r} is never closed: call .close(stream) with what goes round")
    ahead = graph.reachable(head.id)
    if head.id not in ahead:
        raise GraphError(
            f"loop {head.name!r} in graph {graph.name!r} does not lead back to itself: merge it into the stream that closes it"
        )
    cycle = {v for v in ahead if head.id in graph.reachable(v)}
    if not any(len(graph.vertices[v].outputs) > 1 for v in cycle):
        raise GraphError(f"loop {head.name!r} in graph {graph.name!r} has no way out: nothing that enters it can reach a sink")
    if not any(graph.vertices[v].kind in (Kind.FILTER, Kind.FLAT_MAP, Kind.GROUPING) for v in cycle):
        raise GraphError(f"loop {head.name!r} in graph {graph.name!r} never ends: it needs a filter, flat_map or group inside")
