"""Index: a table that has, for each value of something, the keys of the rows of another table that have it.

    customers.index("by_city", key=lambda customer: customer.city)
    state[by_city, "Bern"]                            Set(["ann", "bob"])

It is kept by the transactions that change those rows, so it is never behind them, and goes back with an abort.

A new index of a table that has rows already is made of them, so what it has is always what a look at all rows would
find.

Keeps: a row that was written once is in the index under what its value has, and nowhere else. Does not: find out that
an index is new (core/protocol/stored_rows.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flamestream.model.collections import Set
from flamestream.model.errors import UserError
from flamestream.model.failure import FATAL, called, said, shortened
from flamestream.model.payloads.codec import encode
from flamestream.model.quoted import quoted
from flamestream.model.vertex import Function, name_of

Indexes = Mapping[str, list[tuple[str, Function]]]
"""The indexes of each table that has some: their names, and what of a row's value each is of."""


@dataclass(eq=False, slots=True)
class Indexed:
    """A transaction's function, and the indexes that it keeps."""

    function: Function
    indexes: Indexes

    @property
    def written(self) -> str:
        """For messages and plans."""
        return name_of(self.function)

    def __call__(self, state: Any, item: Any) -> Any:
        return called(self.function, IndexingState(state, self.indexes), item)


class IndexingState:
    """The rows of all tables, where what sets one changes its table's indexes too. Raises UserError for an index that
    is set by itself."""

    __slots__ = ("_indexes", "_names", "_state")

    def __init__(self, state: Any, indexes: Indexes) -> None:
        self._state, self._indexes = state, indexes
        self._names = {name for its in indexes.values() for name, _ in its}

    def __getitem__(self, row: Any) -> Any:
        return self._state[row]

    def __setitem__(self, row: Any, value: Any) -> None:
        its = self._its(row)
        before = self._state[row] if its else None
        self._state[row] = value
        for name, of in its:
            old, new = called(of, before), called(of, value)
            self._leave(name, old, _key(row))  # first: they may be one row
            self._state[name, new] = self._state[name, new].add(_key(row))

    def __delitem__(self, row: Any) -> None:
        its = self._its(row)
        before = self._state[row] if its else None
        del self._state[row]
        for name, of in its:
            self._leave(name, called(of, before), _key(row))

    def _its(self, row: Any) -> Sequence[tuple[str, Function]]:
        """The indexes of the row's table. Raises UserError for a row of an index."""
        table = getattr(row[0], "name", row[0]) if isinstance(row, tuple) and row else None
        if table in self._names:
            raise UserError(f"{table!r} is an index, which follows the rows of its table: set those")
        return self._indexes.get(table, ()) if isinstance(table, str) else ()

    def _leave(self, name: str, value: Any, key: Any) -> None:
        """The row with this key has that value no more."""
        left = self._state[name, value].discard(key)
        if left:
            self._state[name, value] = left
        else:
            del self._state[name, value]

    def __contains__(self, row: object) -> bool:
        return row in self._state

    def __iter__(self) -> Iterator[Any]:
        return iter(self._state)


def _key(row: tuple[Any, ...]) -> Any:
    return row[1] if len(row) == 2 else row[1:]


def indexing(function: Function, watched: Callable[[Function], Function]) -> Function:
    """The same function of a transaction; what its indexes are of is as `watched` gives it."""
    if not isinstance(function, Indexed):
        return function
    its = {table: [(name, watched(of)) for name, of in each] for table, each in function.indexes.items()}
    return Indexed(function.function, its)


class IndexRows:
    """The rows that indexes have, made of all rows of the tables that they are of, one after the other."""

    def __init__(self, indexes: Mapping[str, tuple[str, Function]]) -> None:
        """`indexes`: the table of each, and what of a row's value it is of."""
        self._indexes = indexes
        self._found: dict[bytes, list[Any]] = {}

    def add(self, row: tuple[str, Any], value: Any) -> None:
        """A row, which is (table, key), with its value. Raises UserError for one of which no index can be made."""
        table, key = row
        for index, (of_table, of) in self._indexes.items():
            if table == of_table:
                self._found.setdefault(_place(index, of, key, value), []).append(key)

    def take(self) -> Iterator[tuple[bytes, Set[Any]]]:
        """Each of the rows that are to be, by the encoding of (index, value), in their order."""
        for place in sorted(self._found):
            yield place, Set(self._found.pop(place))


def _place(index: str, of: Function, key: Any, value: Any) -> bytes:
    try:
        place: bytes = encode((index, of(value)))
    except FATAL:
        raise
    except Exception as error:
        raise UserError(
            f"index {index!r} cannot be made of the rows that are there: {name_of(of)} fails for the row with the key "
            f"{quoted(shortened(key))}: {type(error).__name__}: {quoted(said(error))}. It was given "
            f"{quoted(shortened(value))}, and has to take every value of its table. The snapshot is as it was"
        ) from error
    return place


def no_keys() -> Set[Any]:
    """The keys under a value that no row has."""
    return Set()
