"""Aggregates: what becomes of the items of a window.

Values are compared as Python does, but for NaN, which is the least or the greatest only where there is
nothing else.

Does not: know when a window ends (panes.py, sessions.py).
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flamestream.model.collections import Set, Vector
from flamestream.model.errors import GraphError
from flamestream.model.failure import called
from flamestream.model.ready import Count, Total
from flamestream.model.vertex import Function, name_of
from flamestream.model.windows.stream import function_of

Value = Function | str
"""A field of items by its name, or a function of an item."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A fold in three parts. `merge` gives one accumulator for two windows that become one; without it a
    session keeps its items."""

    initial: Callable[[], Any]
    combine: Callable[[Any, Any], Any]
    emit: Callable[[Any], Any] | None = None
    merge: Callable[[Any, Any], Any] | None = None
    said: str = ""

    @property
    def written(self) -> str:
        """As it stands in a graph, for messages."""
        return self.said or name_of(self.combine)

    def begun(self, item: Any) -> Any:
        """The accumulator of a window's first item."""
        return self.folded(called(self.initial), item)

    def folded(self, accumulator: Any, item: Any) -> Any:
        """The accumulator with one more item."""
        if self.said and type(self.combine) is not Total:  # a function of ours: the window is named instead
            return self.combine(accumulator, item)
        return called(self.combine, accumulator, item)

    def result(self, accumulator: Any) -> Any:
        """The value of a window."""
        return accumulator if self.emit is None else called(self.emit, accumulator)


def counted() -> Aggregate:
    """The number of items."""
    # `int` itself: by it the kernel knows a fold that begins with 0 (core/dataflow/native.py).
    return Aggregate(int, Count(), merge=operator.add, said="count()")


def total(value: Value) -> Aggregate:
    """The sum of a value, beginning with 0. Where sessions become one, their sums are added."""
    of, said = _of("total", value)
    combine = Total(value) if isinstance(value, str) else lambda before, item: before + of(item)
    return Aggregate(int, combine, merge=operator.add, said=said)


def least(value: Value) -> Aggregate:
    """The least of a value, the earlier of equal ones."""
    return _chosen("min", value, below)


def greatest(value: Value) -> Aggregate:
    """The greatest of a value, the earlier of equal ones."""
    return _chosen("max", value, above)


def mean(value: Value) -> Aggregate:
    """The sum of a value divided by the number of items: a float."""
    of, said = _of("mean", value)
    return Aggregate(
        lambda: (0, 0),
        lambda sum_count, item: (sum_count[0] + of(item), sum_count[1] + 1),
        emit=lambda sum_count: sum_count[0] / sum_count[1],
        merge=lambda a, b: (a[0] + b[0], a[1] + b[1]),
        said=said,
    )


def collected() -> Aggregate:
    """A tuple of the items, in the order in which they came."""
    # No `merge`, nor in `top`: items of two sessions come in turns, and of two accumulators nobody knows
    # which came first.
    return Aggregate(Vector, lambda items, item: items.append(item), emit=tuple, said="collect()")


def distinct(value: Value) -> Aggregate:
    """The number of different values. They are told apart with their types, as keys are."""
    of, said = _of("distinct_count", value)
    return Aggregate(Set, lambda found, item: found.add(of(item)), emit=len, merge=_union, said=said)


def top(count: int, by: Value) -> Aggregate:
    """A tuple of the `count` items with the greatest values, the greatest first, the earlier of equal ones
    before the later.

    Raises GraphError if `count` is below 1.
    """
    if count < 1:
        raise GraphError(f"top({count}): at least one item has to be asked for")
    of, said = _of(f"top({count}, by=", value=by)
    return Aggregate(
        tuple, lambda best, item: ranked(best, of(item), item, count), emit=items_of, said=said + ")"
    )


def ranked(best: tuple[Any, ...], value: Any, item: Any, count: int) -> tuple[Any, ...]:
    """The best so far, as pairs of value and item, with one more in its place: behind those that are as
    great. At most `count`."""
    place = len(best)
    while place and above(value, best[place - 1][0]):
        place -= 1
    return best if place == count else (*best[:place], (value, item), *best[place:])[:count]


def items_of(best: tuple[Any, ...]) -> tuple[Any, ...]:
    """The items of `ranked`."""
    return tuple(item for _, item in best)


def _before(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def before(a: Any, b: Any) -> bool:
        return bool(compare(a, b) or (b != b and a == a))  # noqa: PLR0124 (NaN alone is not equal to itself)

    return before


above, below = _before(operator.gt), _before(operator.lt)
"""Whether a value is greater, or less; NaN is neither than anything, and anything is than NaN."""


def _chosen(name: str, value: Value, better: Callable[[Any, Any], bool]) -> Aggregate:
    """Aggregate that chooses one value. It holds it in a tuple, which is empty at the beginning."""
    of, said = _of(name, value)

    def merge(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        return b if not a or (b and better(b[0], a[0])) else a

    return Aggregate(
        tuple,
        lambda best, item: merge(best, (of(item),)),
        emit=operator.itemgetter(0),
        merge=merge,
        said=said,
    )


def _of(name: str, value: Value) -> tuple[Function, str]:
    """The function of a value, blamed for what it raises, and the aggregate as it stands in a graph."""
    function = function_of(value)
    said = repr(value) if isinstance(value, str) else name_of(function)
    return lambda item: called(function, item), f"{name}{said}" if name.endswith("=") else f"{name}({said})"


def _union(a: Set[Any], b: Set[Any]) -> Set[Any]:
    more, fewer = (a, b) if len(a) >= len(b) else (b, a)
    for value in fewer:
        more = more.add(value)
    return more
