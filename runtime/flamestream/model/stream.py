"""Stream: the results of a vertex, and every operation that a user can put behind them.

It is longer than other modules: type checkers want a signature for each way that a method is called.

Does not: keep the graph (graph.py), or know what programs in event time do (windows/).
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    TypeGuard,
    TypeVar,
    Unpack,
    overload,
)

from flamestream.model import fields
from flamestream.model.at import AtFunction
from flamestream.model.duration import Duration
from flamestream.model.errors import GraphError
from flamestream.model.state_names import Named, Versioned, said
from flamestream.model.vertex import Function, Kind, call_site, name_of

if TYPE_CHECKING:
    from typing_extensions import TypeVar as WithDefault

    from flamestream.model.calls.call import Asks, AsksTogether
    from flamestream.model.calls.stream import Said
    from flamestream.model.event_time import TimeOf
    from flamestream.model.graph import Graph
    from flamestream.model.tables.ledger import Table, Transacted
    from flamestream.model.tables.transaction import State
    from flamestream.model.windows.own import Here
    from flamestream.model.windows.shapes import Shape
    from flamestream.model.windows.stream import Results
    from flamestream.model.windows.tables import Changed
    from flamestream.model.windows.windows import Windows

    K = WithDefault("K", default=Any)  # a key that is the name of a field says nothing of its type

T = TypeVar("T")
U = TypeVar("U")
A = TypeVar("A")
Key: TypeAlias = str | Callable[[T], Any]
"""A function of a payload, or the name of its field."""
On: TypeAlias = str | Callable[[T | U], Any] | tuple[Key[T], Key[U]]
"""A key of the items of two streams, or one of each."""
MAX_WINDOW = 64


class Fold(Protocol[A]):
    """A ready-made fold: it knows how it begins."""

    def initial(self) -> A: ...
    def __call__(self, accumulator: A, payload: Any, /) -> A: ...


@dataclass(frozen=True, slots=True)
class Stream(Generic[T]):
    """The results of one vertex, to be used by one or several others. Every method adds a vertex and returns
    its results.

    A `key` is a function of an item, or the name of its field."""

    graph: "Graph"
    vertex: int
    balanced: Function | None = None
    items: Any = None
    """The type of its items, where the graph says it (model/fields.py); None: it is not known."""
    event_time: "TimeOf | None" = None
    """The time of its items, of streams that come from a source with `at`."""

    def map(self, function: "Callable[[T], U] | AtFunction[T, U]") -> "Stream[U]":
        """A result for each item: `function(payload)`, or `fs.at(function)`, which knows its place too."""
        if isinstance(function, AtFunction):
            placed = function.seeded(self.graph.name, len(self.graph.vertices))
            return self._then(
                Kind.ARRIVAL, function.written, fields.result_of(function.function), function=placed
            )
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
        merged = self._then(
            Kind.MERGE, "merge", fields.either(self.items, *(other.items for other in others))
        )
        for other in others:
            if other.graph is not self.graph:
                raise GraphError(
                    f"{call_site()}: streams are merged within one graph, one inside a transaction with others "
                    "inside"
                )
            self.graph.connect(other.vertex, merged.vertex)
        return merged if all(map(self._shares_time, others)) else replace(merged, event_time=None)

    def _shares_time(self, other: "Stream[Any]") -> bool:
        """Whether the event time of its items is that of `other`'s too. What goes round a loop came from
        elsewhere."""
        return self.event_time is None or isinstance(other, Loop) or self.event_time.fits(other.event_time)

    def broadcast(self, ways: int) -> tuple["Stream[T]", ...]:
        """This stream `ways` times: every item goes down each of them."""
        if ways < 1:
            raise GraphError(f"broadcast({ways}) in graph {self.graph.name!r}: it needs at least one way")
        return (self,) * ways  # no vertex of its own: each use adds an edge

    def group(
        self, window: int, key: Key[T], **named: "Unpack[Versioned]"
    ) -> "Stream[tuple[T, ...]]":  # fmt: skip
        """A tuple for each item: the last `window` payloads with its key, itself the last; shorter at a key's
        beginning. `name`, `was`, `version`: of its state, as of `reduce`; `migrate` is given each item."""
        if not 1 <= window <= MAX_WINDOW:
            raise GraphError(
                f"group(window={window}) in graph {self.graph.name!r}: a window holds 1 to {MAX_WINDOW} items"
            )
        key = self._key(key)
        return self._then(Kind.GROUPING, name_of(key), tuple, key=key, window=window, **said(named, "group"))

    @overload
    def reduce(
        self, *, key: Key[T], combine: Fold[A], initial: None = None, emit: None = None, fused: bool = True,
        ttl: Duration | None = None, check: Callable[[Any, A], bool] | None = None, **named: "Unpack[Versioned]",
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
        check: Callable[[Any, A], bool] | None = None,
        **named: "Unpack[Versioned]",
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
        check: Callable[[Any, A], bool] | None = None,
        **named: "Unpack[Versioned]",
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
        check: Callable[[Any, A], bool] | None = None,
        **named: "Unpack[Versioned]",
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
        check: Function | None = None,
        **named: "Unpack[Versioned]",
    ) -> "Stream[Any]":
        """Fold the items of each key in global order, with a result an item.

        `accumulator = combine(accumulator, payload)` starting from `initial()`; the result is
        `emit(accumulator, payload)`, or the accumulator itself. Ready-made folds (`fs.append`, `fs.count`,
        `fs.total`) know how they begin. `fused=False` builds the same from grouping(2) and a cycle, as in the
        paper; the results are equal. `ttl`: a key is forgotten when it has been silent for this long of event
        time; what comes then begins anew, and `.late` has what is older than the mark and finds no key.
        `name`: of its state, which changed code finds by it; `was`: the name that it had before. `version`: of
        what an accumulator is, with `migrate={1: up}` for one that another version has stored: `up` is pure,
        and makes the next version's of it when its key is first touched. `check`: inside a transaction,
        `check(key, accumulator)` is true of all that one may leave.
        """
        key, initial = self._key(key), initial or getattr(combine, "initial", None)
        if initial is None:
            raise GraphError(
                f"reduce with combine={name_of(combine)} in graph {self.graph.name!r} needs initial=, a "
                "function without arguments"
            )
        self._check_transactional(check, ttl, fused)
        for function in (combine, emit):
            fields.check_function(self.items, function, call_site(), folded=True)
        if ttl is not None:
            # Here, as everything of windows/ in this class: those modules stand on this one.
            from flamestream.model.windows.expiry import expiring

            return expiring(self, key, initial, combine, emit, ttl, named)
        if not fused:
            from flamestream.model.windows.unfused import unfused_reduce

            said(named, "reduce(fused=False)")
            return unfused_reduce(self, key, initial, combine, emit, named)
        made = fields.result_of(combine if emit is None else emit)
        return self._then(
            Kind.REDUCE, name_of(combine), made, key=key, initial=initial, combine=combine, emit=emit,
            check=check, **said(named, "reduce"),
        )  # fmt: skip

    def _check_transactional(self, check: Function | None, ttl: Duration | None, fused: bool) -> None:
        if self.graph.transactional and (ttl is not None or not fused):
            raise GraphError(
                f"{call_site()}: a reduce inside a transaction has neither ttl= nor fused=False: its state is a table"
            )
        if check is not None and not self.graph.transactional:
            raise GraphError(
                f"{call_site()}: check= is of a reduce inside a transaction, which can be undone: `with "
                "graph.transaction()`"
            )

    def balance(self, function: Callable[[Any], int]) -> "Stream[T]":
        """Place the next operation's work by `function`, which gives an int32 from its key (or from the
        payload if it has no key)."""
        return Stream(self.graph, self.vertex, function, self.items, self.event_time)

    def window(
        self, shape: "Shape", *, key: "str | Callable[[T], K]", **named: "Unpack[Named]"
    ) -> "Windows[T, K]":  # fmt: skip
        """Windows over the event time of each key's items: say next what becomes of them, as in
        `.window(...).count()`.

        `shape`: `fs.tumbling("1m")`, `fs.sliding("10m", every="1m")` or `fs.session("30m")`. `name`,
        `was`: as of `reduce`. Raises GraphError if no source has `at`.
        """
        from flamestream.model.windows.shapes import check_shape
        from flamestream.model.windows.windows import Windows

        check_shape(shape, f"{call_site()}: window in graph {self.graph.name!r}")
        said(named, "window")
        return Windows(self, shape, self._key(key), named)

    @overload
    def join(
        self, other: "Stream[U]", *, on: On[T, U], within: tuple[Duration, Duration] | None = None,
        how: Literal["inner"] = "inner", unbounded: bool = False, **named: "Unpack[Named]",
    ) -> "Results[tuple[T, U]]": ...  # fmt: skip
    @overload
    def join(
        self, other: "Stream[U]", *, on: On[T, U], within: tuple[Duration, Duration] | None = None,
        how: Literal["left"], unbounded: bool = False, **named: "Unpack[Named]",
    ) -> "Results[tuple[T, U | None]]": ...  # fmt: skip
    @overload
    def join(
        self, other: "Stream[U]", *, on: On[T, U], within: tuple[Duration, Duration] | None = None, how: str,
        unbounded: bool = False, **named: "Unpack[Named]",
    ) -> "Results[tuple[T | None, U | None]]": ...  # fmt: skip
    def join(
        self, other: "Stream[Any]", *, on: On[T, Any], within: tuple[Duration, Duration] | None = None,
        how: str = "inner", unbounded: bool = False, **named: "Unpack[Named]",
    ) -> "Results[Any]":  # fmt: skip
        """Pairs (item, item of `other`) with equal keys and times near each other.

        `on`: a field or function for both streams, or a pair of them. `within`: the other's time less this
        one's is between these, as in `("-5s", "5s")`. `how="left"` or `"full"`: what has met none leaves with
        None, when it can meet none any more. `unbounded=True` instead of `within` keeps every item for ever.
        `name`, `was`: as of `reduce`. Raises GraphError.
        """
        from flamestream.model.windows.join import joined

        said(named, "join")
        return joined(self, other, on, within, how, unbounded, named)

    @overload
    def join_latest(
        self, other: "Stream[U]", *, on: On[T, U], how: Literal["inner"] = "inner", **named: "Unpack[Named]"
    ) -> "Results[tuple[T, U]]": ...
    @overload
    def join_latest(
        self, other: "Stream[U]", *, on: On[T, U], how: str, **named: "Unpack[Named]"
    ) -> "Results[tuple[T, U | None]]": ...
    def join_latest(
        self, other: "Stream[Any]", *, on: On[T, Any], how: str = "inner", **named: "Unpack[Named]"
    ) -> "Results[Any]":
        """Pairs (item, the newest item of `other` with its key that is not younger), final when the mark has
        passed the item's time.

        `how="left"`: an item for which there is none leaves with None. `name`, `was`: as of `reduce`. Raises
        GraphError.
        """
        from flamestream.model.windows.latest import joined_latest

        said(named, "join_latest")
        return joined_latest(self, other, on, how, named)

    @overload
    def join_table(
        self, other: "Stream[U]", *, on: On[T, U], how: Literal["inner"] = "inner", **named: "Unpack[Named]"
    ) -> "Stream[Changed[tuple[T, U]]]": ...
    @overload
    def join_table(
        self, other: "Stream[U]", *, on: On[T, U], how: Literal["left"], **named: "Unpack[Named]"
    ) -> "Stream[Changed[tuple[T, U | None]]]": ...
    @overload
    def join_table(
        self, other: "Stream[U]", *, on: On[T, U], how: str, **named: "Unpack[Named]"
    ) -> "Stream[Changed[tuple[T | None, U | None]]]": ...
    def join_table(
        self, other: "Stream[Any]", *, on: On[T, Any], how: str = "inner", **named: "Unpack[Named]"
    ) -> "Stream[Any]":
        """How the join of two tables changes: `fs.Changed(before, after)` of pairs, for each item that
        changes it.

        A table has the last item of each key, in global order; no event time is needed. `how="left"` or
        `"full"`: rows without a partner are in the join too, with None. `name`, `was`: as of `reduce`.
        Raises GraphError.
        """
        from flamestream.model.windows.tables import joined_tables

        said(named, "join_table")
        return joined_tables(self, other, on, how, named)

    def dedup(self, key: Key[T], *, within: Duration, **named: "Unpack[Named]") -> "Results[T]":
        """The items, but for those whose key came already at a time at most `within` earlier or later.
        `name`, `was`: as of `reduce`. Raises GraphError."""
        from flamestream.model.windows.dedup import deduplicated

        said(named, "dedup")
        return deduplicated(self, self._key(key), within, named)

    def distinct_count(
        self, value: Key[T], *, key: Key[T], **named: "Unpack[Named]"
    ) -> "Stream[tuple[Any, int]]":  # fmt: skip
        """(key, how many different values it has had so far) for each item. `name`, `was`: as of `reduce`."""
        from flamestream.model.windows.running import running_distinct

        said(named, "distinct_count")
        return running_distinct(self, self._key(value), self._key(key), named)

    def top(
        self, count: int, *, by: Key[T], key: Key[T], **named: "Unpack[Named]"
    ) -> "Stream[tuple[Any, tuple[T, ...]]]":  # fmt: skip
        """(key, a tuple of its `count` items with the greatest `by` so far) for each item: the greatest
        first, the earlier of equal ones before the later. `name`, `was`: as of `reduce`. Raises GraphError."""
        from flamestream.model.windows.running import running_top

        said(named, "top")
        return running_top(self, count, self._key(by), self._key(key), named)

    def process(
        self, *, key: Key[T], on_item: "Callable[[Any, T, Here], tuple[Any, Sequence[U]]]",
        on_time: Callable[[Any, Any], tuple[Any, Sequence[U]]] | None = None,
        due: Callable[[Any], Any] | None = None, **named: "Unpack[Versioned]",
    ) -> "Results[U]":  # fmt: skip
        """Pure functions of one's own with a state for each key, and times to be called at.

        `on_item(state, item, now)` gives (state, results): `state` is None at the beginning, and a key whose
        state is None is forgotten; `now.time` is the item's, `now.mark` how far event time has come, or None.
        `due(state)` gives the next time at which `on_time(state, time)` is to be called, or None; one that
        has been is called at once. Times are as items say them. `name`, `was`, `version`: as of `reduce`;
        `migrate` is given each state. Raises GraphError.
        """
        from flamestream.model.windows.own import processed_by

        return processed_by(self, self._key(key), on_item, on_time, due, named)

    @overload
    def call(
        self, function: "Asks[T, Awaitable[list[U]]]", *, key: Key[T] | None = None, name: str | None = None,
        **said: "Unpack[Said]",
    ) -> "Stream[U]": ...  # fmt: skip
    @overload
    def call(
        self, function: "Asks[T, Awaitable[U]]", *, key: Key[T] | None = None, name: str | None = None,
        **said: "Unpack[Said]",
    ) -> "Stream[U]": ...  # fmt: skip
    @overload
    def call(
        self, function: "Asks[T, list[U]]", *, key: Key[T] | None = None, name: str | None = None,
        **said: "Unpack[Said]",
    ) -> "Stream[U]": ...  # fmt: skip
    @overload
    def call(
        self, function: "AsksTogether[T, Awaitable[list[U]]]", *, key: Key[T] | None = None, name: str | None = None,
        **said: "Unpack[Said]",
    ) -> "Stream[U]": ...  # fmt: skip
    @overload
    def call(
        self, function: "AsksTogether[T, list[U]]", *, key: Key[T] | None = None, name: str | None = None,
        **said: "Unpack[Said]",
    ) -> "Stream[U]": ...  # fmt: skip
    @overload
    def call(
        self, function: "Asks[T, U]", *, key: Key[T] | None = None, name: str | None = None,
        **said: "Unpack[Said]",
    ) -> "Stream[U]": ...  # fmt: skip
    def call(
        self, function: Function, *, key: Key[T] | None = None, name: str | None = None,
        **said: "Unpack[Said]",
    ) -> "Stream[Any]":  # fmt: skip
        """Results that a function which asks the outside gives for each item: one, or a list of any number.

        It may be `async`, take time, and give another answer each time: it is called when its item is final,
        and a replay reads the answer in the journal. Nothing else waits. `@fs.call(...)` sets timeout, tries
        and order. `key`: answers of a key stay in one slot. `name`: of the call, its function's if it is left
        out. `at`, `unit`, `late`, `idle`, `max_ahead`: the event time of its results, as those of
        `Graph.source`; without `at` they have none. `was`: the name that the call had, whose requests and ids
        go on. Raises GraphError.
        """
        from flamestream.model.calls.stream import called_stream

        return called_stream(self, function, key, name, said)

    def transact(
        self, function: "Callable[[State, T], U]",
        *, keys: "Callable[[T], Iterable[tuple[str, Any]]] | None" = None,
    ) -> "Transacted[T, U]":  # fmt: skip
        """Transactions, one an item: `function(state, item)` reads and writes rows of the graph's tables, as in
        `state[accounts, "alice"] -= item.amount`, and all of them change or none does.

        It is pure. Raised in it, `fs.Abort(reason)` leaves everything as it was; so does a row that its
        table's `check` does not allow. `.committed` has what it gives, `.aborted` has `fs.Aborted` items. The
        outcome is that of running all transactions of the graph one after the other, in the order of items.
        `keys(item)`: the rows that it means to touch, as in `[accounts[item.source], accounts[item.target]]`. No
        outcome depends on it: debug mode makes an error item of a transaction that touches others. Raises GraphError
        if the graph has no table.
        """
        from flamestream.model.tables.ledger import transacted

        return transacted(self, function, keys)

    def upsert(
        self, table: "Table[Any, Any]", key: Key[T], value: Key[T] | None = None
    ) -> "Transacted[T, None]":
        """Each item is the value of a row of `table` from then on, or `value` of it is: a transaction, which the
        table's `check` may abort. Raises GraphError."""
        from flamestream.model.tables.ledger import upserted

        return upserted(self, table, key, value)

    def sink(self, name: str, key: Key[T] | None = None) -> None:
        """Deliver the items to the sink `name` of the manifest. Items with equal keys stay in order in one
        slot."""
        if any(v.kind is Kind.SINK and v.name == name for v in self.graph.vertices):
            raise GraphError(
                f"graph {self.graph.name!r} has two sinks named {name!r}: merge the streams, "
                "or give each its own name"
            )
        self._then(Kind.SINK, name, key=None if key is None else self._key(key))

    def _key(self, key: Key[T]) -> Function:
        return fields.key_of(self.items, key, call_site())

    def _applied(self, kind: Kind, function: Function, makes: Any) -> "Stream[Any]":
        fields.check_function(self.items, function, call_site())
        # a vectorised function has a form for each kind (flamestream/columns)
        for_kind = getattr(function, "for_kind", None)
        function = (
            function
            if for_kind is None
            else for_kind(kind, self.graph.max_results, self.graph.max_result_bytes)
        )
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
            raise GraphError(
                f"loop {head.name!r} in graph {self.graph.name!r} is closed twice: "
                "merge the streams before closing it"
            )
        self.graph.connect(back.vertex, self.vertex)
        head.closed = True
        head.balance = back.balanced  # as `_then` does for a vertex that it adds
