"""Aggregates: what becomes of the items of a window.

Does not: know when a window ends (panes.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flamestream.model.graph import name_of


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A fold in three parts, as `Stream.reduce` has it. `merge` gives one accumulator for two windows that become one; without it a
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

    def result(self, accumulator: Any) -> Any:
        """The value of a window."""
        return accumulator if self.emit is None else self.emit(accumulator)


def counted() -> Aggregate:
    """The number of items."""
    return Aggregate(int, lambda count, _: count + 1, merge=lambda a, b: a + b, said="count()")
