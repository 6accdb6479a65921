"""Ledger: the tables of a graph, and everything that changes them, as one fold over all transactions.

    transfers -> with its function's number -+
    orders    -> with its function's number -+-> merge -> fold of one key, all rows -> committed, aborted, changes

So what a transaction sees and leaves is what a serial execution in the order of items gives, in every runner and
through any crash: a fold's own promise. The price is that one worker decides, whatever their number; rows that are
worked on where they live are the next step (docs/authors/plan-transactions.md).

Keeps: rows are found by their table's name, so tables may come and go. Does not: run a function (transaction.py).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from flamestream.model import fields
from flamestream.model.collections import Map, Set
from flamestream.model.errors import GraphError
from flamestream.model.payload import payload_type
from flamestream.model.payloads.codec import decode, encode
from flamestream.model.state_names import TABLES, check_name, form_of_tables
from flamestream.model.stream import Key, Loop, Stream
from flamestream.model.tables.index import Indexed, IndexRows, no_keys
from flamestream.model.tables.kept_changes import SLOT, keep
from flamestream.model.tables.transaction import Aborted, Decision, Read, Rules, State, Write, decide
from flamestream.model.vertex import Function, Kind, call_site, name_of
from flamestream.model.windows.marks import unlimited
from flamestream.model.windows.process import Side

if TYPE_CHECKING:
    from flamestream.model.graph import Graph

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K")
V = TypeVar("V")
ALL: Final = encode(None)
"""The one key of the fold."""


@payload_type
@dataclass(frozen=True, slots=True)
class Rows:
    """All rows, and what the last transaction has done."""

    rows: Map[tuple[str, Any], Any]
    number: int = -1
    decision: Decision | None = None


@dataclass(eq=False, slots=True)
class Deciding:
    """(rows, a transaction with the number of its function) -> the rows behind it."""

    functions: list[Function] = field(default_factory=list)
    rules: dict[str, Rules] = field(default_factory=dict)
    keys: dict[int, Function] = field(default_factory=dict)
    """Rows that a function means to touch, made of an item; by the number of the function."""
    indexes: dict[str, tuple[str, Function]] = field(default_factory=dict)
    """The table of each index, and what of a row's value it is of; both tables by the names that they are stored
    by."""
    keeps: ClassVar = "every row that was written, until a transaction deletes it"

    @property
    def form(self) -> str:
        """The form of its state (state_names.py)."""
        return form_of_tables(map(self.stored, self.rules))

    @property
    def written(self) -> str:
        """For messages and plans."""
        return f"transact({', '.join(map(name_of, self.functions))})"

    def stored(self, table: str) -> str:
        """The name that the rows of a table are stored by."""
        return self.rules[table].stored or table

    def completed(self, left: Rows) -> Rows:
        """The rows that other code has left, as this one has them: of its own tables alone, and with those of indexes
        that are new. Raises UserError for an index that cannot be made."""
        tables, rows, has = set(map(self.stored, self.rules)), left.rows, set[str]()
        for row in left.rows:
            has.add(row[0])
            if row[0] not in tables:
                rows = rows.delete(row)
        fresh = {index: its for index, its in self.indexes.items() if index not in has}
        made = IndexRows(fresh)
        for row, value in rows.items() if fresh else ():
            made.add(row, value)
        for place, keys in made.take():
            rows = rows.set(decode(place), keys)
        return replace(left, rows=rows)

    def decide(self, read: Read, item: Side) -> Decision:
        """The decision of a transaction."""
        return decide(self.functions[item.number], item.item, read, self.rules)

    def __call__(self, before: Rows, item: Side) -> Rows:
        decision, rows = self.decide(before.rows.get, item), before.rows
        for write in decision.writes:
            row = self.stored(write.table), write.key
            rows = rows.delete(row) if write.deleted else rows.set(row, write.after)
        return Rows(rows, item.number, decision)


@dataclass(eq=False, slots=True)
class Ledger:
    """The ledger of one graph."""

    graph: "Graph"
    deciding: Deciding = field(default_factory=Deciding)
    merged: int | None = None
    """The vertex at which all transactions come together; None: there are none yet."""
    decisions: Stream[Any] | None = None
    indexes: dict[str, list[tuple[str, Function]]] = field(default_factory=dict)

    def index(self, table: str, name: str, key: Function, was: str) -> "Table[Any, Any]":
        """An index of a table, which all transactions keep, those before it too."""
        made = added_table(self.graph, name, Rules(no_keys, stored=was))
        self.deciding.indexes[self.deciding.stored(name)] = self.deciding.stored(table), key
        if not self.indexes:
            functions = self.deciding.functions
            functions[:] = [Indexed(function, self.indexes) for function in functions]
        self.indexes.setdefault(table, []).append((name, key))
        return made

    def enter(self, stream: Stream[Any], function: Function, keys: Function | None = None) -> int:
        """Have the items of a stream be transactions. The number of their function."""
        number = len(self.deciding.functions)
        if keys is not None:
            self.deciding.keys[number] = keys
        self.deciding.functions.append(Indexed(function, self.indexes) if self.indexes else function)
        numbered = stream.map(Numbered(number, function))
        if self.merged is not None:
            self.graph.connect(self._behind(numbered).vertex, self.merged)
            return number
        merged = numbered._then(Kind.MERGE, "merge")
        self.merged = merged.vertex
        self.decisions = merged.reduce(
            key=_all, initial=_no_rows, combine=self.deciding, emit=_told, name=TABLES
        )
        return number

    def _behind(self, numbered: Stream[Any]) -> Stream[Any]:
        """The same transactions; those that come of the outcomes of others go round to the one fold again (!): without
        the head of a loop nobody would find an end of the graph."""
        assert self.decisions is not None, "transactions come together in the fold"
        if numbered.vertex not in self.graph.reachable(self.decisions.vertex):
            return numbered
        head: Loop[Any] = Loop(self.graph, self.graph.add(Kind.LOOP, "transactions", max_iterations=1))
        head.close(numbered)
        return head

    def outcome(self, number: int, *, aborted: bool) -> Stream[Any]:
        """The transactions of a function that came out like this."""
        told = DecidedAs(number, aborted, self.deciding.functions[number])
        return unlimited(self.decided(call_site()).flat_map(told))

    def decided(self, where: str) -> Stream[Any]:
        """(number of the function, decision) of each transaction. Raises GraphError if there is none."""
        if self.decisions is None:
            raise GraphError(
                f"{where}: no transaction of graph {self.graph.name!r} stands before it: write it below the first "
                "transact or upsert"
            )
        return self.decisions


@dataclass(frozen=True, slots=True)
class Table(Generic[K, V]):
    """A table of a graph: `state[table, key]` in a transaction's function is one of its rows."""

    ledger: Ledger
    name: str

    def __getitem__(self, key: K) -> tuple[str, K]:
        """A row of the table, as `keys=` of a `transact` names it."""
        return self.name, key

    def index(self, name: str, *, key: Callable[[V], Any], was: str = "") -> "Table[Any, Set[K]]":
        """A table that has, for each value of `key(row's value)`, the keys of the rows that have it.

        It is kept by the transactions that set the rows. Where the table has rows already, a new index is made of
        them. `was`: the name that it had at first. Raises GraphError if the graph has a table of that name.
        """
        return self.ledger.index(self.name, name, key, was)

    def changes(self) -> Stream[Write[K, V]]:
        """Each row that a transaction of the graph changes, in their order. Raises GraphError if none stands before
        it."""
        # as long as it is (!): a row that has changed is never missing
        return unlimited(self.ledger.decided(call_site()).flat_map(WritesTo(self.name)))

    def keep_changes(self, last: int = SLOT) -> None:
        """Keep the `last` changes of each row at least, so that clients of the job can watch it. Raises GraphError for
        more than 63,000, and as `changes` does."""
        keep(self.changes(), self.name, last)


@dataclass(frozen=True, slots=True)
class Transacted(Generic[T, R]):
    """The outcomes of a stream's transactions: each is either committed or aborted."""

    ledger: Ledger
    number: int
    makes: Any

    @property
    def committed(self) -> Stream[R]:
        """The values that the function gave, of transactions that have changed what they wrote."""
        return replace(self.ledger.outcome(self.number, aborted=False), items=self.makes)

    @property
    def aborted(self) -> Stream[Aborted[T]]:
        """The others, with the reason."""
        return self.ledger.outcome(self.number, aborted=True)


@dataclass(frozen=True, slots=True)
class Numbered:
    """An item -> the same as a transaction, with the number of its function."""

    number: int
    function: Function

    @property
    def written(self) -> str:
        """For messages and plans."""
        return f"transact {name_of(self.function)}"

    def __call__(self, item: Any) -> Side:
        return Side(self.number, item)


@dataclass(frozen=True, slots=True)
class DecidedAs:
    """The outcome of a decision, if it is of a function and came out like this."""

    number: int
    aborted: bool
    function: Function

    @property
    def written(self) -> str:
        """For messages and plans."""
        return f"{'aborted' if self.aborted else 'committed'} {name_of(self.function)}"

    def __call__(self, told: tuple[int, Decision]) -> list[Any]:
        number, decision = told
        return [decision.result] if number == self.number and decision.aborted == self.aborted else []


@dataclass(frozen=True, slots=True)
class WritesTo:
    """The writes of a decision to one table."""

    table: str

    @property
    def written(self) -> str:
        """For messages and plans."""
        return f"changes of {self.table}"

    def __call__(self, told: tuple[int, Decision]) -> list[Write[Any, Any]]:
        return [write for write in told[1].writes if write.table == self.table]


@dataclass(frozen=True, slots=True)
class Put:
    """(state, item) -> nothing: the item, or a part of it, is the value of a row."""

    table: Table[Any, Any]
    key: Function
    value: Function | None

    @property
    def written(self) -> str:
        """For messages and plans."""
        return f"upsert({self.table.name})"

    def __call__(self, state: State, item: Any) -> None:
        state[self.table, self.key(item)] = item if self.value is None else self.value(item)


def added_table(graph: "Graph", name: str, rules: Rules) -> Table[Any, Any]:
    """A table of a graph. Raises GraphError if it has one of that name."""
    check_name(name, "a table")
    ledger = graph.ledger = graph.ledger or Ledger(graph)
    if name in ledger.deciding.rules:
        raise GraphError(
            f"{call_site()}: graph {graph.name!r} has two tables named {name!r}: use the first one twice"
        )
    if (stored := rules.stored or name) in map(ledger.deciding.stored, ledger.deciding.rules):
        raise GraphError(
            f"{call_site()}: two tables of graph {graph.name!r} would have the rows of {stored!r}: was= is the name "
            "that a table had, and no other has now"
        )
    ledger.deciding.rules[name] = rules
    return Table(ledger, name)


def transacted(
    stream: Stream[T], function: Callable[[State, T], R], keys: Function | None = None
) -> Transacted[T, R]:
    """The outcomes of `function(state, item)`. Raises GraphError if the graph has no table."""
    ledger = stream.graph.ledger
    if ledger is None:
        raise GraphError(
            f"{call_site()}: transact in graph {stream.graph.name!r}, which has no graph.table(...)"
        )
    return Transacted(ledger, ledger.enter(stream, function, keys), fields.result_of(function))


def upserted(
    stream: Stream[T], table: Table[Any, Any], key: Key[T], value: Key[T] | None
) -> Transacted[T, None]:
    """Each item is put into a row of the table."""
    put = Put(table, stream._key(key), None if value is None else stream._key(value))
    return transacted(stream, put)


def _all(_item: Side) -> None:
    return None


def _no_rows() -> Rows:
    return Rows(Map())


def _told(rows: Rows, _item: Side) -> tuple[int, Decision | None]:
    return rows.number, rows.decision


def completed(graph: "Graph", state: Mapping[tuple[int, bytes], Any]) -> dict[tuple[int, bytes], Any]:
    """The state of each vertex and key that other code has left, as this graph has it (`Deciding.completed`)."""

    def value(vertex: int, value: Any) -> Any:
        deciding = graph.vertices[vertex].combine
        return deciding.completed(value) if isinstance(deciding, Deciding) else value

    return {(vertex, key): value(vertex, each) for (vertex, key), each in state.items()}


def folded(
    graph: "Graph", state: Mapping[tuple[int, bytes], Any], deleted: object
) -> dict[tuple[int, bytes], Any]:
    """The state of each vertex and key where a snapshot has each row by itself: as the fold has them. `deleted` is
    given for rows that are no more."""
    found, rows = dict[tuple[int, bytes], Any](), dict[int, list[tuple[bytes, Any]]]()
    for (vertex, key), value in state.items():
        if key != ALL and isinstance(graph.vertices[vertex].combine, Deciding):
            rows.setdefault(vertex, []).append((key, value))
        else:
            found[vertex, key] = value
    for vertex, its in rows.items():
        before = found.get((vertex, ALL), Rows(Map())).rows
        for key, value in its:
            row = decode(key)
            before = before.delete(row) if value is deleted else before.set(row, value)
        found[vertex, ALL] = Rows(before)
    return found
