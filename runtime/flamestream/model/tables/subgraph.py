"""Subgraph: operations whose effect on all of their state is one transaction.

    with bank.transaction() as transaction:
        halves = transaction.open(transfers).flat_map(halves_of)
        left = halves.reduce(name="balances", key="account", initial=int, combine=added, check=not_negative)
        moved = transaction.close(left)
    moved.committed.sink("receipts")

Between `open` and `close` streams are those of a graph of their own, whose operations become one function over rows
(passage.py); each of its folds is a table. So it needs nothing of whoever runs graphs: it is a `transact`.

Keeps: what cannot be undone, or is not of one item alone, is refused where it is written. Does not: run anything.
Source: Affetti, Margara, Cugola (2017, 2020), transactional subgraphs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from flamestream.model import fields
from flamestream.model.errors import GraphError
from flamestream.model.graph import Graph
from flamestream.model.stream import Stream
from flamestream.model.tables.ledger import Ledger, Table, Transacted, added_table
from flamestream.model.tables.passage import OverRows, Passage
from flamestream.model.tables.transaction import Rules
from flamestream.model.vertex import Function, Kind, call_site, name_of
from flamestream.model.windows.marks import unlimited

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")
U = TypeVar("U")
KINDS: Final = frozenset({Kind.MAP, Kind.FLAT_MAP, Kind.FILTER, Kind.MERGE, Kind.GROUPING, Kind.REDUCE})
OUTSIDE: Final = frozenset({"balance", "call", "dedup", "join", "join_latest", "process", "sink", "window"})
"""Methods of streams that those of a subgraph refuse."""
KNOWN: Final = "map, filter, flat_map, merge, group, reduce, transact and upsert can"


@dataclass(frozen=True, slots=True)
class Opened(Stream[T]):
    """A stream within a subgraph."""

    def __getattribute__(self, name: str) -> Any:
        if name in OUTSIDE:
            raise GraphError(f"{call_site()}: {name} cannot stand inside a transaction: {KNOWN}")
        return object.__getattribute__(self, name)

    def _then(self, kind: Kind, name: str, makes: Any = None, **of_vertex: Any) -> Stream[Any]:
        made = Stream._then(self, kind, name, makes, **of_vertex)
        return Opened(made.graph, made.vertex, items=makes)


class Inside(Graph):
    """The operations of one subgraph."""

    transactional = True

    def __init__(self, outer: Graph) -> None:
        super().__init__(outer.name, max_results=outer.max_results, max_result_bytes=outer.max_result_bytes)
        self.outer, self.began = outer, call_site()
        self.ledger = OpenedLedger(self)
        self.closed = False

    def add(self, kind: Kind, name: str, **of_vertex: Any) -> int:
        """The same, of the kinds that can be undone. Raises GraphError."""
        if self.closed:
            raise GraphError(
                f"{call_site()}: {name} stands behind the end of the transaction that begins at {self.began}: "
                "what comes out of it is what close(...) gives"
            )
        if kind not in KINDS:
            what = "fs.at" if kind is Kind.ARRIVAL else f"a {kind.value}"
            raise GraphError(f"{call_site()}: {what} cannot stand inside a transaction: {KNOWN}")
        if kind in (Kind.GROUPING, Kind.REDUCE):
            self._add_table(name, of_vertex)
        return super().add(kind, name, **of_vertex)

    def _add_table(self, name: str, of_vertex: dict[str, Any]) -> None:
        """The table of a fold's accumulators."""
        if not of_vertex["given"]:
            raise GraphError(
                f"{call_site()}: {name} inside a transaction needs name=: its state is a table of that name"
            )
        if of_vertex["was"] or of_vertex["version"] != 1:
            raise GraphError(
                f"{call_site()}: {of_vertex['given']!r} is a table, since it stands inside a transaction: it has "
                "neither was= nor version="
            )
        rules = Rules(of_vertex.get("initial") or tuple, of_vertex.get("check"))
        added_table(self.outer, of_vertex["given"], rules)


@dataclass(eq=False, slots=True)
class OpenedLedger(Ledger):
    """The tables of the graph, to operations of a subgraph."""

    def enter(self, stream: Stream[Any], function: Function, keys: Function | None = None) -> int:
        """Have `function(state, item)` be called within the transaction. The number of its vertex. Raises GraphError
        for `keys`."""
        if keys is not None:
            raise GraphError(
                f"{call_site()}: keys= are those of a whole transaction, and this is a part of one: leave them out"
            )
        return stream._then(Kind.MAP, name_of(function), function=OverRows(function)).vertex

    def outcome(self, number: int, *, aborted: bool) -> Stream[Any]:
        """Results of such a function. Raises GraphError for aborts, which are the whole transaction's."""
        if aborted:
            raise GraphError(
                f"{call_site()}: an abort is that of the whole transaction: close(...).aborted has it"
            )
        return Opened(self.graph, number)


@dataclass(frozen=True, slots=True)
class Closed(Transacted[T, U]):
    """The outcomes of a subgraph's transactions."""

    @property
    def committed(self) -> Stream[U]:
        """All that has come to the end of the subgraph, of transactions that have changed what they wrote: of each
        any number of results, in their order."""
        each = self.ledger.outcome(self.number, aborted=False).flat_map(_all_of)
        return replace(unlimited(each), items=self.makes)


class Subgraph:
    """A transactional subgraph under construction: `open` a stream, use it, and `close` what is to come out."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._inside = graph, Inside(graph)
        graph.ledger = self._ledger = graph.ledger or Ledger(graph)
        self._items: Stream[Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: "TracebackType | None") -> None:
        self._graph.opened = None
        if kind is None and not self._inside.closed:
            raise GraphError(
                f"{self._inside.began}: the transaction is never closed: say close(stream) of what comes out of it"
            )

    def open(self, stream: Stream[T]) -> Stream[T]:
        """Each item of a stream begins a transaction. Raises GraphError for a second one: merge them before."""
        if self._items is not None or stream.graph is not self._graph:
            raise GraphError(
                f"{call_site()}: a transaction is opened once, by a stream of its graph: merge several before it"
            )
        if self._graph.opened is not None:
            raise GraphError(f"{call_site()}: a transaction inside a transaction: one of them is enough")
        self._items, self._graph.opened = stream, self._inside
        return Opened(self._inside, Graph.add(self._inside, Kind.SOURCE, "open"), items=stream.items)

    def close(self, first: Stream[U], *others: Stream[U]) -> Transacted[Any, U]:
        """The outcomes of the transactions: `.committed` has what has come to these streams, `.aborted` has
        `fs.Aborted` items. Nothing stands inside any more. Raises GraphError if an operation leads nowhere, or there is
        nothing that a transaction could change."""
        streams = (first, *others)
        if self._items is None or any(stream.graph is not self._inside for stream in streams):
            raise GraphError(f"{call_site()}: a transaction is closed by streams that it has opened")
        out = Graph.add(self._inside, Kind.MERGE, "close")
        for stream in streams:
            self._inside.connect(stream.vertex, out)
        self._check_ends(out)
        if not self._ledger.deciding.rules:
            raise GraphError(f"{call_site()}: the transaction changes nothing: it has no fold and no table")
        self._inside.closed, self._graph.opened = True, None
        passage = Passage(self._inside.vertices, self._inside.max_results)
        makes = fields.either(*(stream.items for stream in streams))
        return Closed(self._ledger, self._ledger.enter(self._items, passage), makes)

    def table(self, name: str) -> Table[Any, Any]:
        """The table that a fold of this name keeps its state in. Raises GraphError if there is none."""
        if name not in {vertex.given for vertex in self._inside.vertices if vertex.given}:
            raise GraphError(f"{call_site()}: the transaction has no fold named {name!r}")
        return Table(self._ledger, name)

    def _check_ends(self, out: int) -> None:
        for vertex in self._inside.vertices[:out]:
            keeps = vertex.given or isinstance(vertex.function, OverRows)
            if not vertex.outputs and not keeps:
                raise GraphError(
                    f"{vertex.place}: {vertex.kind.value} {vertex.name!r} leads nowhere: close it too, or remove it"
                )


def _all_of(results: tuple[Any, ...]) -> Iterator[Any]:
    return iter(results)
