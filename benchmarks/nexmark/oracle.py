"""What DuckDB answers to a query on the same events: rows to compare others with, in the order of their
values.

Does not: say in which order rows come, or what a row was before it was replaced.
"""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import duckdb
import msgspec
import pyarrow as pa

from nexmark.events import Auction, Bid, Event, Person
from nexmark.results import Row
from nexmark.sql import SQL

_TYPES = {int: pa.int64(), str: pa.string()}


class Oracle:
    """A database in memory with a table of each kind of event, to be closed."""

    def __init__(
        self, events: Sequence[Event], arrivals: Sequence[int], side_input: Mapping[int, str]
    ) -> None:
        """`arrivals`: when each event came, in ms. Raises ValueError if there are not as many as events."""
        self._database = duckdb.connect(config={"threads": 1})
        for kind in (Person, Auction, Bid):
            self._add(kind.__name__.lower(), _table(kind, events, arrivals))
        self._add("side_input", pa.table({"key": list(side_input), "value": list(side_input.values())}))

    def rows(self, query: str) -> list[Row]:
        """The rows of `q0` to `q22`, sorted, each as often as it is there."""
        return sorted(self._database.execute(SQL[query]).fetchall())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def _add(self, name: str, table: pa.Table) -> None:
        self._database.register(f"given_{name}", table)
        self._database.execute(f"CREATE TABLE {name} AS FROM given_{name}")


def _table(kind: type[Event], events: Sequence[Event], arrivals: Sequence[int]) -> pa.Table:
    """The events of a kind, with the number of each in `events` and when it came."""
    rows = [
        msgspec.structs.asdict(event) | {"number": number, "arrival": arrival}
        for number, (event, arrival) in enumerate(zip(events, arrivals, strict=True))
        if isinstance(event, kind)
    ]
    fields = [(field.name, _TYPES[field.type]) for field in msgspec.structs.fields(kind)]
    return pa.Table.from_pylist(rows, pa.schema([*fields, ("number", pa.int64()), ("arrival", pa.int64())]))
