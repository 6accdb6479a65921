"""Running: aggregates of all items of a key so far, with a result an item: plain folds, without event time.

Does not: forget. What they keep grows with the keys (and, of `distinct_count`, with the values).
"""

from dataclasses import dataclass
from typing import Any

from flamestream.model.state_names import Named, plain, short
from flamestream.model.stream import Stream
from flamestream.model.vertex import Function
from flamestream.model.windows.aggregates import Aggregate, Value, distinct, top


@dataclass(frozen=True, slots=True)
class KeyAndResult:
    """(accumulator, item) -> (the item's key, the aggregate's value)."""

    key: Function
    aggregate: Aggregate

    @property
    def state_name(self) -> str:
        """Its name as that of an operation (state_names.py)."""
        return f"{plain(self.aggregate.written)} by {short(self.key)}"

    def __call__(self, accumulator: Any, item: Any) -> tuple[Any, Any]:
        return self.key(item), self.aggregate.result(accumulator)


def running_distinct(stream: Stream[Any], value: Value, key: Function, named: Named) -> Stream[Any]:
    """(key, number of different values so far) for each item."""
    return _running(stream, distinct(value), key, named)


def running_top(stream: Stream[Any], count: int, by: Value, key: Function, named: Named) -> Stream[Any]:
    """(key, the items with the greatest values so far) for each item. Raises GraphError."""
    return _running(stream, top(count, by), key, named)


def _running(stream: Stream[Any], aggregate: Aggregate, key: Function, named: Named) -> Stream[Any]:
    return stream.reduce(
        key=key, initial=aggregate.initial, combine=aggregate.combine, emit=KeyAndResult(key, aggregate),
        **named,
    )  # fmt: skip
