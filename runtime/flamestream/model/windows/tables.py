"""Tables: two streams as tables, each with the last item of a key, and how their join changes.

    left   (1, "a")                 (1, "b")
    right             (1, "x")                     Changed(None, (a, x))   Changed((a, x), (b, x))

A change says what was and what is, so whoever sums over the join can take back. No event time is needed: the
order of items says which is the last.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar

from flamestream.model.errors import GraphError
from flamestream.model.failure import called
from flamestream.model.payload import payload_type
from flamestream.model.state_names import Named, plain
from flamestream.model.stream import On, Stream
from flamestream.model.vertex import Function
from flamestream.model.windows.join import HOW, LEFT, RIGHT, check_graph, keys_of, on_written
from flamestream.model.windows.process import Side, on_side

P = TypeVar("P")
Row = tuple[Any, ...]
"""The item of a key, or nothing."""


@payload_type
@dataclass(frozen=True, slots=True)
class Changed(Generic[P]):
    """A change: what was, and what is now; None: nothing."""

    before: P | None
    after: P | None


@payload_type
@dataclass(frozen=True, slots=True)
class Rows:
    """Both rows of a key, and the one that the last item replaced."""

    left: Row
    right: Row
    replaced: Row


@dataclass(frozen=True, slots=True)
class KeyOfSide:
    """An item with its side -> its key."""

    keys: tuple[Function, Function]

    def __call__(self, item: Side) -> Any:
        return called(self.keys[item.number], item.item)


@dataclass(frozen=True, slots=True)
class Replace:
    """(rows, item with its side) -> the rows with it."""

    written: str
    keeps: ClassVar = "the last item of each side and key, for ever"
    form: ClassVar = "two tables"

    @property
    def state_name(self) -> str:
        """Its name as that of an operation (state_names.py)."""
        return plain(self.written)

    def __call__(self, rows: Rows, item: Side) -> Rows:
        # What was there goes along: `emit` is given the rows behind the change alone.
        if item.number == LEFT:
            return Rows((item.item,), rows.right, rows.left)
        return Rows(rows.left, (item.item,), rows.right)


@dataclass(frozen=True, slots=True)
class ChangeOf:
    """(rows, the last item) -> how the join has changed."""

    kept: tuple[int, ...]
    """Sides whose rows are in the join without a partner too."""

    def __call__(self, rows: Rows, item: Side) -> Changed[Any]:
        left, right = (rows.replaced, rows.right) if item.number == LEFT else (rows.left, rows.replaced)
        return Changed(self._pair(left, right), self._pair(rows.left, rows.right))

    def _pair(self, left: Row, right: Row) -> tuple[Any, Any] | None:
        if (left or RIGHT in self.kept) and (right or LEFT in self.kept) and (left or right):
            return left[0] if left else None, right[0] if right else None
        return None


def joined_tables(
    left: Stream[Any], right: Stream[Any], on: On[Any, Any], how: str, named: Named
) -> Stream[Any]:  # fmt: skip
    """The changes of the join of two tables. Raises GraphError."""
    if how not in HOW:
        raise GraphError(f"join_table in graph {left.graph.name!r}: how={how!r} is none of {', '.join(HOW)}")
    written = f"join_table(on={on_written(on)})"
    check_graph(left, right, written)
    both = left.map(on_side(LEFT)).merge(right.map(on_side(RIGHT)))
    changes = both.reduce(
        key=KeyOfSide(keys_of(on, left, right)),
        initial=_no_rows,
        combine=Replace(written),
        emit=ChangeOf(HOW[how]),
        **named,
    )
    return replace(changes.filter(_is_change), items=Changed)


def _no_rows() -> Rows:
    return Rows((), (), ())


def _is_change(change: Changed[Any]) -> bool:
    return change.before is not None or change.after is not None
